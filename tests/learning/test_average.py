import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

from feddiv.learning.average import RunningMean, ServerMomentum, Trail


def test_mean_by_hand() -> None:
    # (1·1 + 3·5) / 4 = 4 and (1·2 + 3·(-2)) / 4 = -1
    mean = RunningMean()
    mean.add({"net": {"w": torch.tensor([1.0, 2.0])}}, 1)
    mean.add({"net": {"w": torch.tensor([5.0, -2.0])}}, 3)
    assert mean.total == 4
    result = mean.mean()
    assert result is not None
    assert result["net"]["w"].tolist() == [4.0, -1.0]
    assert result["net"]["w"].dtype == torch.float32


def test_nothing_added() -> None:
    assert RunningMean().mean() is None


@settings(max_examples=50, deadline=None)
@given(st.lists(st.floats(-(2.0**100), 2.0**100, width=32), min_size=1), st.integers(1, 10**6))
def test_a_single_reply_comes_back_bit_for_bit(values: list[float], amount: int) -> None:
    mean, sent = RunningMean(), torch.tensor(values, dtype=torch.float32)
    mean.add({"net": {"w": sent}}, amount)
    result = mean.mean()
    assert result is not None
    assert torch.equal(result["net"]["w"], sent)


def test_batch_norm_statistics_are_averaged_and_counters_are_not() -> None:
    one, two = nn.BatchNorm1d(2), nn.BatchNorm1d(2)
    one.running_mean.fill_(1.0), two.running_mean.fill_(3.0)
    one.running_var.fill_(2.0), two.running_var.fill_(6.0)
    one.num_batches_tracked.fill_(7), two.num_batches_tracked.fill_(11)
    mean = RunningMean()
    mean.add({"net": one.state_dict()}, 1)
    mean.add({"net": two.state_dict()}, 1)
    result = mean.mean()
    assert result is not None
    assert result["net"]["running_mean"].tolist() == [2.0, 2.0]
    assert result["net"]["running_var"].tolist() == [4.0, 4.0]
    assert result["net"]["num_batches_tracked"].tolist() == 7
    assert result["net"]["num_batches_tracked"].dtype == torch.int64
    assert result.keys() == {"net"}
    assert list(result["net"]) == list(one.state_dict())


def test_the_replies_are_left_alone() -> None:
    sent = {"net": {"w": torch.tensor([1.0])}}
    mean = RunningMean()
    mean.add(sent, 1)
    mean.add({"net": {"w": torch.tensor([2.0])}}, 1)
    mean.mean()
    assert sent["net"]["w"].tolist() == [1.0]


def test_many_small_contributions_are_summed_in_double_precision() -> None:
    # In float32 the sum of 10,000 times 0.1 is wrong in the fourth digit.
    mean = RunningMean()
    for _ in range(10_000):
        mean.add({"net": {"w": torch.tensor([0.1])}}, 1)
    result = mean.mean()
    assert result is not None
    assert result["net"]["w"].item() == pytest.approx(torch.tensor(0.1).item(), abs=1e-9)


def test_several_models_side_by_side() -> None:
    mean = RunningMean()
    mean.add({"a": {"w": torch.tensor(1.0)}, "b": {"w": torch.tensor(10.0)}}, 1)
    mean.add({"a": {"w": torch.tensor(2.0)}, "b": {"w": torch.tensor(30.0)}}, 1)
    result = mean.mean()
    assert result is not None
    assert (result["a"]["w"].item(), result["b"]["w"].item()) == (1.5, 20.0)


def test_the_trail_of_a_hand_over_is_the_mean_of_its_models_by_samples() -> None:
    net = {"w": torch.tensor([4.0]), "steps": torch.tensor(7)}
    first = Trail().followed(net, 10)
    second = first.followed({"w": torch.tensor([1.0]), "steps": torch.tensor(9)}, 30)
    # (10 * 4 + 30 * 1) / 40 = 1.75
    assert second.mean is not None
    assert (second.mean["w"].item(), second.mean["steps"].item()) == (1.75, 7)
    assert (second.samples, second.visits) == (40, 2)
    assert first.mean is not None
    assert first.mean["w"].item() == 4.0, "a trail that was followed is left alone"


def test_a_client_that_did_not_answer_is_counted_as_a_visit_only() -> None:
    trail = Trail().followed({"w": torch.tensor([4.0])}, 10).followed(None, 0)
    assert trail.mean == {"w": torch.tensor([4.0])}
    assert (trail.samples, trail.visits) == (10, 2)


def test_the_server_makes_part_of_its_last_step_again() -> None:
    def net(weight: float, counted: float) -> dict[str, torch.Tensor]:
        return {
            "weight": torch.tensor([float(weight)]),
            "running_var": torch.tensor([float(counted)]),
        }

    first, momentum = ServerMomentum().stepped(net(1, 5), net(3, 7), 0.5)
    assert (first["weight"].item(), first["running_var"].item()) == (3, 7)  # a step of 2
    second, momentum = momentum.stepped(first, net(4, 9), 0.5)
    assert (second["weight"].item(), second["running_var"].item()) == (5, 9)  # 1, and half of 2
    third, _ = momentum.stepped(second, net(5, 9), 0.5)
    assert third["weight"].item() == 6  # 0, and half of 2
    mean = net(4, 9)
    assert ServerMomentum().stepped(first, mean, 0.0) == (mean, ServerMomentum())
