"""Partition and noise of one run: made once, saved, hashed, reused by the next method."""

import hashlib
import io
import json
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from feddiv.core.archives import Arrays, read_npz
from feddiv.core.errors import UserError
from feddiv.core.files import write_bytes
from feddiv.core.randomness import Streams
from feddiv.data.dataset import Dataset
from feddiv.data.draw.fingerprint import (
    evaluation_fingerprint,
    label_fingerprint,
    training_fingerprint,
)
from feddiv.data.draw.recipe import recipe
from feddiv.data.noise import Foreign, NoiseOptions
from feddiv.data.partition import PartitionOptions
from feddiv.data.watcher import DataWatcher

FORMAT: Final = "feddiv-draw-1"
OUTSIDE: Final = -1  # the true label of a sample that belongs to none of the classes
# What describes a draw but changes no sample and no label of it.
UNHASHED: Final = frozenset(
    {"iid", "kinds", "names", "inputs", "test", "recipe", "uncorrected", "corrections"}
)
TEXTS: Final = ("inputs", "test", "recipe", "corrections")


@dataclass(frozen=True, eq=False)
class Draw:
    """Who holds which samples under which labels.

    `given` and `truth` are int64 over all training samples, also those nobody holds; `truth` is
    None where nobody knows it, and OUTSIDE where a sample shows a `foreign` image: no label of it
    is right. `levels` are the true corruption probabilities of the clients (with human noise, the
    share of wrong labels), None where the source's own labels are wrong to an unknown degree;
    `kinds` are the clients' kinds of noise and `names` what the data calls the clients, both empty
    where unknown. `fingerprint` identifies the training labels of the data the draw was made for.
    `held_out` has what each client keeps out of training, if they do; it is in no part. `inputs`
    and `test` identify the training inputs and the test samples, `recipe` the options that the
    draw was made by; empty where unknown, as in draws of earlier versions. Where experts have
    confirmed or corrected labels, `trusted` says which, bool over all training samples, `given` has
    what they said, `uncorrected` what was given before, and `corrections` identifies their files.
    """

    dataset: str
    parts: tuple[npt.NDArray[np.int64], ...]
    given: npt.NDArray[np.int64]
    truth: npt.NDArray[np.int64] | None
    levels: npt.NDArray[np.float64] | None
    fingerprint: str
    iid: bool = True  # whether the partition is IID by construction
    kinds: tuple[str, ...] = ()
    names: tuple[str, ...] = ()
    foreign: Foreign | None = None
    held_out: tuple[npt.NDArray[np.int64], ...] | None = None
    inputs: str = ""
    test: str = ""
    recipe: str = ""
    trusted: npt.NDArray[np.bool_] | None = None
    uncorrected: npt.NDArray[np.int64] | None = None
    corrections: str = ""

    @classmethod
    def of_one(cls, dataset: Dataset, client: int | None) -> "Draw":
        """All samples under the labels they have, held by this client; None where there are none.

        Clients of smaller numbers are elsewhere: here they hold nothing.
        """
        labels = dataset.train.labels.numpy().astype(np.int64)
        nobody = np.empty(0, np.int64)
        parts = () if client is None else (*[nobody] * client, np.arange(len(labels)))
        return cls(
            dataset=dataset.name,
            parts=parts,
            given=labels,
            truth=None if dataset.truth is None else dataset.truth.numpy().astype(np.int64),
            levels=None,
            fingerprint=label_fingerprint(dataset.train.labels),
            iid=False,
        )

    @property
    def hash(self) -> str:
        """sha256 (hex) of the contents: two runs with the same hash are comparable."""
        digest = hashlib.sha256()
        contents = {key: array for key, array in self._arrays().items() if key not in UNHASHED}
        for key, array in sorted(contents.items()):
            content = np.ascontiguousarray(array)
            digest.update(f"{key} {content.dtype.str} {content.shape}\n".encode())
            digest.update(content.tobytes())
        return digest.hexdigest()

    def _arrays(self) -> Arrays:
        indices, offsets = _strung(self.parts)
        arrays: Arrays = {
            "format": np.array(FORMAT),
            "dataset": np.array(self.dataset),
            "fingerprint": np.array(self.fingerprint),
            "indices": indices,
            "offsets": offsets,
            "given": self.given.astype("<i8"),
            "iid": np.array(self.iid),
        }
        if self.truth is not None:
            arrays["truth"] = self.truth.astype("<i8")
        if self.levels is not None:
            arrays["levels"] = self.levels.astype("<f8")
        for key, texts in (("kinds", self.kinds), ("names", self.names)):
            if texts:
                arrays[key] = np.array(texts, dtype=np.str_)
        for key in TEXTS:
            if text := getattr(self, key):
                arrays[key] = np.array(text)
        if self.foreign is not None:
            arrays["foreign"] = self.foreign.rows.astype("<i8")
            arrays["foreign_source"] = np.array(self.foreign.source)
            arrays["foreign_fingerprint"] = np.array(self.foreign.fingerprint)
        if self.trusted is not None and self.uncorrected is not None:
            arrays["trusted"] = self.trusted
            arrays["uncorrected"] = self.uncorrected.astype("<i8")
        if self.held_out is not None:
            arrays["held_out"], arrays["held_out_offsets"] = _strung(self.held_out)
        return arrays

    def save(self, path: Path) -> None:
        """Write an .npz without pickles; a reader sees the old file or the whole new one."""
        content = io.BytesIO()
        np.savez(content, allow_pickle=False, **self._arrays())
        write_bytes(path, content.getvalue())

    @classmethod
    def load(cls, path: Path) -> "Draw":
        """Read what `save` wrote."""
        arrays = read_npz(path, "draw")
        if "format" not in arrays or str(arrays["format"]) != FORMAT:
            raise UserError(f"draw {path}: not a draw of feddiv (no format mark {FORMAT!r})")
        try:
            parts = _unstrung(arrays, "indices", "offsets")
            held_out = None
            if "held_out" in arrays:
                held_out = _unstrung(arrays, "held_out", "held_out_offsets")
            given = _vector(arrays, "given", "i")
            truth = _vector(arrays, "truth", "i") if "truth" in arrays else None
            levels = _vector(arrays, "levels", "f") if "levels" in arrays else None
            if held_out is not None and len(held_out) != len(parts):
                raise ValueError(f"{len(held_out)} held-out parts for {len(parts)} clients")
            if truth is not None and len(truth) != len(given):
                raise ValueError(f"{len(truth)} true labels for {len(given)} given ones")
            if levels is not None and len(levels) != len(parts):
                raise ValueError(f"{len(levels)} levels for {len(parts)} clients")
            texts = {key: _text(arrays, key) for key in TEXTS}
            if texts["recipe"] and not _has_sections(texts["recipe"]):
                raise ValueError("'recipe' holds no sections")
            foreign = None
            if "foreign" in arrays:
                foreign = Foreign(
                    str(arrays["foreign_source"]),
                    _vector(arrays, "foreign", "i"),
                    str(arrays["foreign_fingerprint"]),
                )
                if len(foreign.rows) != len(given):
                    raise ValueError(f"{len(foreign.rows)} foreign images for {len(given)} samples")
            trusted, uncorrected = None, None
            if "trusted" in arrays:
                trusted, uncorrected = arrays["trusted"], _vector(arrays, "uncorrected", "i")
                shapes = {trusted.shape, uncorrected.shape, given.shape}
                if trusted.dtype != np.bool_ or len(shapes) > 1:
                    raise ValueError("'trusted' and 'uncorrected' are not of the given labels")
            return cls(
                dataset=str(arrays["dataset"]),
                parts=parts,
                given=given,
                truth=truth,
                levels=levels,
                fingerprint=str(arrays["fingerprint"]),
                iid=bool(arrays["iid"]),
                kinds=_texts(arrays, "kinds", len(parts)),
                names=_texts(arrays, "names", len(parts)),
                foreign=foreign,
                held_out=held_out,
                trusted=trusted,
                uncorrected=uncorrected,
                **texts,
            )
        except KeyError as missing:
            raise UserError(f"draw {path}: damaged, array {missing} is missing") from None
        except (ValueError, TypeError, RecursionError) as error:
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
        nobody = np.empty(0, np.int64)
        held = np.concatenate([nobody, *self.parts, *(self.held_out or ())])
        if len(held) and (held.min() < 0 or held.max() >= samples):
            raise UserError(f"draw: sample {_outlier(held, samples)} is not in 0..{samples - 1}")
        if len(np.unique(held)) != len(held):
            raise UserError("draw: a sample is held twice")
        for client, part in enumerate(self.parts):
            if len(part) == 0:
                raise UserError(f"draw: client {client} holds no samples")
        classes = len(dataset.classes)
        known = self.truth
        if known is not None and self.foreign is not None:
            if (known[self.foreign.shown] != OUTSIDE).any():
                raise UserError("draw: a foreign image has a true label")
            known = known[~self.foreign.shown]
        for kind, labels in (
            ("given", self.given),
            ("uncorrected", self.uncorrected),
            ("true", known),
        ):
            if labels is not None and len(labels) and (labels.min() < 0 or labels.max() >= classes):
                raise UserError(
                    f"draw: {kind} label {_outlier(labels, classes)} is not in 0..{classes - 1}"
                )

    def bound_to(self, dataset: Dataset) -> "Draw":
        """The same draw, knowing these inputs; refuses others than those it was made for.

        Where either has no test samples, as with evaluation on held-out ones, none are compared.
        """
        inputs, test = training_fingerprint(dataset), evaluation_fingerprint(dataset)
        if self.inputs not in ("", inputs):
            raise UserError(
                f"draw: made for other samples of {dataset.name} (their labels are the same, the "
                "training inputs or their normalisation differ); data.path must hold the same data"
            )
        if self.test and test and self.test != test:
            raise UserError(
                f"draw: made with other test samples of {dataset.name}; data.path, "
                "data.test_images and seed must be the same"
            )
        return replace(self, inputs=inputs, test=self.test or test)


def make_draw(
    dataset: Dataset,
    partition: PartitionOptions,
    noise: NoiseOptions,
    clients: int | None,
    streams: Streams,
    watcher: DataWatcher | None = None,
) -> Draw:
    """Deal the samples by the source's labels, then corrupt the labels.

    Labels of unknown quality become the truth only when noise is put on top of them: then they
    are what the experiment asks to recover. `clients` None means as many as the data has. `watcher`
    is told how other data that the noise needs is made ready.
    """
    labels = dataset.train.labels.cpu().numpy().astype(np.int64)
    parts = partition.split(dataset, clients, streams.numpy("partition"))
    corruption = noise.corrupt(dataset, parts.samples, streams.numpy("noise"), watcher)
    corruption.check(noise.name, len(labels), len(parts.samples))
    truth = None if dataset.truth is None else dataset.truth.cpu().numpy().astype(np.int64)
    if truth is None and noise.injects:
        truth = labels
    clean_source = truth is not None and bool(np.array_equal(truth, labels))
    if truth is not None and corruption.foreign is not None:
        truth = np.where(corruption.foreign.shown, OUTSIDE, truth)
    return Draw(
        dataset=dataset.name,
        parts=parts.samples,
        given=corruption.given,
        truth=truth,
        levels=corruption.levels if clean_source else None,
        fingerprint=label_fingerprint(dataset.train.labels),
        iid=partition.iid,
        kinds=corruption.kinds if clean_source or noise.injects else (),
        names=parts.names,
        foreign=corruption.foreign,
        recipe=recipe(partition, noise),
    )


def _strung(parts: tuple[npt.NDArray[np.int64], ...]) -> tuple[npt.NDArray[np.int64], ...]:
    """Parts one after the other, and where each begins and ends."""
    indices = np.concatenate([np.empty(0, "<i8"), *parts]).astype("<i8")
    return indices, np.cumsum([0, *map(len, parts)]).astype("<i8")


def _unstrung(arrays: Arrays, key: str, ends: str) -> tuple[npt.NDArray[np.int64], ...]:
    indices, offsets = _vector(arrays, key, "i"), _vector(arrays, ends, "i")
    if len(offsets) < 1 or offsets[0] != 0 or offsets[-1] != len(indices):
        raise ValueError(f"{ends!r} do not cover {key!r}")
    if (np.diff(offsets) < 0).any():
        raise ValueError(f"{ends!r} go backwards")
    return tuple(np.split(indices, offsets[1:-1])) if len(offsets) > 1 else ()


def _vector(arrays: Arrays, key: str, kind: str) -> npt.NDArray[Any]:
    array = arrays[key]
    if array.ndim != 1 or array.dtype.kind != kind or array.dtype.itemsize != 8:
        raise ValueError(f"{key!r} is {array.dtype} {array.shape}")
    if kind == "f" and not np.isfinite(array).all():
        raise ValueError(f"{key!r} holds a value that is not finite")
    return array


def _texts(arrays: Arrays, key: str, clients: int) -> tuple[str, ...]:
    if key not in arrays:
        return ()
    array = arrays[key]
    if array.dtype.kind != "U" or array.shape != (clients,):
        raise ValueError(f"{key!r} is {array.dtype} {array.shape} for {clients} clients")
    return tuple(str(text) for text in array)


def _text(arrays: Arrays, key: str) -> str:
    array = arrays.get(key, np.array(""))
    if array.dtype.kind != "U" or array.shape != ():
        raise ValueError(f"{key!r} is {array.dtype} {array.shape}")
    return str(array)


def _has_sections(recipe: str) -> bool:
    try:
        return isinstance(json.loads(recipe), dict)
    except RecursionError:
        return False


def _outlier(values: npt.NDArray[np.int64], end: int) -> int:
    return int(values[(values < 0) | (values >= end)][0])
