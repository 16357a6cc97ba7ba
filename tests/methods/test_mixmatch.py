"""DivideMix's objective against targets and a loss worked out by hand."""

from collections.abc import Sequence

import numpy as np
import pytest
import torch
from torch import nn

from feddiv.core.randomness import Streams
from feddiv.data import Augment, Samples, Transform
from feddiv.learning.train import Batch
from feddiv.methods.dividemix.mixmatch import (
    CoDivision,
    MixMatch,
    MixMatchOptions,
    refined,
    sharpen,
)

RNG = Streams(4)
# Logits by name of what their softmax is: (1/2, 1/4, 1/4) and so on.
INPUTS = np.log([[4.0, 2, 2], [1, 1, 2], [2, 1, 1]])


class Scaled(nn.Module):
    """Logits are the inputs times a number; counts passes by mode."""

    def __init__(self, gain: float) -> None:
        super().__init__()
        self.gain = nn.Parameter(torch.tensor(gain))
        self.modes: list[bool] = []

    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        self.modes.append(self.training)
        return inputs * self.gain


def mixmatch(
    labelled: Sequence[int],
    unlabelled: Sequence[int],
    trust: Sequence[float],
    batch: int = 2,
    weight: float = 10.0,
) -> MixMatch:
    inputs = torch.from_numpy(INPUTS.astype(np.float32))
    given = torch.tensor([0, 0, 1])
    samples = Samples(inputs, torch.arange(3), given, None, Transform((0.0,), (1.0,), Augment()))
    rows, others = torch.tensor(labelled), torch.tensor(unlabelled, dtype=torch.int64)
    division = CoDivision(rows, others, torch.tensor(trust))
    return MixMatch(
        MixMatchOptions(),
        samples,
        division,
        Scaled(2.0),
        RNG,
        batch=batch,
        unlabelled_weight=weight,
    )


def whole_batch(objective: MixMatch) -> Batch:
    rows, labels = objective.select(0)
    return Batch(objective.samples.plain(rows), labels, rows)


def test_sharpening_with_half_a_temperature_squares() -> None:
    # Squares 1/4, 1/16, 1/16 add up to 6/16.
    found = sharpen(torch.tensor([[0.5, 0.25, 0.25], [1, 0, 0]]), 0.5)
    torch.testing.assert_close(found, torch.tensor([[2 / 3, 1 / 6, 1 / 6], [1, 0, 0]]))


def test_a_label_counts_as_far_as_it_is_trusted() -> None:
    # 0.6 of label 0, 0.4 of (1/2, 1/2, 0).
    said = torch.tensor([[0.5, 0.5, 0.0]]).repeat(3, 1)
    found = refined(torch.tensor([0, 0, 2]), torch.tensor([0.6, 1.0, 0.0]), said)
    torch.testing.assert_close(found, torch.tensor([[0.8, 0.2, 0], [1, 0, 0], [0.5, 0.5, 0]]))


def test_targets() -> None:
    objective, net = mixmatch([0, 1], [2], [1.0, 0.5, 0.2]), Scaled(1.0).train()
    inputs, targets = objective.targets(net, whole_batch(objective))
    expected = [
        [1, 0, 0],  # trusted altogether
        # Half of label 0, half of (1/4, 1/4, 1/2): 5, 1 and 2 eighths; squares add up to 30.
        [25 / 30, 1 / 30, 4 / 30],
        # (1/2, 1/4, 1/4) of this net, (2/3, 1/6, 1/6) of the other: 14, 5 and 5 of 24.
        [196 / 246, 25 / 246, 25 / 246],
    ]
    rows = [0, 1, 0, 1, 2, 2]  # two views of either batch
    torch.testing.assert_close(inputs, torch.from_numpy(INPUTS[rows].astype(np.float32)))
    torch.testing.assert_close(targets, torch.tensor([expected[row] for row in rows]))
    assert net.modes == [False]
    assert net.training, "training goes on after the targets"
    assert not targets.requires_grad


def test_the_loss_by_hand() -> None:
    objective = mixmatch([0, 1], [2], [1.0, 0.5, 0.2])
    made = objective.targets(Scaled(1.0), whole_batch(objective))
    inputs, targets = (found.double().numpy() for found in made)
    ratio = RNG.numpy("mixup").beta(4, 4)
    ratio = max(ratio, 1 - ratio)
    partner = torch.randperm(6, generator=RNG.torch("mixup")).numpy()
    logits = ratio * inputs + (1 - ratio) * inputs[partner]
    wanted = ratio * targets + (1 - ratio) * targets[partner]
    said = np.exp(logits) / np.exp(logits).sum(axis=1, keepdims=True)
    labelled = -(wanted[:4] * np.log(said[:4])).sum(axis=1).mean()
    unlabelled = ((said[4:] - wanted[4:]) ** 2).mean()
    prior = np.log(1 / 3 / said.mean(axis=0)).mean()
    found = objective(Scaled(1.0), whole_batch(objective))
    assert found.item() == pytest.approx(labelled + 10 * unlabelled + prior, rel=1e-5)
    assert found.requires_grad


def test_without_unlabelled_samples_their_terms_are_left_out() -> None:
    one, other = (mixmatch([0, 1, 2], [], [1.0, 1, 1], weight=weight) for weight in (0.0, 1e9))
    net = Scaled(1.0)
    assert one(net, whole_batch(one)).item() == other(net, whole_batch(other)).item()
    assert one.targets(net, whole_batch(one))[0].shape == (6, 3)
    assert one.other.modes == [], "nobody to ask the other net about"


def test_unlabelled_samples_come_round_again() -> None:
    objective = mixmatch([0], [1, 2], [1.0, 0.5, 0.2], batch=1)
    net, seen = Scaled(1.0), []
    for _ in range(6):
        inputs, _ = objective.targets(net, whole_batch(objective))
        seen.append(tuple(inputs[2].exp().round().int().tolist()))
    rounds = [set(seen[start : start + 2]) for start in (0, 2, 4)]
    assert rounds == [{(1, 1, 2), (2, 1, 1)}] * 3
