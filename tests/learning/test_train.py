import copy

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor, nn

from feddiv.core.randomness import Streams
from feddiv.data import Augment, Samples, Transform
from feddiv.learning.predict import predict
from feddiv.learning.train import (
    Batch,
    MixUp,
    TrainOptions,
    batches,
    cross_entropy,
    everything,
    mixup_loss,
    prior_loss,
    train,
)

RNG = Streams(3).at(round=2, client=1)
LOG2, LOG3 = float(np.log(2)), float(np.log(3))


def samples(count: int, features: int = 3) -> Samples:
    inputs = torch.randn(count, features, generator=torch.Generator().manual_seed(0))
    return Samples(
        inputs=inputs,
        index=torch.arange(count),
        given=torch.arange(count) % 3,
        truth=None,
        transform=Transform((0.0,), (1.0,), Augment()),
    )


def seeded_net() -> nn.Module:
    torch.manual_seed(1)
    return nn.Sequential(nn.BatchNorm1d(3), nn.Linear(3, 3))


def weights(net: nn.Module) -> Tensor:
    return torch.cat([value.flatten().double() for value in net.state_dict().values()])


# Batches


@pytest.mark.parametrize(
    ("count", "sizes"),
    [(20, [10, 10]), (21, [10, 11]), (22, [10, 10, 2]), (11, [11]), (10, [10]), (2, [2])],
)
def test_a_trailing_batch_of_one_joins_the_one_before(count: int, sizes: list[int]) -> None:
    assert [len(b) for b in batches(count, 10, torch.Generator())] == sizes


@given(st.integers(2, 60), st.integers(2, 12))
def test_every_sample_once_and_no_batch_of_one(count: int, size: int) -> None:
    parts = list(batches(count, size, torch.Generator()))
    assert sorted(torch.cat(parts).tolist()) == list(range(count))
    assert all(2 <= len(part) <= size + 1 for part in parts)


def test_batches_come_in_another_order_every_epoch() -> None:
    generator = torch.Generator().manual_seed(0)
    first, second = (torch.cat(list(batches(30, 10, generator))) for _ in range(2))
    assert first.tolist() != second.tolist()


# The loop


def test_steps_are_epochs_times_batches() -> None:
    options = TrainOptions(epochs=3, batch=10)
    for count, steps in [(10, 3), (11, 3), (12, 6), (25, 9)]:
        data = samples(count)
        assert train(seeded_net(), data, everything(data), cross_entropy, options, RNG) == steps


def test_sgd_with_momentum_and_a_fresh_optimiser_for_every_visit() -> None:
    # The objective is the weight itself, so every gradient is 1. Learning rate 0.1, momentum
    # 0.5: the first step moves by 0.1, the second by 0.1 · 1.5.
    def objective(net: nn.Module, batch: Batch) -> Tensor:
        return net.weight.sum()

    data = samples(4)
    both, each = nn.Linear(1, 1, bias=False), nn.Linear(1, 1, bias=False)
    nn.init.zeros_(both.weight), nn.init.zeros_(each.weight)
    train(both, data, everything(data), objective, TrainOptions(epochs=2, lr=0.1), RNG)
    assert both.weight.item() == pytest.approx(-0.25)
    for _ in range(2):
        train(each, data, everything(data), objective, TrainOptions(epochs=1, lr=0.1), RNG)
    assert each.weight.item() == pytest.approx(-0.2)


def test_an_epoch_with_fewer_than_two_samples_is_skipped() -> None:
    data, net = samples(6), seeded_net()
    before, asked = weights(net), []

    def select(epoch: int) -> tuple[Tensor, Tensor]:
        asked.append(epoch)
        rows = torch.arange([1, 0, 1][epoch])
        return rows, data.given[rows]

    assert train(net, data, select, cross_entropy, TrainOptions(epochs=3), RNG) == 0
    assert asked == [0, 1, 2]
    assert torch.equal(weights(net), before)


def test_each_epoch_trains_on_what_was_selected_with_the_labels_it_was_given() -> None:
    data, seen = samples(9), []
    chosen = {0: ([1, 4, 7], [2, 2, 2]), 1: ([0, 8], [1, 0])}

    def select(epoch: int) -> tuple[Tensor, Tensor]:
        rows, labels = chosen[epoch]
        return torch.tensor(rows), torch.tensor(labels)

    def objective(net: nn.Module, batch: Batch) -> Tensor:
        assert torch.equal(batch.inputs, data.plain(batch.rows))
        seen.append(dict(zip(batch.rows.tolist(), batch.labels.tolist(), strict=True)))
        return cross_entropy(net, batch)

    assert train(seeded_net(), data, select, objective, TrainOptions(epochs=2), RNG) == 2
    assert seen == [{1: 2, 4: 2, 7: 2}, {0: 1, 8: 0}]


def test_net_is_in_train_mode_again_after_a_selection_that_looked_at_it() -> None:
    data, net, modes = samples(6), seeded_net(), []

    def select(epoch: int) -> tuple[Tensor, Tensor]:
        predict(net, data)
        return torch.arange(6), data.given

    def objective(net: nn.Module, batch: Batch) -> Tensor:
        modes.append(net.training)
        return cross_entropy(net, batch)

    train(net, data, select, objective, TrainOptions(epochs=2), RNG)
    assert modes == [True, True]


def test_training_is_a_function_of_the_streams() -> None:
    def trained(rng: Streams) -> Tensor:
        net, data = seeded_net(), samples(24)
        train(net, data, everything(data), MixUp(rng, eta=1.0), TrainOptions(epochs=2), rng)
        return weights(net)

    assert torch.equal(trained(RNG), trained(RNG))
    assert not torch.equal(trained(RNG), trained(RNG.at(client=2)))


# The objectives

HALF_FIRST, HALF_SECOND = [0.5, 0.25, 0.25], [0.25, 0.5, 0.25]


def test_cross_entropy_is_a_mean() -> None:
    batch = Batch(
        torch.tensor([HALF_FIRST, HALF_FIRST]).log(), torch.tensor([0, 1]), torch.arange(2)
    )
    assert cross_entropy(nn.Identity(), batch).item() == pytest.approx((LOG2 + 2 * LOG2) / 2)


def test_mixup_loss_by_hand() -> None:
    # Against the labels: log 2 each; against the partners: log 4 each.
    # 1/4 · log 2 + 3/4 · 2 log 2 = 7/4 log 2
    logits = torch.tensor([HALF_FIRST, HALF_SECOND]).log()
    loss = mixup_loss(logits, torch.tensor([0, 1]), torch.tensor([1, 0]), ratio=0.25)
    assert loss.item() == pytest.approx(7 / 4 * LOG2)


def test_prior_loss_by_hand() -> None:
    # KL((1/3, 1/3, 1/3) || (1/2, 1/4, 1/4)) = -log 3 + (log 2 + 2 log 4) / 3
    one = torch.tensor([HALF_FIRST]).log()
    assert prior_loss(one).item() == pytest.approx(5 / 3 * LOG2 - LOG3, abs=1e-6)
    # The mean of the softmax outputs counts: sure answers in equal number cost nothing.
    sure = torch.tensor([[0.98, 0.01, 0.01], [0.01, 0.98, 0.01], [0.01, 0.01, 0.98]]).log()
    assert prior_loss(sure).item() == pytest.approx(0, abs=1e-6)


def test_prior_loss_of_one_class_alone_is_finite() -> None:
    collapsed = torch.tensor([[1000.0, 0.0, 0.0]], requires_grad=True)
    loss = prior_loss(collapsed)
    loss.backward()
    assert loss.isfinite()
    assert collapsed.grad is not None
    assert collapsed.grad.isfinite().all()


@pytest.mark.parametrize("eta", [0.0, 1.0, 0.5])
def test_mixup_mixes_inputs_and_labels_alike(eta: float) -> None:
    ratio = RNG.numpy("mixup").beta(1.0, 1.0)
    partner = torch.randperm(4, generator=RNG.torch("mixup"))
    inputs = torch.tensor([HALF_FIRST, HALF_SECOND, HALF_FIRST, [0.1, 0.2, 0.7]]).log()
    labels = torch.tensor([0, 1, 2, 2])

    mixed = (ratio * inputs + (1 - ratio) * inputs[partner]).log_softmax(dim=1)
    targets = ratio * torch.eye(3)[labels] + (1 - ratio) * torch.eye(3)[labels[partner]]
    expected = -(targets * mixed).sum(dim=1).mean()
    expected -= eta * (mixed.exp().mean(dim=0).log().mean() + LOG3)

    loss = MixUp(RNG, eta=eta)(nn.Identity(), Batch(inputs, labels, torch.arange(4)))
    assert loss.item() == pytest.approx(expected.item(), abs=1e-6)


def test_one_ratio_per_batch_uniform_in_zero_to_one() -> None:
    # Beta(1, 1) is uniform. Input 1 mixed with its partner shows the ratio itself.
    ratios: list[float] = []

    def net(mixed: Tensor) -> Tensor:
        ratios.extend({round(v, 5) for v in mixed[mixed[:, 1] != mixed[:, 0]][:, 0].tolist()})
        return torch.zeros(len(mixed), 2)

    drawn = RNG.numpy("mixup").beta(1.0, 1.0, size=200)
    objective, inputs = MixUp(RNG), torch.tensor([[1.0, 0.0], [0.0, 1.0]])
    partners = RNG.torch("mixup")
    for expected in drawn:
        ratios.clear()
        swapped = torch.randperm(2, generator=partners).tolist() == [1, 0]
        objective(net, Batch(inputs, torch.tensor([0, 1]), torch.arange(2)))
        wanted = {expected, 1 - expected} if swapped else {1.0, 0.0}
        assert sorted(ratios) == pytest.approx(sorted(wanted), abs=1e-5)
    assert np.histogram(drawn, bins=4, range=(0, 1))[0].min() > 30


def test_raw_forward_moves_batch_norm_statistics_and_not_the_loss() -> None:
    once, twice = seeded_net(), seeded_net()
    batch = Batch(torch.randn(6, 3), torch.arange(6) % 3, torch.arange(6))
    first = MixUp(RNG)(once, batch)
    second = MixUp(RNG, raw_forward=True)(twice, batch)
    assert second.item() == first.item()
    assert once[0].num_batches_tracked == 1
    assert twice[0].num_batches_tracked == 2
    assert not torch.equal(once[0].running_mean, twice[0].running_mean)
    first.backward(), second.backward()
    assert torch.equal(once[1].weight.grad, twice[1].weight.grad)


# Passes without gradients


def test_predict_is_in_eval_mode_and_leaves_the_net_as_it_was() -> None:
    net, data = seeded_net().train(), samples(600)
    before = copy.deepcopy(net.state_dict())
    logits = predict(net, data)
    assert logits.shape == (600, 3)
    assert not logits.requires_grad
    assert all(torch.equal(value, before[key]) for key, value in net.state_dict().items())
    assert torch.equal(logits, predict(net, data)), "batch statistics play no part"


@settings(max_examples=10, deadline=None)
@given(st.lists(st.integers(0, 19), min_size=1, max_size=20))
def test_predict_of_rows_is_that_of_the_rows(rows: list[int]) -> None:
    net, data = seeded_net(), samples(20)
    some = predict(net, data, torch.tensor(rows))
    assert torch.allclose(some, predict(net, data)[rows], atol=1e-6)


def test_several_nets_answer_together() -> None:
    data = samples(4)
    nets = {"a": nn.Identity(), "b": nn.Identity()}
    both = predict(nets, data, forward=lambda nets, x: nets["a"](x) + 2 * nets["b"](x))
    assert torch.equal(both, 3 * data.inputs)
