"""CVAT: a ZIP in ImageNet's format, which has a folder of images for each label.

Its own exports come with images in folders, or as a list of images with numbers of labels
(`synsets.txt` and a text file for each subset). Names of samples are written as in an address (a
slash is %2F), so that they are names of files.
"""

from __future__ import annotations

import io
import re
import zipfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import PurePosixPath
from typing import Final
from urllib.parse import quote, unquote

from feddiv.audits.exchange.items import FoundDecision, Item, picture
from feddiv.audits.label_audit import LabelAudit
from feddiv.core.errors import UserError

SYNSETS: Final = "synsets.txt"
NO_LABEL: Final = ("no_label", "NoLabel")
MOST_MEMBERS: Final = 1_000_000
LARGEST: Final = 1 << 26  # bytes of a list
LINE: Final = re.compile(
    r'"(?P<quoted>[^"]*)"(?P<ending>\S*)(?P<more>.*)|(?P<plain>\S+)(?P<rest>.*)'
)
PLAIN: Final = " ,()+&'!@=~"  # of a file's name, beside letters, digits and _.-
LONGEST: Final = 200  # characters of a file's name


def archive(audit: LabelAudit, items: Sequence[Item], where: str) -> bytes:
    """The ZIP: `label/label_sample.png`, as the format's documentation names them."""
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w", zipfile.ZIP_STORED) as packed:
        for item in items:
            shown = picture(audit, item)
            if shown is None:
                raise UserError(
                    f"{where}: sample {item.sample!r} is no image that is here, and CVAT is for "
                    "images; use --to csv or --to label-studio"
                )
            data, kind = shown
            name = f"{_file(item.given)}_{_file(item.sample)}"
            if len(name) > LONGEST:
                raise UserError(f"{where}: sample {item.sample!r}: its name is too long for a file")
            stamped = zipfile.ZipInfo(f"{_file(item.given)}/{name}.{kind}")  # the same bytes always
            packed.writestr(stamped, data)
    return content.getvalue()


def read(
    content: bytes, samples: Mapping[str, object], classes: Sequence[str]
) -> Iterator[FoundDecision]:
    """The label of each sample; ValueError where it is no such archive.

    Nothing says who looked at what: an unchanged label may be one that nobody has seen.
    """
    try:
        with zipfile.ZipFile(io.BytesIO(content)) as packed:
            names = packed.namelist()
            if len(names) > MOST_MEMBERS:
                raise ValueError(f"has more than {MOST_MEMBERS:,} files")
            lists = {name: _text(packed, name) for name in names if name.endswith(".txt")}
    except (zipfile.BadZipFile, NotImplementedError, RuntimeError, OSError, EOFError) as error:
        raise ValueError(f"is no ZIP archive that can be read ({error})") from None
    known = {_file(name): name for name in samples} | {name: name for name in samples}
    files = {_file(name): name for name in classes}
    if any(PurePosixPath(name).name == SYNSETS for name in lists):
        yield from _listed(lists, known, files)
        return
    for name in names:
        parts = PurePosixPath(name).parts
        if name.endswith("/") or len(parts) < 2 or parts[0] in NO_LABEL:
            continue
        label = files.get(parts[0], unquote(parts[0]))
        sample = _sample(PurePosixPath(parts[-1]).stem, known, files)
        yield FoundDecision(sample, label, looked=False)


def _listed(
    lists: Mapping[str, str], known: Mapping[str, str], files: Mapping[str, str]
) -> Iterator[FoundDecision]:
    """Lines such as `name.jpg 3`, or `"name with spaces".jpg 3`."""
    synsets = next(text for name, text in lists.items() if PurePosixPath(name).name == SYNSETS)
    labels = [line.strip() for line in synsets.splitlines() if line.strip()]
    for name, text in lists.items():
        if PurePosixPath(name).name == SYNSETS:
            continue
        for line in filter(None, map(str.strip, text.splitlines())):
            match = LINE.fullmatch(line)
            numbers = (
                (match["more"] if match["plain"] is None else match["rest"]).split()
                if match
                else []
            )
            if match is None or len(numbers) > 1 or not all(each.isdigit() for each in numbers):
                raise ValueError(f"{name}: {line[:80]!r} is no image with the number of its label")
            if not numbers:
                continue
            if int(numbers[0]) >= len(labels):
                raise ValueError(
                    f"{name}: label {numbers[0]} is none of {len(labels)} in {SYNSETS}"
                )
            path = match["quoted"] if match["plain"] is None else match["plain"]
            stem = (
                PurePosixPath(path).stem if match["plain"] is not None else PurePosixPath(path).name
            )
            label = labels[int(numbers[0])]
            yield FoundDecision(
                _sample(stem, known, files), files.get(label, unquote(label)), looked=False
            )


def _sample(stem: str, known: Mapping[str, str], files: Mapping[str, str]) -> str:
    """The sample behind a file's name: the labels that it once had stand before it."""
    while stem not in known:
        label = next((each for each in files if stem.startswith(f"{each}_")), None)
        if label is None:
            return unquote(stem)
        stem = stem.removeprefix(f"{label}_")
    return known[stem]


def _file(name: str) -> str:
    return quote(name, safe=PLAIN)


def _text(packed: zipfile.ZipFile, name: str) -> str:
    if packed.getinfo(name).file_size > LARGEST:
        raise ValueError(f"{name} has more than {LARGEST:,} bytes")
    with packed.open(name) as file:
        return file.read(LARGEST).decode("utf-8", "strict")
