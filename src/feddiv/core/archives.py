"""Reading .npz files that somebody else may have written."""

import zipfile
import zlib
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from feddiv.core.errors import UserError

Arrays = dict[str, npt.NDArray[Any]]


def described(array: npt.NDArray[Any]) -> str:
    """Type and shape of an array, for errors."""
    return f"{array.dtype} {list(array.shape)}"


def read_npz(path: Path, what: str) -> Arrays:
    """All arrays of an .npz file, never unpickling; `what` names the file's role in errors."""
    if path.is_dir():
        raise UserError(f"{what} {path}: is a folder, an .npz file is needed")
    try:
        with path.open("rb") as file:
            if not zipfile.is_zipfile(file):
                raise UserError(f"{what} {path}: not an .npz file")
            file.seek(0)
            with np.load(file, allow_pickle=False) as archive:
                arrays = {key: archive[key] for key in archive.files}
    except FileNotFoundError:
        raise UserError(f"{what} {path}: there is no such file") from None
    except (
        OSError,
        ValueError,
        EOFError,
        KeyError,
        MemoryError,
        NotImplementedError,
        SyntaxError,
        RuntimeError,
        zipfile.BadZipFile,
        zlib.error,
    ) as error:
        reason = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise UserError(f"{what} {path}: cannot be read ({reason})") from None
    for key, array in arrays.items():
        if not isinstance(array, np.ndarray):
            raise UserError(f"{what} {path}: {key!r} is not an array")
    return arrays
