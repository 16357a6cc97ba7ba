"""Pages that people open from disk: one file each, which asks nothing of the network."""

from feddiv.pages.markup import Html, tag, text
from feddiv.pages.page import page
from feddiv.pages.parts import facts, image, section, table

__all__ = ["Html", "facts", "image", "page", "section", "table", "tag", "text"]
