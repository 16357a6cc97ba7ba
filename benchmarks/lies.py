"""Lies: what a hostile client may say instead of its honest reply, all in `ATTACKS`.

It knows its own samples, what it received, and how messages are made. A lie about scores is a total
over the client's samples; who sends totals as changes is not its business (`liars.py`).
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from feddiv.core.arrays import Array, StateDict
from feddiv.core.randomness import Streams
from feddiv.learning.predict import predict_global, predict_local
from feddiv.learning.score import LOG_ODDS_CLIP
from feddiv.methods.contract import (
    Client,
    Message,
    Payload,
    Reply,
)
from feddiv.methods.feddiv.feddiv_options import FedDivOptions
from feddiv.methods.feddiv.filter_client import ClientFilter, FilterMemory
from feddiv.methods.feddiv.second_opinion import least_log_likelihood

HUGE = 1e300
LARGEST = 3.4e38  # nearly the largest float32
BARELY = 1e-6  # a weight or a variance that is all but nothing
MUCH = 1000  # times its n_k that a client says it has


@dataclass(frozen=True)
class Scene:
    """What a liar knows when it lies: its samples, what it received, its honest reply."""

    client: Client
    received: Message
    honest: Reply
    options: Any  # of the method
    rng: Streams

    @property
    def samples(self) -> int:
        """Its true n_k."""
        return len(self.client)


def honest(totals: Payload, scene: Scene) -> Payload:
    """The truth."""
    return totals


# What is said of the filter, as totals over the client's samples


def not_finite(totals: Payload, scene: Scene) -> Payload:
    """NaN in every entry."""
    return {name: np.full_like(value, np.nan) for name, value in totals.items()}


def huge(totals: Payload, scene: Scene) -> Payload:
    """Numbers that drown everybody else's."""
    return {name: np.full_like(value, HUGE) for name, value in totals.items()}


def below_zero(changes: Payload, scene: Scene) -> Payload:
    """Changes within the declared bounds whose total is no count of anything."""
    size = float(scene.samples)
    return {
        name: np.full_like(value, -size) if name == "histogram" else value
        for name, value in changes.items()
    }


def swapped(totals: Payload, scene: Scene) -> Payload:
    """Clean labels look as wrong ones do, and wrong ones as clean ones do."""
    lies = dict(totals)
    if "histogram" in totals:
        lies["histogram"] = totals["histogram"][::-1].copy()
    if "mixture" in totals:
        lies["mixture"] = totals["mixture"][[1, 0, 3, 2, 5, 4]]
    if "tally" in totals:
        given, kept, scores = totals["tally"]
        lies["tally"] = np.stack([given, given - kept, -scores])
    return lies


def all_clean(totals: Payload, scene: Scene) -> Payload:
    """Every label looks right: as far to that side as a client of this size can say."""
    return _one_sided(totals, scene, clean=True)


def all_noisy(totals: Payload, scene: Scene) -> Payload:
    """Every label looks wrong."""
    return _one_sided(totals, scene, clean=False)


def _one_sided(totals: Payload, scene: Scene, *, clean: bool) -> Payload:
    end, size, lies = 0 if clean else -1, scene.samples, dict(totals)
    if "histogram" in totals:
        lies["histogram"] = _all_at(end, totals["histogram"], size)
    if "mixture" in totals:
        # Scores of `paper` are between 0 and 1. Both means at one end, and the component that shall
        # swallow everything as wide and as heavy as can be.
        first, last = (1 - BARELY, BARELY) if clean else (BARELY, 1 - BARELY)
        mean = 1.0 if clean else 0.0
        lies["mixture"] = np.array([mean, mean, first, last, first, last])
    if "tally" in totals:
        given = totals["tally"][0]
        kept, score = (given, -LOG_ODDS_CLIP) if clean else (0 * given, LOG_ODDS_CLIP)
        lies["tally"] = np.stack([given, kept, score * given])
    if "likelihood" in totals:
        # A model that is called less sure than it is flags less, and the other way round.
        least = least_log_likelihood(scene.client.classes) * size
        likelihood = np.full_like(totals["likelihood"], least)
        likelihood[end] = 0.0
        lies["likelihood"] = likelihood
    return lies


def one_class(totals: Payload, scene: Scene) -> Payload:
    """All labels and all predictions are of the first class."""
    lies, size = dict(totals), scene.samples
    if "softmax" in totals:
        lies["softmax"] = _all_at(0, totals["softmax"], size)
    if "tally" in totals:
        tally = np.zeros_like(totals["tally"])
        tally[:, 0] = size, size, -LOG_ODDS_CLIP * size
        lies["tally"] = tally
    return lies


def _all_at(place: int, like: Array, size: int) -> Array:
    counts = np.zeros_like(like)
    counts[place] = size
    return counts


def others_labels(totals: Payload, scene: Scene) -> Payload:
    """The true scores of its images under labels that belong to other images of its own."""
    client, options, received = scene.client, scene.options, scene.received
    if not isinstance(options, FedDivOptions) or not totals:
        return totals
    given = client.samples.given.numpy()
    labels = scene.rng.numpy("somebody else's labels").permutation(given)
    said = ClientFilter(options.filter, client.classes, FilterMemory(), received.payload)
    logits = predict_global(client.net(received.weights["net"]), client.samples)
    scores = said.scores(logits, labels)
    p_clean = said.p_clean(scores, labels, None, said.sharpened(logits, labels))
    trained = scene.honest.weights
    if options.filter.fits_local_scores and trained is not None:
        after = predict_local(client.net(trained["net"]), client.samples)
        said.keep(said.scores(after, labels))
    else:
        said.keep(scores)
    uploaded = said.upload(totals, logits=logits, labels=labels, scores=scores, p_clean=p_clean)
    return {**totals, **uploaded}


def fully_trusted(totals: Payload, scene: Scene) -> Payload:
    """The truth, but that all its labels are to be trusted: its model shall count in full."""
    if "trusted" not in totals:
        return totals
    return {**totals, "trusted": np.array(float(scene.samples))}


# What is sent for a model


def times(factor: float) -> Callable[[StateDict, StateDict], StateDict]:
    """The update, from the received model to the trained one, this many times.

    Batch-norm statistics stay as they are: a variance below zero would give the liar away.
    """

    def scaled(key: str, before: torch.Tensor, after: torch.Tensor) -> torch.Tensor:
        return after if "running_" in key else before + factor * (after - before)

    return lambda received, trained: _floats(
        trained, lambda key, value: scaled(key, received[key], value)
    )


def largest_numbers(received: StateDict, trained: StateDict) -> StateDict:
    """Nearly the largest number that there is, everywhere."""
    return _floats(trained, lambda key, value: torch.full_like(value, LARGEST))


def negative_variances(received: StateDict, trained: StateDict) -> StateDict:
    """Batch-norm variances below zero, whose roots are not numbers."""
    return _floats(trained, lambda key, value: -value if key.endswith("running_var") else value)


def _floats(
    net: StateDict, change: Callable[[str, torch.Tensor], torch.Tensor]
) -> dict[str, torch.Tensor]:
    return {
        key: change(key, value) if value.is_floating_point() else value
        for key, value in net.items()
    }


SCORES = ("histogram", "mixture")  # entries in which clients tell of their scores


@dataclass(frozen=True)
class Attack:
    """What a liar changes of its honest reply."""

    about: tuple[str, ...] = ()  # entries it needs one of, to have anything to lie about
    totals: Callable[[Payload, Scene], Payload] = honest
    changes: Callable[[Payload, Scene], Payload] = honest  # for lies that make no total
    model: Callable[[StateDict, StateDict], StateDict] | None = None
    size: int = 1  # n_k, and with it all totals, are said to be so many times what they are
    disguised: bool = False  # answers under an honest client's number
    silent: bool = False  # does not answer at all: a yardstick, what others know without liars


def _of_model(model: Callable[[StateDict, StateDict], StateDict], **more: Any) -> Attack:
    return Attack(totals=fully_trusted, model=model, **more)


NONE = "none"
ATTACKS: Mapping[str, Attack] = {
    NONE: Attack(),
    "silent": Attack(silent=True),
    # of the filter
    "not finite": Attack(SCORES, not_finite),
    "huge": Attack(SCORES, huge),
    "counts below zero": Attack(("histogram",), changes=below_zero),
    "swapped components": Attack(SCORES, swapped),
    "all clean": Attack(SCORES, all_clean),
    "all noisy": Attack(SCORES, all_noisy),
    "one class": Attack(("softmax", "tally"), one_class),
    "somebody else's labels": Attack(SCORES, others_labels),
    # of the model
    "update × −1": _of_model(times(-1)),
    "update × −10": _of_model(times(-10)),
    "update × 100": _of_model(times(100)),
    "largest numbers": _of_model(largest_numbers),
    "negative variances": _of_model(negative_variances),
    # of who it is
    "n_k × 1000, update × −1": _of_model(times(-1), size=MUCH),
    "answers for another, update × −1": _of_model(times(-1), disguised=True),
}
