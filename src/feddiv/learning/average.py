"""Averaging weights as a running sum: no list of models is ever held."""

from __future__ import annotations

from dataclasses import dataclass, field

import torch

from feddiv.core.arrays import StateDict, Weights


def copied(weights: Weights) -> Weights:
    """The same weights in memory of their own."""
    return {
        model: {key: value.clone() for key, value in state.items()}
        for model, state in weights.items()
    }


class RunningMean:
    """Weighted mean of state dicts, added one by one in the plan's order.

    Every floating entry is averaged, batch-norm statistics included; integer entries (the
    batch-norm step counters, which nothing reads) stay as the first reply has them. Sums are in
    float64, so that the mean of a single reply is that reply bit for bit.
    """

    def __init__(self) -> None:
        self.total = 0.0
        self._sums: Weights = {}
        self._types: dict[str, dict[str, torch.dtype]] = {}

    def add(self, weights: Weights, amount: float) -> None:
        """Add one reply that counts `amount` (the client's number of samples)."""
        if not self._sums:
            self._begin(weights)
        for name, net in weights.items():
            for key, value in floating(net):
                self._sums[name][key].add_(value, alpha=amount)
        self.total += amount

    def _begin(self, weights: Weights) -> None:
        for name, net in weights.items():
            self._types[name] = {key: value.dtype for key, value in net.items()}
            self._sums[name] = {
                key: torch.zeros_like(value, dtype=torch.float64)
                if value.is_floating_point()
                else value.clone()
                for key, value in net.items()
            }

    def mean(self) -> Weights | None:
        """The mean so far, in contiguous memory; None where nothing was added."""
        if not self.total:
            return None
        return {
            name: {
                key: (value / self.total).to(self._types[name][key]).contiguous()
                if value.is_floating_point()
                else value
                for key, value in net.items()
            }
            for name, net in self._sums.items()
        }


@dataclass(frozen=True)
class ServerMomentum:
    """The step that the server makes from one global model to the next (FedAvgM, Hsu et al. 2019).

    v = (mean - theta) + beta v, theta = theta + v; without beta that is the mean. What
    normalisation layers count of their inputs is always the mean's.
    """

    step: StateDict = field(default_factory=dict)  # v, by "step of" the entry: it is no model

    def stepped(
        self, net: StateDict, mean: StateDict, momentum: float
    ) -> tuple[StateDict, ServerMomentum]:
        """The model after `net`, from the mean of the clients' models, and the step to it."""
        if not momentum:
            return mean, self
        steps, after = {}, dict(mean)
        for key, value in floating(mean):
            if counted(key):
                continue
            step, name = value.double() - net[key].double(), f"step of {key}"
            if name in self.step:
                step = step + momentum * self.step[name]
            steps[name], after[key] = step, (net[key].double() + step).to(value.dtype)
        return after, ServerMomentum(steps)


COUNTED = ("running_mean", "running_var")  # how torch's normalisation layers call what they count


def counted(key: str) -> bool:
    """Whether an entry is what a normalisation layer has counted, and not what was trained."""
    return key.rpartition(".")[2] in COUNTED


def floating(net: StateDict) -> list[tuple[str, torch.Tensor]]:
    """The entries that are averaged."""
    return [(key, value) for key, value in net.items() if value.is_floating_point()]


@dataclass(frozen=True)
class Trail:
    """The weighted mean of the models along one iteration of a hand-over.

    The last model of a hand-over is as good as its last client, and that one may have nothing but
    wrong labels; the mean along the way does not depend on who came last.
    """

    mean: StateDict | None = None
    samples: int = 0
    visits: int = 0

    def followed(self, net: StateDict | None, samples: int) -> Trail:
        """The trail after one more visit; `net` is None where the client did not answer."""
        if net is None:
            return Trail(self.mean, self.samples, self.visits + 1)
        total = self.samples + samples
        mean = net
        if self.mean is not None:
            share = samples / total
            mean = {
                key: value + (net[key] - value) * share if value.is_floating_point() else value
                for key, value in self.mean.items()
            }
        return Trail(mean, total, self.visits + 1)
