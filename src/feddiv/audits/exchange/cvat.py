"""CVAT: a ZIP in ImageNet's format, which has a folder of images for each label.

Its own exports come with images in folders, or as a list of images with numbers of labels
(`synsets.txt` and a text file for each subset). What no file's name can hold is written as in an
address (a slash is %2F). On the way names may be encoded once more, decoded, or have their accents
apart: they are still known.
"""

from __future__ import annotations

import io
import re
import unicodedata
import zipfile
import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import PurePosixPath
from typing import Final
from urllib.parse import quote, unquote

from feddiv.audits.exchange.items import FoundDecision, Item, check_path, endings, picture
from feddiv.audits.label_audit import LabelAudit
from feddiv.core.errors import UserError
from feddiv.core.names import LONGEST_NAME

SYNSETS: Final = "synsets.txt"
NO_LABEL: Final = ("no_label", "NoLabel")
MOST_MEMBERS: Final = 1_000_000
LARGEST: Final = 1 << 26  # bytes of all lists together
MOST_LABELS: Final = 1_000_000
LONGEST_LINE: Final = LONGEST_NAME + 100  # a file, and a number
LINE: Final = re.compile(
    r'"(?P<quoted>[^"]*)"(?P<ending>\S*)(?P<more>.*)|(?P<plain>\S+)(?P<rest>.*)'
)
PLAIN: Final = " ,()+&'!@=~"  # of a file's name, beside letters, digits and _.-
LONGEST: Final = 200  # bytes of a file's name
MOST_FORMS: Final = 100  # of one name, with fewer and fewer labels before it
LEVELS: Final = 8  # of encoding: each program on the way may add one
# Of these methods zipfile unpacks no more than it is asked for.
BOUNDED: Final = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)
UTF8: Final = 0x800  # the flag of a name in a ZIP
MEMBER: Final = b"PK\x01\x02"  # what each file's entry in the list of a ZIP begins with


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
            if len(name.encode()) > LONGEST:
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
    if content.count(MEMBER) > MOST_MEMBERS:  # zipfile makes an object of each as it opens them
        raise ValueError(f"has more than {MOST_MEMBERS:,} files")
    try:
        with zipfile.ZipFile(io.BytesIO(content)) as packed:
            names = [_member(each) for each in packed.infolist()]
            for name in names:
                check_path(name)
            _check_size(packed)
            lists = {
                name: _text(packed, each)
                for name, each in zip(names, packed.infolist(), strict=True)
                if name.endswith(".txt")
            }
    except (zipfile.BadZipFile, EOFError, zlib.error) as error:
        raise ValueError(f"is a damaged ZIP archive ({error})") from None
    except (NotImplementedError, RuntimeError, OSError) as error:
        raise ValueError(f"is no ZIP archive that can be read ({error})") from None
    known, labels = _Names.of(samples), _Names.of(classes)
    if any(PurePosixPath(name).name == SYNSETS for name in lists):
        yield from _listed(lists, known, labels)
        return
    for name in names:
        parts = PurePosixPath(name).parts
        if name.endswith("/") or len(parts) < 2 or parts[0] in NO_LABEL:
            continue
        label = labels.find(parts[0]) or unquote(parts[0])
        file = PurePosixPath(*parts[1:]).with_suffix("")
        yield FoundDecision(_sample(file, known, labels), label, looked=False)


@dataclass(frozen=True)
class _Names:
    """Names as they are and as `archive` writes them; and, of those that this tells apart, however
    they were encoded."""

    exact: Mapping[str, str]
    plain: Mapping[str, str]

    @classmethod
    def of(cls, names: Iterable[str]) -> _Names:
        own = list(names)
        forms: dict[str, list[str]] = {}
        for name in own:
            forms.setdefault(_plain(name), []).append(name)
        exact = {_file(name): name for name in own} | {name: name for name in own}
        return cls(exact, {form: each[0] for form, each in forms.items() if len(each) == 1})

    def find(self, text: str) -> str | None:
        return self.exact.get(text) or self.plain.get(_plain(text))


def _listed(lists: Mapping[str, str], known: _Names, classes: _Names) -> Iterator[FoundDecision]:
    """Lines such as `name.jpg 3`, or `"name with spaces".jpg 3`."""
    synsets = next(text for name, text in lists.items() if PurePosixPath(name).name == SYNSETS)
    labels = list(islice(_lines(SYNSETS, synsets), MOST_LABELS + 1))
    if len(labels) > MOST_LABELS:
        raise ValueError(f"{SYNSETS}: has more than {MOST_LABELS:,} labels")
    for name, text in lists.items():
        if PurePosixPath(name).name == SYNSETS:
            continue
        for line in _lines(name, text):
            match = LINE.fullmatch(line)
            numbers = (
                (match["more"] if match["plain"] is None else match["rest"]).split()
                if match
                else []
            )
            if match is None or len(numbers) > 1 or not all(each.isdecimal() for each in numbers):
                raise ValueError(f"{name}: {line[:80]!r} is no image with the number of its label")
            if not numbers:
                continue
            if int(numbers[0]) >= len(labels):
                raise ValueError(
                    f"{name}: label {numbers[0]} is none of {len(labels)} in {SYNSETS}"
                )
            if match["plain"] is not None:
                file = PurePosixPath(match["plain"]).with_suffix("")
            else:
                file = PurePosixPath(match["quoted"])
            label = labels[int(numbers[0])]
            sample = _sample(file, known, classes)
            yield FoundDecision(sample, classes.find(label) or unquote(label), looked=False)


def _sample(file: PurePosixPath, samples: _Names, labels: _Names) -> str:
    """The sample behind a file: the labels that it once had stand before its name. Its slashes are
    folders again where somebody has decoded them."""
    check_path(str(file))
    for text in endings(file):
        found = _behind(text, samples.exact, labels.exact)
        found = found or _behind(_plain(text), samples.plain, labels.plain)
        if found is not None:
            return found
    return unquote(file.name)


def _behind(text: str, known: Mapping[str, str], labels: Mapping[str, str]) -> str | None:
    """What is known once some labels are taken away before it."""
    left, seen = [text], {text}
    longest = max(map(len, labels), default=0)
    while left and len(seen) < MOST_FORMS:
        text = left.pop()
        if text in known:
            return known[text]
        ends = (at for at, sign in enumerate(text[: longest + 1]) if sign == "_")
        shorter = {text[at + 1 :] for at in ends if text[:at] in labels} - seen
        left += sorted(shorter)
        seen |= shorter
    return None


def _plain(name: str) -> str:
    """A name without any encoding, its accents with their letters."""
    for _ in range(LEVELS):
        if (found := unquote(name)) == name:
            break
        name = found
    return unicodedata.normalize("NFC", name)


def _member(each: zipfile.ZipInfo) -> str:
    """The name of a file in a ZIP; some programs write UTF-8 and do not say so."""
    if each.flag_bits & UTF8:
        return each.filename
    try:
        return each.filename.encode("cp437").decode()
    except UnicodeError:
        return each.filename


def _file(name: str) -> str:
    return "".join(
        each if each > "~" and unicodedata.category(each)[0] in "LMNPS" else quote(each, safe=PLAIN)
        for each in name
    )


def _check_size(packed: zipfile.ZipFile) -> None:
    """Before anything is unpacked: many lists fill the memory as well as a large one."""
    size = sum(each.file_size for each in packed.infolist() if _member(each).endswith(".txt"))
    if size > LARGEST:
        raise ValueError(f"its lists (.txt) have {size:,} bytes, at most {LARGEST:,} are read")


def _text(packed: zipfile.ZipFile, each: zipfile.ZipInfo) -> str:
    if each.compress_type not in BOUNDED:
        raise ValueError(
            f"{each.filename}: is packed by method {each.compress_type}; use deflate, as CVAT does"
        )
    try:
        with packed.open(each) as file:
            content = file.read(each.file_size)
    except (zipfile.BadZipFile, RuntimeError, OSError, EOFError):
        raise
    except Exception as error:  # each method of packing has errors of its own
        raise zipfile.BadZipFile(f"{each.filename} is damaged: {error}") from None
    try:
        return content.decode()
    except UnicodeDecodeError:
        raise ValueError(f"{each.filename}: is no text in UTF-8") from None


def _lines(name: str, text: str) -> Iterator[str]:
    """The lines of a list that have something in them, one at a time."""
    for line in filter(None, map(str.strip, io.StringIO(text))):
        if len(line) > LONGEST_LINE:
            raise ValueError(
                f"{name}: a line begins with {line[:40]!r} and has {len(line):,} characters, at "
                f"most {LONGEST_LINE:,} are allowed"
            )
        yield line
