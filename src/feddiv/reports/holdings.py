"""Who holds what under which labels: a draw in numbers, before anything is trained."""

from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from feddiv.data import OUTSIDE, Dataset, Draw


@dataclass(frozen=True)
class Holding:
    """One client.

    `counts` has its samples by class: by true class where that is known, by given label where it
    is not. `held_out` samples are kept out of training and counted nowhere else. `outside` are
    samples of none of the classes. `level` is how noisy the client was made,
    `wrong` the share of its labels that are wrong; None where nobody knows.
    """

    client: int
    name: str
    samples: int
    held_out: int
    counts: tuple[int, ...]
    outside: int
    kind: str
    level: float | None
    wrong: float | None

    @property
    def classes(self) -> int:
        """How many classes the client has samples of."""
        return sum(count > 0 for count in self.counts)


@dataclass(frozen=True)
class Holdings:
    """All clients of a draw; `unheld` samples are nobody's, not even kept out of training."""

    dataset: str
    classes: tuple[str, ...]
    clients: tuple[Holding, ...]
    unheld: int
    by_truth: bool
    draw: str

    @property
    def samples(self) -> int:
        """How many samples somebody holds."""
        return sum(client.samples for client in self.clients)

    @property
    def held_out(self) -> int:
        """How many samples are kept out of training."""
        return sum(client.held_out for client in self.clients)

    @property
    def wrong(self) -> float | None:
        """The share of wrong labels among all that somebody holds."""
        if not self.by_truth:
            return None
        return sum((client.wrong or 0) * client.samples for client in self.clients) / self.samples

    def as_dict(self) -> dict[str, Any]:
        """Plain values, for JSON."""
        clients = [asdict(client) | {"classes": client.classes} for client in self.clients]
        totals = {"samples": self.samples, "held_out": self.held_out, "wrong": self.wrong}
        return asdict(self) | totals | {"clients": clients}


def holdings(dataset: Dataset, draw: Draw) -> Holdings:
    """What each client of this draw holds."""
    shown = draw.given if draw.truth is None else draw.truth
    clients = []
    for client, part in enumerate(draw.parts):
        labels = shown[part]
        counts = np.bincount(labels[labels != OUTSIDE], minlength=len(dataset.classes))
        wrong = None if draw.truth is None else float(np.mean(draw.given[part] != labels))
        clients.append(
            Holding(
                client=client,
                name=draw.names[client] if draw.names else str(client),
                samples=len(part),
                held_out=0 if draw.held_out is None else len(draw.held_out[client]),
                counts=tuple(counts.tolist()),
                outside=int((labels == OUTSIDE).sum()),
                kind=draw.kinds[client] if draw.kinds else "",
                level=None if draw.levels is None else float(draw.levels[client]),
                wrong=wrong,
            )
        )
    held = sum(client.samples + client.held_out for client in clients)
    return Holdings(
        dataset=dataset.name,
        classes=dataset.classes,
        clients=tuple(clients),
        unheld=len(draw.given) - held,
        by_truth=draw.truth is not None,
        draw=draw.hash,
    )
