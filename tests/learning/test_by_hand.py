"""Gradients by hand against autograd's, to the bit."""

import copy
from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn

from feddiv.core.randomness import Streams
from feddiv.data import Augment, Samples, Transform
from feddiv.learning.proximal import PulledMixUp
from feddiv.learning.train import (
    Batch,
    CrossEntropy,
    MixUp,
    Objective,
    TrainOptions,
    cross_entropy,
    everything,
    train,
)
from feddiv.methods.fedprox import Proximal
from feddiv.nets.linear import Linear
from feddiv.nets.mlp import Mlp
from feddiv.nets.stack import stack_of

CLASSES, WIDTH = 4, 20
RNG = Streams(5).at(round=1, client=2)
LABELS = torch.arange(33) % CLASSES

NETS: dict[str, Callable[[], nn.Module]] = {
    "two layers of 128": lambda: Mlp(WIDTH, CLASSES),
    "one layer of 7": lambda: Mlp(WIDTH, CLASSES, hidden=7, layers=1),
    "four layers of 5": lambda: Mlp(WIDTH, CLASSES, hidden=5, layers=4),
    "one unit": lambda: Mlp(WIDTH, CLASSES, hidden=1),
    "linear": lambda: Linear(WIDTH, CLASSES),
}
OBJECTIVES: dict[str, Callable[[nn.Module], Objective]] = {
    "cross-entropy": lambda net: cross_entropy,
    "mixup": lambda net: MixUp(RNG),
    "with the prior": lambda net: MixUp(RNG, eta=0.7, raw_forward=True),
    "proximal": lambda net: Proximal(net, 0.3),
    "pulled": lambda net: PulledMixUp(net, LABELS.numpy(), 0.3, RNG, squared=False),
    "pulled, squared": lambda net: PulledMixUp(net, LABELS.numpy(), 0.3, RNG, squared=True),
}


def seeded(make: Callable[[], nn.Module]) -> nn.Module:
    torch.manual_seed(1)
    return make()


def samples(count: int = len(LABELS)) -> Samples:
    inputs = torch.randn(count, WIDTH, generator=torch.Generator().manual_seed(0))
    return Samples(
        inputs=inputs,
        index=torch.arange(count),
        given=LABELS[:count],
        truth=None,
        transform=Transform((0.0,), (1.0,), Augment()),
    )


def weights(net: nn.Module) -> Tensor:
    return torch.cat([value.flatten() for value in net.state_dict().values()])


def trained(net: nn.Module, objective: Objective, batch: int = 10) -> Tensor:
    data, options = samples(), TrainOptions(epochs=2, batch=batch, weight_decay=0.01)
    train(net, data, everything(data), objective, options, RNG)
    return weights(net)


@pytest.mark.parametrize("net", NETS)
@pytest.mark.parametrize("objective", OBJECTIVES)
def test_training_gives_the_bits_of_autograd(net: str, objective: str) -> None:
    ours, theirs = seeded(NETS[net]), seeded(NETS[net])
    assert stack_of(ours) is not None
    plain = OBJECTIVES[objective](theirs)  # behind a function its gradients are autograd's
    expected = trained(theirs, lambda net, batch: plain(net, batch))
    assert torch.equal(trained(ours, OBJECTIVES[objective](ours)), expected)


@pytest.mark.parametrize("size", range(2, 12))
@pytest.mark.parametrize("eta", [0.0, 1.0])
def test_gradients_of_every_batch_size(size: int, eta: float) -> None:
    ours, theirs = seeded(NETS["two layers of 128"]), seeded(NETS["two layers of 128"])
    rows = torch.arange(size)
    batch = Batch(samples().plain(rows), LABELS[rows], rows)
    stack = stack_of(ours)
    assert stack is not None
    for _ in range(2):  # the second time they are added to what is there
        MixUp(RNG, eta=eta).add_gradients(stack, batch)
        MixUp(RNG, eta=eta)(theirs, batch).backward()
    for mine, other in zip(ours.parameters(), theirs.parameters(), strict=True):
        assert mine.grad is not None
        assert torch.equal(mine.grad, other.grad)
    for mode in (True, False):
        with torch.no_grad():
            assert torch.equal(stack.forward(batch.inputs), theirs.train(mode)(batch.inputs))


@pytest.mark.parametrize(
    "change",
    [
        lambda net: net.fc.register_forward_hook(lambda *_: None),
        lambda net: net.fc.weight.requires_grad_(False),
        lambda net: net.double(),
        lambda net: setattr(net, "forward", net.forward),
        lambda net: setattr(net, "fc", nn.Linear(128, CLASSES, bias=False)),
    ],
)
def test_a_net_that_was_changed_is_left_to_autograd(change: Callable[[nn.Module], object]) -> None:
    net = Mlp(WIDTH, CLASSES)
    change(net)
    assert stack_of(net) is None


def test_other_nets_are_left_to_autograd() -> None:
    class Own(Mlp):
        def features(self, x: Tensor) -> Tensor:
            return 2 * super().features(x)

    others = [
        Mlp(WIDTH, CLASSES, norm="layer"),
        Mlp(WIDTH, CLASSES, dropout=0.5),
        Own(WIDTH, CLASSES),
        nn.Sequential(nn.Linear(WIDTH, CLASSES)),
    ]
    assert [stack_of(net) for net in others] == [None] * 4


def test_a_subclass_with_a_loss_of_its_own_is_left_to_autograd() -> None:
    class Doubled(CrossEntropy):
        def __call__(self, net: nn.Module, batch: Batch) -> Tensor:
            return 2 * super().__call__(net, batch)

    ours, theirs = seeded(NETS["linear"]), seeded(NETS["linear"])
    expected = trained(theirs, lambda net, batch: 2 * cross_entropy(net, batch))
    assert torch.equal(trained(ours, Doubled()), expected)


def test_soft_labels_are_left_to_autograd() -> None:
    net, data = seeded(NETS["linear"]), samples()
    other = copy.deepcopy(net)
    soft = torch.full((len(data), CLASSES), 1 / CLASSES)
    for each, objective in ((net, cross_entropy), (other, lambda n, b: cross_entropy(n, b))):
        train(each, data, lambda _: (torch.arange(len(data)), soft), objective, TrainOptions(), RNG)
    assert torch.equal(weights(net), weights(other))
