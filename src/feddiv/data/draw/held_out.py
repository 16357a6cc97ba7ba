"""Samples that clients keep out of training, to measure the model where no test set is clean."""

from dataclasses import replace

import numpy as np

from feddiv.core.arrays import Rows
from feddiv.core.errors import UserError
from feddiv.core.randomness import Streams
from feddiv.data.draw.draw import Draw

FEWEST = 5  # a client with fewer samples trains on all of them


def held_out_size(samples: int, share: float) -> int:
    """How many of a client's samples are kept out: none of a few, else one at least."""
    if samples < FEWEST:
        return 0
    return min(max(int(share * samples + 0.5), 1), samples - 1)


def most_held_out(trained_on: int, share: float) -> int:
    """The most that a client can keep out which trains on so many samples."""
    return max(1, int((share * trained_on + 0.5) / (1 - share) + 1e-6))  # not less by rounding


def with_held_out(draw: Draw, share: float, streams: Streams) -> Draw:
    """The draw with this share of every client's samples kept out of training."""
    sizes = [held_out_size(len(part), share) for part in draw.parts]
    if not any(sizes):
        raise UserError(
            f"evaluation.name=held_out: every client has fewer than {FEWEST} samples, "
            "so that nothing can be kept out; use fewer clients or evaluation.name=central"
        )
    kept = tuple(
        _chosen(draw.given[part], size, streams.at(client=client).numpy("held_out"))
        for client, (part, size) in enumerate(zip(draw.parts, sizes, strict=True))
    )
    pairs = list(zip(draw.parts, kept, strict=True))
    return replace(
        draw,
        parts=tuple(np.delete(part, rows) for part, rows in pairs),
        held_out=tuple(part[rows] for part, rows in pairs),
    )


def check_share(draw: Draw, share: float) -> None:
    """Refuse a draw whose clients keep out another share than is asked for."""
    assert draw.held_out is not None
    for client, (part, held) in enumerate(zip(draw.parts, draw.held_out, strict=True)):
        wanted = held_out_size(len(part) + len(held), share)
        if len(held) != wanted:
            raise UserError(
                f"data.draw: client {client} keeps {len(held)} of {len(part) + len(held)} samples "
                f"out of training; evaluation.share={share} would be {wanted}"
            )


def _chosen(labels: Rows, size: int, rng: np.random.Generator) -> Rows:
    """`size` positions, from every class in proportion; what is left over by largest remainder.

    Classes that are equally due are drawn among.
    """
    if not size:
        return np.empty(0, np.int64)
    order = rng.permutation(len(labels))
    classes, counts = np.unique(labels, return_counts=True)
    due = counts * size / max(len(labels), 1)
    quota = np.floor(due).astype(np.int64)
    lots = rng.permutation(len(classes))
    ranked = lots[np.argsort(-(due - quota)[lots], kind="stable")]
    quota[ranked[: size - quota.sum()]] += 1
    chosen = [order[labels[order] == name][:n] for name, n in zip(classes, quota, strict=True)]
    return np.sort(np.concatenate([np.empty(0, np.int64), *chosen])).astype(np.int64)
