"""Samples to predict, from files: arrays, images, folders of images."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from feddiv.core.archives import read_npz
from feddiv.core.errors import UserError, in_one_line
from feddiv.data.images.pixels import MODES, image_suffixes, pixels
from feddiv.learning.predict import CHUNK

Skipped = Callable[[str], None]


@dataclass(frozen=True)
class Chunk:
    """Some samples, ready for a model, and what to call each of them."""

    names: Sequence[str]
    inputs: npt.NDArray[Any]


def read_inputs(path: Path, input_shape: tuple[int, ...], skipped: Skipped) -> Iterator[Chunk]:
    """The samples at a path, for a model of this input shape (C,H,W) or (D,).

    Images are converted to the model's channels and size; `skipped` is told, in one line each,
    of those that cannot be read. Arrays are taken as they are.
    """
    if not path.exists():
        raise UserError(f"--data {path}: there is no such file or folder")
    if path.suffix in (".npz", ".npy"):
        yield _array(path)
        return
    if len(input_shape) != 3 or input_shape[0] not in MODES:
        raise UserError(
            f"--data {path}: this model takes samples of shape {input_shape}, not images; "
            "give an .npz file with an array 'x', or an .npy file"
        )
    found = 0
    for chunk in _chunks(_images(path, input_shape, skipped)):
        found += len(chunk.names)
        yield chunk
    if not found:
        raise UserError(f"--data {path}: no image in it that can be read")


def _array(path: Path) -> Chunk:
    if path.suffix == ".npz":
        arrays = read_npz(path, "--data")
        if "x" not in arrays:
            raise UserError(f"--data {path}: array 'x' is missing, found {sorted(arrays)}")
        inputs = arrays["x"]
    else:
        try:
            inputs = np.load(path, allow_pickle=False)
        except (OSError, ValueError, EOFError) as error:
            raise UserError(f"--data {path}: cannot be read ({in_one_line(error)})") from None
    if inputs.ndim == 0 or inputs.size == 0:
        raise UserError(f"--data {path}: holds no samples ({inputs.dtype} {list(inputs.shape)})")
    return Chunk([str(row) for row in range(len(inputs))], inputs)


def _images(
    path: Path, input_shape: tuple[int, ...], skipped: Skipped
) -> Iterator[tuple[str, npt.NDArray[np.uint8]]]:
    channels, height, width = input_shape
    for file in _image_files(path):
        name = str(file.relative_to(path)) if path.is_dir() else file.name
        try:
            image = pixels(file, height, width, channels)
        except Exception as problem:  # Pillow raises whatever its decoders stumble over
            skipped(f"{file}: cannot be read, left out ({in_one_line(problem)})")
            continue
        yield name, image


def _image_files(path: Path) -> list[Path]:
    if not path.is_dir():
        return [path]
    known = image_suffixes()
    files = [file for file in path.rglob("*") if file.is_file()]
    return sorted(f for f in files if f.suffix.lower() in known and not f.name.startswith("."))


def _chunks(images: Iterator[tuple[str, npt.NDArray[np.uint8]]]) -> Iterator[Chunk]:
    batch: list[tuple[str, npt.NDArray[np.uint8]]] = []
    for image in images:
        batch.append(image)
        if len(batch) == CHUNK:
            yield _stacked(batch)
            batch = []
    if batch:
        yield _stacked(batch)


def _stacked(batch: list[tuple[str, npt.NDArray[np.uint8]]]) -> Chunk:
    return Chunk([name for name, _ in batch], np.stack([image for _, image in batch]))
