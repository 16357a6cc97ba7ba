"""Warm-up by hand-over: one client after the other, each from the weights of the one before.

FedDiv warms up so, as FedCorr's first stage does; FedAvg can, to be compared on the same terms.
"""

from collections.abc import Collection
from typing import Literal

from feddiv.core.arrays import StateDict
from feddiv.core.options import Options
from feddiv.core.randomness import Streams
from feddiv.learning.average import Trail
from feddiv.methods.contract import Budget, Stage


class HandOverOptions(Options):
    """How a hand-over trains, and what it leaves."""

    # What a hand-over ends with: its last model, or the mean of its last iteration's.
    result: Literal["last", "average"] = "average"
    regulariser: bool = True  # whether the prior regulariser counts in warm-up too


def hand_over_stage(budget: Budget) -> Stage:
    """A turn is an iteration, which visits every client once."""
    return Stage("warmup", budget.warmup_iterations, 1 / budget.fraction, hands_over=True)


def hand_over_order(clients: Collection[int], rng: Streams) -> list[int]:
    """Who comes after whom in one iteration."""
    everyone = sorted(clients)
    return [everyone[place] for place in rng.numpy("order").permutation(len(everyone))]


def hand_over_trail(
    options: HandOverOptions, trail: Trail, net: StateDict | None, samples: float, clients: int
) -> Trail:
    """The trail after a visit, which begins anew with every iteration over all `clients`.

    `net` is None where the client did not answer.
    """
    if options.result == "last":
        return trail
    complete = trail.visits == clients
    return (Trail() if complete else trail).followed(net, int(samples))
