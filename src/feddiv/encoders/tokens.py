"""Tokenizers in files, as the `tokenizers` package writes them (tokenizer.json)."""

from pathlib import Path
from typing import Any, Final

from feddiv.core.errors import UserError, in_one_line
from feddiv.core.given_files import read_given

LARGEST: Final = 256 << 20  # bytes of a tokenizer's file
EXTRA: Final = "pip install 'feddiv[encoders]'"


def tokenizer_bytes(file: Path, name: str) -> bytes:
    """The file of an encoder's tokenizer, as it is."""
    try:
        return read_given(file, LARGEST)
    except OSError as error:
        raise UserError(
            f"data.encoder={name}: {file} cannot be read ({error.strerror or error})"
        ) from None


def read_tokenizer(content: bytes, name: str, file: Path) -> Any:
    """The tokenizer of these bytes."""
    try:
        from tokenizers import Tokenizer
    except ImportError:
        raise UserError(f"data.encoder={name}: needs the package tokenizers; {EXTRA}") from None
    try:
        return Tokenizer.from_buffer(content)
    except Exception as problem:  # of its JSON, of what it describes
        raise UserError(
            f"data.encoder={name}: {file} is no tokenizer ({in_one_line(problem)})"
        ) from None
