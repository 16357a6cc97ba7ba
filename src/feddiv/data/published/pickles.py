"""The one place that unpickles: published data that exist only as pickles.

A pickle may name any importable function and have it called. Here it is read as data by a machine
of our own (`plain_pickle.py`), which knows arrays of numbers and plain containers; whatever else a
file names is refused, and nothing is looked up. Weights saved by torch go through torch's own
restricted reader, which knows tensors and plain containers.
"""

from __future__ import annotations

import hashlib
import io
import zipfile
from pathlib import Path
from typing import Any, Final

from feddiv.core.errors import UserError, in_one_line
from feddiv.core.files import Unreadable, read_regular
from feddiv.data.published.pickle_values import Damaged
from feddiv.data.published.plain_pickle import NotPlain, read_plain

LARGEST: Final = 1 << 29  # bytes: CIFAR-100's training file has 155 million


def read_pickle(path: Path, encoding: str = "ASCII", md5: str | None = None) -> Any:
    """The arrays and plain containers in a pickle file, also in the zip that torch.save writes.

    `encoding` is for strings of python 2 ("latin1", or "bytes" to keep them raw). With `md5` the
    content is compared first, and nothing of a file that differs is read. Arrays cannot be written
    to: they lie in what was read.
    """
    try:
        content = read_regular(path, LARGEST)
    except Unreadable as problem:
        raise UserError(f"{path}: {problem}") from None
    if md5 is not None:
        found = hashlib.md5(content, usedforsecurity=False).hexdigest()
        if found != md5:
            raise UserError(
                f"{path}: wrong checksum (md5 {found}, expected {md5}); "
                "the file is damaged or another one, unpack or download it again"
            )
    try:
        return read_plain(_pickle_in(content), encoding)
    except NotPlain as refused:
        raise UserError(
            f"{path}: refused, the pickle asks for {refused}; "
            "only arrays of numbers and plain containers are read"
        ) from None
    except Damaged as problem:
        raise UserError(f"{path}: not a readable pickle ({problem})") from None


def _pickle_in(content: bytes) -> bytes:
    """The pickle itself; torch.save wraps it in a zip, beside tensors that are never read.

    It stores without compression, so that what is unpacked is never larger than the file.
    """
    if not content.startswith(b"PK"):
        return content
    try:
        with zipfile.ZipFile(io.BytesIO(content)) as archive:
            inside = [each for each in archive.infolist() if each.filename.endswith("/data.pkl")]
            if len(inside) != 1:
                raise Damaged(f"a zip with {len(inside)} members called data.pkl")
            if inside[0].compress_type != zipfile.ZIP_STORED:
                raise Damaged("a compressed zip, which torch.save does not write")
            return archive.read(inside[0])
    except Damaged:
        raise
    except Exception as error:  # a damaged archive can raise nearly anything
        raise Damaged(in_one_line(error)[:200]) from None
