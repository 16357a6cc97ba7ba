"""What mkdocs calls: parts of pages that are read from the code take the place of their markers."""

import re
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[2]))  # so that this folder can be imported

from docs.generate import choices, command_line, config_keys

PARTS: Mapping[str, Callable[[], str]] = {
    "command line": command_line.as_markdown,
    "config keys": config_keys.as_markdown,
    "choices": choices.as_markdown,
    "feddiv variants": lambda: config_keys.variants_of("feddiv", ("plus", "paper", "release")),
}
MARKER = re.compile(r"<!-- generated: (.+?) -->")


def on_page_markdown(markdown: str, **_: Any) -> str:
    """The page with its generated parts."""
    return MARKER.sub(lambda match: PARTS[match[1]](), markdown)
