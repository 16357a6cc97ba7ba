"""MNIST and Fashion-MNIST from their four IDX files, gzipped or not."""

from __future__ import annotations

import math
import zlib
from pathlib import Path
from typing import IO, Final

import numpy as np
import numpy.typing as npt
import torch

from feddiv.core.errors import UserError
from feddiv.data.data_options import DataOptions
from feddiv.data.dataset import Dataset, Split
from feddiv.data.published.benchmarks import FASHION_MNIST, MNIST, Benchmark
from feddiv.data.published.integrity import namesake, open_content
from feddiv.data.published.places import find, locate
from feddiv.data.transform import Augment

SIDE: Final = 28
DIGITS: Final = tuple(str(digit) for digit in range(10))
CLOTHES: Final = (
    "T-shirt/top",
    "Trouser",
    "Pullover",
    "Dress",
    "Coat",
    "Sandal",
    "Shirt",
    "Sneaker",
    "Bag",
    "Ankle boot",
)

_UINT8: Final = 8  # the type byte of an IDX file
LARGEST: Final = 1 << 28  # bytes: MNIST has 47,040,000
_CHUNK: Final = 1 << 20


def load_mnist(options: DataOptions) -> Dataset:
    """Hand-written digits. A mirrored digit is no digit, so they are only shifted."""
    return _load(MNIST, options.path, DIGITS, mean=0.1307, std=0.3081, augment=Augment(pad=2))


def load_fashion_mnist(options: DataOptions) -> Dataset:
    """Photographs of clothes; a mirrored shoe still is one."""
    augment = Augment(pad=2, flip=True)
    return _load(FASHION_MNIST, options.path, CLOTHES, mean=0.2860, std=0.3530, augment=augment)


def _load(
    benchmark: Benchmark,
    path: Path | None,
    classes: tuple[str, ...],
    mean: float,
    std: float,
    augment: Augment,
) -> Dataset:
    folder = find(benchmark, path)
    other = namesake(benchmark, folder)
    if other is not None:
        raise UserError(
            f"data.source={benchmark.name}: the files in {folder} are those of {other.name}"
        )
    train, test = _split(folder, "train", classes), _split(folder, "t10k", classes)
    return Dataset(
        name=benchmark.name,
        classes=classes,
        train=train,
        test=test,
        mean=(mean,),
        std=(std,),
        augment=augment,
        truth=train.labels,
    )


def _split(folder: Path, prefix: str, classes: tuple[str, ...]) -> Split:
    images_file = _file(folder, f"{prefix}-images-idx3-ubyte")
    labels_file = _file(folder, f"{prefix}-labels-idx1-ubyte")
    images, labels = read_idx(images_file, 3), read_idx(labels_file, 1)
    if images.shape[1:] != (SIDE, SIDE):
        height, width = images.shape[1:]
        raise UserError(f"{images_file}: images of {height}x{width} pixels, not {SIDE}x{SIDE}")
    if len(labels) != len(images):
        raise UserError(f"{labels_file}: {len(labels)} labels for {len(images)} images")
    if labels.max() >= len(classes):
        raise UserError(f"{labels_file}: label {labels.max()}, allowed are 0..{len(classes) - 1}")
    return Split(
        torch.from_numpy(images[..., None].copy()), torch.from_numpy(labels.astype(np.int64))
    )


def _file(folder: Path, name: str) -> Path:
    file = locate(folder, name)
    if file is None:
        raise UserError(f"{folder / name}: missing, with and without .gz")
    return file


def read_idx(path: Path, dimensions: int) -> npt.NDArray[np.uint8]:
    """The bytes of an IDX file, in the shape that its header says.

    The header is 0, 0, the type, the number of dimensions, then each of them as four bytes.
    """
    try:
        with open_content(path) as file:
            header = file.read(4 + 4 * dimensions)
            magic = header[:4]
            if magic != bytes([0, 0, _UINT8, dimensions]):
                raise UserError(
                    f"{path}: begins with {magic.hex(' ') or 'nothing'}, an IDX file of bytes "
                    f"with {dimensions} dimensions begins with 00 00 08 0{dimensions}"
                )
            if len(header) < 4 + 4 * dimensions:
                raise UserError(f"{path}: ends within its header")
            shape = tuple(int(size) for size in np.frombuffer(header[4:], ">u4"))
            if math.prod(shape) > LARGEST:
                raise UserError(
                    f"{path}: {' x '.join(map(str, shape))} bytes should follow its header; at "
                    f"most {LARGEST:,} are read"
                )
            content = _at_most(file, math.prod(shape) + 1)
    except (OSError, EOFError, zlib.error) as error:
        raise UserError(f"{path}: cannot be read ({error})") from None
    if 0 in shape:
        raise UserError(f"{path}: holds nothing")
    if len(content) != math.prod(shape):
        what = "cut off" if len(content) < math.prod(shape) else "longer than its header says"
        raise UserError(f"{path}: {what}, {' x '.join(map(str, shape))} bytes should follow it")
    return np.frombuffer(content, np.uint8).reshape(shape)


def _at_most(file: IO[bytes], size: int) -> bytes:
    """Read in pieces: a header that lies must not make us ask for the memory at once."""
    content = bytearray()
    while len(content) < size and (chunk := file.read(min(_CHUNK, size - len(content)))):
        content += chunk
    return bytes(content)
