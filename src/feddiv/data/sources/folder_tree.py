"""A folder of images, or of texts, as a list of paths, and what in it was neither."""

import os
import stat
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, Literal

from feddiv.core.errors import UserError
from feddiv.data.images.listing import NOT_THERE, some
from feddiv.data.images.pixels import image_suffixes
from feddiv.data.texts.files import SUFFIX

IGNORED: Final = frozenset({"__macosx", "@eadir", "thumbs.db", "desktop.ini"})  # of file managers

DEEPEST: Final = 50  # folders in folders

PathParts = tuple[str, ...]


@dataclass
class Tree:
    """Samples as parts of their path below `root`, sorted.

    They are images; where there is none, texts.
    """

    root: Path
    follow_links: bool
    kind: Literal["images", "texts"] = "images"
    samples: list[PathParts] = field(default_factory=list)
    texts: list[PathParts] = field(default_factory=list)
    folders: list[PathParts] = field(default_factory=list)
    others: list[str] = field(default_factory=list)
    links: list[str] = field(default_factory=list)

    @classmethod
    def of(cls, root: Path, follow_links: bool) -> "Tree":
        """Walk through the folder; hidden files and folders are passed by."""
        if not root.is_dir():
            kind = "is a file" if root.exists() else "there is no such folder"
            raise UserError(f"data.path={root}: {kind}; it has to name a folder of class folders")
        tree = cls(root, follow_links)
        try:
            tree._walk((), (os.path.realpath(root),))
        except OSError as error:
            raise UserError(
                f"{error.filename}: cannot be read ({error.strerror or error})"
            ) from None
        if not tree.samples and tree.texts:
            tree.kind, tree.samples = "texts", tree.texts
        else:
            tree.others = sorted([*tree.others, *("/".join(place) for place in tree.texts)])
        return tree

    def _walk(self, parts: PathParts, real: PathParts) -> None:
        """`real` are the true paths of this folder and those above it: a link may lead back."""
        if len(parts) > DEEPEST:
            raise UserError(f"data.path={self.root}: folders are more than {DEEPEST} deep")
        with os.scandir(self.root.joinpath(*parts)) as entries:
            found = sorted(entries, key=lambda entry: entry.name)
        for entry in found:
            if entry.name.startswith(".") or entry.name.casefold() in IGNORED:
                continue
            place = (*parts, entry.name)
            if entry.is_symlink() and not self._may_follow(entry, real[0]):
                self.links.append("/".join(place))
            elif (kind := _kind(entry)) == "folder":
                target = os.path.realpath(entry.path)
                if target not in real:
                    self.folders.append(place)
                    self._walk(place, (*real, target))
            elif _named_as_image(entry.name) and kind != "other":
                self.samples.append(place)
            elif entry.name.lower().endswith(SUFFIX) and kind != "other":
                self.texts.append(place)
            else:
                self.others.append("/".join(place))

    def _may_follow(self, entry: "os.DirEntry[str]", root: str) -> bool:
        target = os.path.realpath(entry.path)
        return self.follow_links or os.path.commonpath([root, target]) == root

    def top(self) -> list[str]:
        """Names of the folders of the first level."""
        return [parts[0] for parts in self.folders if len(parts) == 1]

    def below(self, name: str) -> Iterator[PathParts]:
        """Samples in a folder of the first level, by their path from there on."""
        return (parts[1:] for parts in self.samples if parts[0] == name and len(parts) > 1)

    def notes(self) -> list[str]:
        """What was passed by that somebody may have meant."""
        notes = []
        if self.links:
            notes.append(
                f"links that lead out of {self.root}, left out: {len(self.links):,} "
                f"({some(self.links)}); data.follow_links=true takes them"
            )
        if self.others:
            notes.append(
                f"files that are no {self.kind}, left out: {len(self.others):,} "
                f"({some(self.others)})"
            )
        return notes


def _kind(entry: "os.DirEntry[str]") -> Literal["folder", "file", "nothing", "other"]:
    """What a name stands for; pipes and devices are other things, which nobody may wait for.

    A link to nothing, or to itself, is an image that cannot be read: it will be named.
    """
    try:
        # is_dir and is_file know it without asking the disk, but do not tell why a link fails.
        mode = os.stat(entry.path).st_mode if entry.is_symlink() else None
    except OSError as error:
        if error.errno in NOT_THERE:
            return "nothing"
        raise
    if entry.is_dir() if mode is None else stat.S_ISDIR(mode):
        return "folder"
    return "file" if (entry.is_file() if mode is None else stat.S_ISREG(mode)) else "other"


def _named_as_image(name: str) -> bool:
    return os.path.splitext(name)[1].lower() in image_suffixes()
