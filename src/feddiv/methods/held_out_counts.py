"""An examination: how the global model does on samples that clients keep out of training.

Every client counts at home and sends counts by class of the given labels, nothing of a sample. The
exchange goes the way of all others, whoever carries it; a client's memory stays as it was.
"""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from feddiv.methods.contract import (
    Assessment,
    Client,
    Declared,
    Diary,
    Exchange,
    Facts,
    Kind,
    Message,
    Method,
    Reply,
)

Counts = npt.NDArray[np.int64]

KIND = "examine"
BELIEVED_FROM = 0.5  # p(clean)


def examination(method: Method[Any, Any], state: Any, facts: Facts) -> Exchange:
    """What everybody is asked: the global model, and what a method adds to assess labels with."""
    return Exchange(tuple(facts.sizes), replace(method.assessment(state), kind=KIND))


def counts_kind(facts: Facts, most: int) -> Kind:
    """Counts by class: samples and right predictions; of those believed only where there are.

    `most` is how many samples a client can have kept out, by what the server knows of it.
    """
    counts = Declared((len(facts.classes),), low=0.0, high=float(most), pooled="total")
    optional = replace(counts, optional=True)
    reply = {
        "held_out": counts,
        "right": counts,
        "believed": optional,
        "believed_right": optional,
    }
    return Kind(reply, models=())


def examined(
    method: Method[Any, Any], client: Client, memory: Any, received: Message
) -> tuple[Reply, Diary]:
    """The client's counts; the diary says how often the model met the truth, where it is known."""
    samples, classes = client.held_out, client.classes
    if not len(samples):
        nothing = np.zeros(classes)
        return Reply(client.id, len(client), None, {"held_out": nothing, "right": nothing}), {}
    opinion: Assessment = method.assess_held_out(client, memory, received)
    opinion = opinion.trusting(samples)
    given = samples.given.numpy()
    right = opinion.predicted == given
    payload = {"held_out": _by_class(given, classes), "right": _by_class(given[right], classes)}
    if opinion.p_clean is not None:
        believed = opinion.p_clean >= BELIEVED_FROM
        payload["believed"] = _by_class(given[believed], classes)
        payload["believed_right"] = _by_class(given[believed & right], classes)
    diary: Diary = {}
    if samples.truth is not None:
        diary["truly_right"] = int((opinion.predicted == samples.truth.numpy()).sum())
    return Reply(client.id, len(client), None, payload), diary


def _by_class(labels: npt.NDArray[np.int64], classes: int) -> npt.NDArray[np.float64]:
    return np.bincount(labels, minlength=classes).astype(np.float64)


@dataclass
class Examined:
    """The counts of all clients that answered, added up."""

    classes: int
    truly_right: int | None = None  # in simulation only

    def __post_init__(self) -> None:
        self.held_out, self.right, self.judged, self.believed, self.believed_right = (
            np.zeros(self.classes, np.int64) for _ in range(5)
        )

    def add(self, reply: Reply, diary: Diary, most: int, share: float = 1.0) -> None:
        """One client more, of at most so many samples; a share of each count is added.

        Raises ValueError where its counts contradict that or each other.
        """
        counts = {name: _whole(name, value) for name, value in reply.payload.items()}
        held, right = counts["held_out"], counts["right"]
        believed = counts.get("believed", np.zeros_like(held))
        believed_right = counts.get("believed_right", np.zeros_like(held))
        if held.sum() > most:
            raise ValueError(f"counts {held.sum()} held-out samples, it can have {most}")
        if (right > held).any() or (believed > held).any():
            raise ValueError("counts more right or believed than there are")
        if (believed_right > np.minimum(believed, right)).any():
            raise ValueError("counts more believed and right than are both")
        held, right, believed, believed_right = (
            np.floor(each * share).astype(np.int64)  # never more of a part than of its whole
            for each in (held, right, believed, believed_right)
        )
        self.held_out += held
        self.right += right
        self.believed += believed
        self.believed_right += believed_right
        if "believed" in counts:
            self.judged += held
        if "truly_right" in diary:
            self.truly_right = (self.truly_right or 0) + diary["truly_right"]


def _whole(name: str, value: npt.NDArray[np.float64]) -> Counts:
    counts = value.astype(np.int64)
    if (counts != value).any():
        raise ValueError(f"{name} is no count")
    return counts
