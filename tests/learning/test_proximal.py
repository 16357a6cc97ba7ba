"""Pulls towards the received weights, on a net of two numbers."""

import numpy as np
import pytest
import torch
from torch import nn

from feddiv.core.randomness import Streams
from feddiv.learning.proximal import Anchor, PulledMixUp
from feddiv.learning.train import Batch


@pytest.fixture
def net() -> nn.Module:
    """Logits are w times the input."""
    made = nn.Linear(1, 2, bias=False)
    nn.init.zeros_(made.weight)
    return made


def moved(net: nn.Module) -> None:
    with torch.no_grad():
        net.weight += torch.tensor([[3.0], [4.0]])


def test_distances(net: nn.Module) -> None:
    anchor = Anchor(net)
    moved(net)
    assert anchor.squared_distance(net).item() == 25
    assert anchor.distance(net).item() == 5


def test_where_nothing_has_moved_the_distance_pulls_nowhere(net: nn.Module) -> None:
    distance = Anchor(net).distance(net)
    distance.backward()
    assert distance.item() == pytest.approx(0, abs=1e-12)
    assert net.weight.grad.tolist() == [[0], [0]]


@pytest.mark.parametrize(("squared", "extra"), [(False, 2 * 5), (True, 2 * 25)])
def test_the_first_batch_of_every_epoch_goes_without_the_pull(
    net: nn.Module, squared: bool, extra: float
) -> None:
    labels = np.array([0, 1, 1])
    pulled, free = (
        PulledMixUp(net, labels, pull, Streams(0), squared=squared) for pull in (2.0, 0.0)
    )
    moved(net)
    batch = Batch(torch.ones(3, 1), torch.from_numpy(labels), torch.arange(3))
    for epoch in range(2):
        for objective in (pulled, free):
            rows, learnt = objective.select(epoch)
            assert rows.tolist() == [0, 1, 2]
            assert learnt.tolist() == [0, 1, 1]
        gaps = [(pulled(net, batch) - free(net, batch)).item() for _ in range(3)]
        assert gaps == pytest.approx([0, extra, extra], rel=1e-5)
