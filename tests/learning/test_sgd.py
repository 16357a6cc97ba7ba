"""Our SGD against torch's."""

import copy

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor, nn

from feddiv.learning.sgd import Sgd


class Two(nn.Module):
    """A net whose second layer takes part only when it is asked to."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.first, self.second = nn.Linear(5, 5), nn.Linear(5, 5)
        self.frozen = nn.Parameter(torch.ones(5), requires_grad=False)

    def forward(self, x: Tensor, *, both: bool) -> Tensor:
        once = self.first(x) * self.frozen
        return self.second(once) if both else once


def inputs(step: int) -> Tensor:
    return torch.randn(7, 5, generator=torch.Generator().manual_seed(step))


@settings(deadline=None)
@given(st.sampled_from([0.0, 0.5, 0.9]), st.sampled_from([0.0, 0.01]), st.integers(1, 5))
def test_the_same_bits_as_torch(momentum: float, weight_decay: float, steps: int) -> None:
    ours, theirs = Two(), Two()
    rates = {"lr": 0.1, "momentum": momentum, "weight_decay": weight_decay}
    pairs = (
        (ours, Sgd(ours.parameters(), **rates)),
        (theirs, torch.optim.SGD(theirs.parameters(), **rates, fused=True)),
    )
    for step in range(steps):
        for net, optimiser in pairs:
            optimiser.zero_grad()
            net(inputs(step), both=True).square().sum().backward()
            optimiser.step()
    for key, value in ours.state_dict().items():
        assert torch.equal(value, theirs.state_dict()[key])


def test_a_parameter_without_a_gradient_stays_and_begins_when_it_has_one() -> None:
    net = Two()
    optimiser = Sgd(net.parameters(), lr=0.1, momentum=0.5, weight_decay=0.1)
    before = copy.deepcopy(net.state_dict())
    for both in (False, True):
        optimiser.zero_grad()
        net(inputs(0), both=both).sum().backward()
        optimiser.step()
        moved = {key for key, value in net.state_dict().items() if not value.equal(before[key])}
        layers = {"first", "second"} if both else {"first"}
        assert moved == {f"{layer}.{part}" for layer in layers for part in ("weight", "bias")}
    gradient = net.second.bias.grad
    assert gradient is not None
    step = 0.1 * (gradient + 0.1 * before["second.bias"])
    torch.testing.assert_close(net.second.bias.detach(), before["second.bias"] - step)


def test_gradients_are_forgotten() -> None:
    weight = nn.Parameter(torch.zeros(1))
    optimiser = Sgd([weight], lr=1.0, momentum=0.0, weight_decay=0.0)
    for expected in (-1.0, -2.0):
        optimiser.zero_grad()
        weight.sum().backward()
        optimiser.step()
        assert weight.item() == pytest.approx(expected)
