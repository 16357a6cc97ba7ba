"""What several methods do alike around a local training."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import torch

from feddiv.core.arrays import StateDict
from feddiv.data import Samples
from feddiv.learning.quality import Confusion
from feddiv.methods.contract import (
    Budget,
    Client,
    Declared,
    Diary,
    Message,
    Nets,
    Payload,
    Reply,
    Stage,
)

LARGEST_NORM = 1e15  # of an update that is of any use: beyond it products of weights overflow
DIVERGENCE = {"divergence": Declared((), low=0.0, high=LARGEST_NORM**2, metric=True)}


def warmed_up(budget: Budget, share: float) -> tuple[Stage, Stage]:
    """A share of the rounds on all given labels, then what the method is about: one at least."""
    warmup = min(budget.part(share), budget.rounds - 1)
    return Stage("warmup", warmup), Stage("train", budget.rounds - warmup)


def trained_reply(
    client: Client,
    trained: torch.nn.Module | Nets,
    received: Message,
    payload: Payload | None = None,
) -> Reply:
    """The reply that carries what was trained: weights, n_k, and how far they moved in all.

    The weights are those of the nets themselves: whoever carries the reply copies them once.
    """
    nets = {"net": trained} if isinstance(trained, torch.nn.Module) else trained
    moved = [divergence(net, received.weights[name]) for name, net in nets.items()]
    return Reply(
        client=client.id,
        samples=len(client),
        weights={name: _detached(net) for name, net in nets.items()},
        payload=payload or {},
        metrics={"divergence": sum(moved)},
    )


def flagged_diary(
    samples: Samples, labels: npt.NDArray[np.int64], flagged: npt.NDArray[np.bool_]
) -> Diary:
    """How many of the client's labels [n] are held to be wrong and, given the truth, how rightly.

    `labels` are those that were judged: given, or corrected at an earlier visit.
    """
    diary: Diary = {
        "noise_level": share(flagged),
        "clean": int((~flagged).sum()),
        "noisy": int(flagged.sum()),
    }
    if samples.truth is None:
        return diary
    wrong = labels != samples.truth.numpy()
    return diary | {
        "true_noise_level": share(wrong),
        "filter": Confusion.of(flagged, wrong).as_dict(),
    }


def share(members: npt.NDArray[np.bool_]) -> float:
    """The share of a set in its whole, 0 of nothing."""
    return float(members.sum() / max(len(members), 1))


def _detached(net: torch.nn.Module) -> StateDict:
    return {key: value.detach().cpu() for key, value in net.state_dict().items()}


def copy_of(net: torch.nn.Module) -> StateDict:
    """Weights in contiguous memory of their own: the net object goes on to the next client."""
    plain = torch.contiguous_format
    return {
        key: value.detach().cpu().clone(memory_format=plain)
        for key, value in net.state_dict().items()
    }


def divergence(net: torch.nn.Module, received: StateDict) -> float:
    """Squared distance of the trained parameters from the received ones (the paper's stability)."""
    return sum(
        (value.detach().cpu() - received[key]).square_().sum().item()
        for key, value in net.named_parameters()
    )
