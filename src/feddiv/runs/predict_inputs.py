"""Samples to predict from files: images, folders of them, tables, arrays."""

import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from feddiv.core.archives import read_npy, read_npz
from feddiv.core.errors import UserError, in_one_line
from feddiv.data.images.pixels import MODES, image_suffixes, pixels
from feddiv.data.sources.folder_tree import DEEPEST
from feddiv.data.sources.table_cells import Table
from feddiv.data.sources.table_files import TABLES, read_table
from feddiv.learning.predict import CHUNK
from feddiv.runs.model_card import ModelCard
from feddiv.runs.predict_columns import feature_columns, image_column

ARRAYS: Final = (".npz", ".npy")

Pixels = npt.NDArray[np.uint8]
Skipped = Callable[[str], None]


@dataclass(frozen=True)
class Chunk:
    """Some samples, ready for a model, and what to call each of them."""

    names: Sequence[str]
    inputs: npt.NDArray[Any]


def read_inputs(paths: Sequence[Path], card: ModelCard, skipped: Skipped) -> Iterator[Chunk]:
    """The samples at these paths, for the model of this card.

    Images are converted to the model's channels and size; `skipped` is told, in one line each,
    of those that cannot be read. Arrays and feature vectors are taken as they are. Of several
    paths, names of samples begin with theirs.
    """
    for path in paths:
        if not path.exists():
            raise UserError(f"--data {path}: there is no such file or folder")
    found = 0
    for path in paths:
        for chunk in _read(path, card, skipped):
            found += len(chunk.names)
            several = len(paths) > 1
            names = [_full(path, name) for name in chunk.names] if several else chunk.names
            yield Chunk(names, chunk.inputs)
    if not found:
        said = ", ".join(map(str, paths[:3])) + (", …" if len(paths) > 3 else "")
        raise UserError(f"--data {said}: no image in it that can be read")


def _full(path: Path, name: str) -> str:
    if path.is_dir():
        return str(path / name)
    rows = path.suffix.lower() in (*ARRAYS, *TABLES)
    return f"{path}:{name}" if rows else str(path)


def _read(path: Path, card: ModelCard, skipped: Skipped) -> Iterator[Chunk]:
    if path.suffix in ARRAYS:
        yield _array(path)
    elif path.suffix.lower() in TABLES and not path.is_dir():
        yield from _table(read_table(path, f"--data {path}"), card, skipped)
    elif not card.takes_images or card.sample_shape[-1] not in MODES:
        raise UserError(
            f"--data {path}: this model takes samples of shape {card.input_shape}, not images; "
            "give a table (.csv, .parquet), an .npz file with an array 'x', or an .npy file"
        )
    else:
        files = _image_files(path)
        named = [(str(f.relative_to(path)) if path.is_dir() else f.name, f) for f in files]
        yield from _chunks(_images(named, card, skipped))


def _array(path: Path) -> Chunk:
    if path.suffix == ".npz":
        arrays = read_npz(path, "--data")
        if "x" not in arrays:
            raise UserError(f"--data {path}: array 'x' is missing, found {sorted(arrays)}")
        inputs = arrays["x"]
    else:
        inputs = read_npy(path, "--data")
    if inputs.ndim == 0 or inputs.size == 0:
        raise UserError(f"--data {path}: holds no samples ({inputs.dtype} {list(inputs.shape)})")
    return Chunk([str(row) for row in range(len(inputs))], inputs)


def _table(table: Table, card: ModelCard, skipped: Skipped) -> Iterator[Chunk]:
    """Feature vectors by their columns, or the images that a column names."""
    if not card.takes_images:
        vectors = table.vectors(feature_columns(table, card))
        yield Chunk([str(row) for row in range(len(vectors))], vectors)
        return
    (paths,) = table.texts([image_column(table, card)])
    named = [(path, table.folder / path) for path in paths]
    yield from _chunks(_images(named, card, skipped))


def _images(
    named: Sequence[tuple[str, Path]], card: ModelCard, skipped: Skipped
) -> Iterator[tuple[str, Pixels]]:
    height, width, channels = card.sample_shape
    for name, file in named:
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
    files = [file for file in _below(path) if file.is_file()]
    return sorted(f for f in files if f.suffix.lower() in known and not f.name.startswith("."))


def _below(path: Path) -> Iterator[Path]:
    """Everything in a folder and the folders in it; links to folders are not followed."""
    waiting = [(path, 0)]
    while waiting:
        folder, depth = waiting.pop()
        if depth > DEEPEST:
            raise UserError(f"--data {path}: folders are more than {DEEPEST} deep")
        try:
            with os.scandir(folder) as entries:
                found = list(entries)
        except OSError as error:
            raise UserError(f"--data {folder}: cannot be read ({error.strerror})") from None
        for entry in found:
            yield folder / entry.name
            if entry.is_dir(follow_symlinks=False):
                waiting.append((folder / entry.name, depth + 1))


def _chunks(images: Iterator[tuple[str, Pixels]]) -> Iterator[Chunk]:
    batch: list[tuple[str, Pixels]] = []
    for image in images:
        batch.append(image)
        if len(batch) == CHUNK:
            yield _stacked(batch)
            batch = []
    if batch:
        yield _stacked(batch)


def _stacked(batch: list[tuple[str, Pixels]]) -> Chunk:
    return Chunk([name for name, _ in batch], np.stack([image for _, image in batch]))
