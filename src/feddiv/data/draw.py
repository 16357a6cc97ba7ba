"""Partition and noise of one run: made once, saved, hashed, reused by the next method."""

import hashlib
import os
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np
import numpy.typing as npt
from torch import Tensor

from feddiv.data.archives import Arrays, read_npz
from feddiv.data.noise import NoiseOptions
from feddiv.data.partition import PartitionOptions
from feddiv.data.store import Dataset
from feddiv.errors import UserError
from feddiv.randomness import Streams

FORMAT: Final = "feddiv-draw-1"


@dataclass(frozen=True, eq=False)
class Draw:
    """Who holds which samples under which labels.

    `given` and `truth` are int64 over all training samples, also those nobody holds; `truth` is
    None where nobody knows it. `levels` are the true corruption probabilities of the clients,
    None where the source's own labels are wrong to an unknown degree. `fingerprint` identifies
    the training labels of the data the draw was made for.
    """

    dataset: str
    parts: tuple[npt.NDArray[np.int64], ...]
    given: npt.NDArray[np.int64]
    truth: npt.NDArray[np.int64] | None
    levels: npt.NDArray[np.float64] | None
    fingerprint: str
    iid: bool = True  # whether the partition is IID by construction

    @property
    def hash(self) -> str:
        """sha256 (hex) of the contents: two runs with the same hash are comparable."""
        digest = hashlib.sha256()
        contents = {key: array for key, array in self._arrays().items() if key != "iid"}
        for key, array in sorted(contents.items()):
            content = np.ascontiguousarray(array)
            digest.update(f"{key} {content.dtype.str} {content.shape}\n".encode())
            digest.update(content.tobytes())
        return digest.hexdigest()

    def _arrays(self) -> Arrays:
        sizes = [len(part) for part in self.parts]
        arrays: Arrays = {
            "format": np.array(FORMAT),
            "dataset": np.array(self.dataset),
            "fingerprint": np.array(self.fingerprint),
            "indices": np.concatenate([np.empty(0, "<i8"), *self.parts]).astype("<i8"),
            "offsets": np.cumsum([0, *sizes]).astype("<i8"),
            "given": self.given.astype("<i8"),
            "iid": np.array(self.iid),
        }
        if self.truth is not None:
            arrays["truth"] = self.truth.astype("<i8")
        if self.levels is not None:
            arrays["levels"] = self.levels.astype("<f8")
        return arrays

    def save(self, path: Path) -> None:
        """Write an .npz without pickles; a reader sees the old file or the whole new one."""
        handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
        try:
            with os.fdopen(handle, "wb") as file:
                np.savez(file, allow_pickle=False, **self._arrays())
                file.flush()
                os.fsync(file.fileno())
            os.chmod(name, 0o644)
            os.replace(name, path)
        except BaseException:
            Path(name).unlink(missing_ok=True)
            raise

    @classmethod
    def load(cls, path: Path) -> "Draw":
        """Read what `save` wrote."""
        arrays = read_npz(path, "draw")
        if "format" not in arrays or str(arrays["format"]) != FORMAT:
            raise UserError(f"draw {path}: not a draw of feddiv (no format mark {FORMAT!r})")
        try:
            indices, offsets = _vector(arrays, "indices", "i"), _vector(arrays, "offsets", "i")
            given = _vector(arrays, "given", "i")
            truth = _vector(arrays, "truth", "i") if "truth" in arrays else None
            levels = _vector(arrays, "levels", "f") if "levels" in arrays else None
            if len(offsets) < 2 or offsets[0] != 0 or offsets[-1] != len(indices):
                raise ValueError("'offsets' do not cover 'indices'")
            if (np.diff(offsets) < 0).any():
                raise ValueError("'offsets' go backwards")
            if truth is not None and len(truth) != len(given):
                raise ValueError(f"{len(truth)} true labels for {len(given)} given ones")
            if levels is not None and len(levels) != len(offsets) - 1:
                raise ValueError(f"{len(levels)} levels for {len(offsets) - 1} clients")
            return cls(
                dataset=str(arrays["dataset"]),
                parts=tuple(np.split(indices, offsets[1:-1])),
                given=given,
                truth=truth,
                levels=levels,
                fingerprint=str(arrays["fingerprint"]),
                iid=bool(arrays["iid"]),
            )
        except KeyError as missing:
            raise UserError(f"draw {path}: damaged, array {missing} is missing") from None
        except ValueError as error:
            raise UserError(f"draw {path}: damaged, {error}") from None

    def check(self, dataset: Dataset) -> None:
        """Refuse to be used with data it was not made for."""
        if self.dataset != dataset.name:
            raise UserError(f"draw: made for data {self.dataset!r}, not for {dataset.name!r}")
        samples = len(dataset.train)
        if len(self.given) != samples:
            raise UserError(
                f"draw: made for {len(self.given)} training samples, "
                f"{dataset.name} has {samples} here; data.images must be the same"
            )
        if self.fingerprint != label_fingerprint(dataset.train.labels):
            raise UserError(
                f"draw: made for other samples of {dataset.name} (their labels differ); "
                "data.path, data.images and seed must be the same"
            )
        held = np.concatenate(self.parts)
        if len(held) and (held.min() < 0 or held.max() >= samples):
            raise UserError(f"draw: sample {_outlier(held, samples)} is not in 0..{samples - 1}")
        if len(np.unique(held)) != len(held):
            raise UserError("draw: a sample is held twice")
        for client, part in enumerate(self.parts):
            if len(part) == 0:
                raise UserError(f"draw: client {client} holds no samples")
        classes = len(dataset.classes)
        for kind, labels in (("given", self.given), ("true", self.truth)):
            if labels is not None and (labels.min() < 0 or labels.max() >= classes):
                raise UserError(
                    f"draw: {kind} label {_outlier(labels, classes)} is not in 0..{classes - 1}"
                )


def make_draw(
    dataset: Dataset,
    partition: PartitionOptions,
    noise: NoiseOptions,
    clients: int,
    streams: Streams,
) -> Draw:
    """Deal the samples by the source's labels, then corrupt the labels.

    Labels of unknown quality become the truth only when noise is put on top of them: then they
    are what the experiment asks to recover.
    """
    labels = dataset.train.labels.cpu().numpy().astype(np.int64)
    parts = partition.split(labels, clients, streams.numpy("partition"))
    given, levels = noise.corrupt(labels, parts, len(dataset.classes), streams.numpy("noise"))
    truth = None if dataset.truth is None else dataset.truth.cpu().numpy().astype(np.int64)
    if truth is None and noise.injects:
        truth = labels
    clean_source = truth is not None and bool(np.array_equal(truth, labels))
    return Draw(
        dataset=dataset.name,
        parts=tuple(parts),
        given=given,
        truth=truth,
        levels=levels if clean_source else None,
        fingerprint=label_fingerprint(dataset.train.labels),
        iid=partition.iid,
    )


def label_fingerprint(labels: Tensor) -> str:
    """sha256 (hex) of the labels, in order: tells one set of training samples from another."""
    return hashlib.sha256(labels.cpu().numpy().astype("<i8").tobytes()).hexdigest()


def _vector(arrays: Arrays, key: str, kind: str) -> npt.NDArray[Any]:
    array = arrays[key]
    if array.ndim != 1 or array.dtype.kind != kind or array.dtype.itemsize != 8:
        raise ValueError(f"{key!r} is {array.dtype} {array.shape}")
    if kind == "f" and not np.isfinite(array).all():
        raise ValueError(f"{key!r} holds a value that is not finite")
    return array


def _outlier(values: npt.NDArray[np.int64], end: int) -> int:
    return int(values[(values < 0) | (values >= end)][0])
