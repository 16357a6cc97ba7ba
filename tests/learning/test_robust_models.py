"""Robust aggregates of models of a few numbers."""

import numpy as np
import pytest
import torch

from feddiv.core.arrays import Weights
from feddiv.learning import robust_models
from feddiv.learning.robust_models import (
    clipped,
    robust_aggregate,
    squared_distances,
    turned_back,
    update_cosines,
)


def model(*numbers: float, steps: int = 0) -> Weights:
    values = torch.tensor(numbers, dtype=torch.float32).reshape(1, -1)
    return {"net": {"weight": values, "steps": torch.tensor(steps)}}


MODELS = [model(1, 1, steps=4), model(2, 5, steps=5), model(3, 3, steps=6), model(-900, 800)]
EQUAL = np.ones(4)


@pytest.mark.parametrize(
    ("rule", "expected"),
    [
        ("median", [1.5, 4.0]),  # of -900 1 2 3, and of 1 3 5 800
        ("trimmed_mean", [1.5, 4.0]),  # a quarter at each end is one of four
    ],
)
def test_by_coordinate(rule: str, expected: list[float]) -> None:
    found = robust_aggregate(rule, MODELS, EQUAL, 0.25)["net"]
    assert found["weight"].tolist() == [expected]
    assert found["weight"].dtype == torch.float32
    assert found["steps"].item() == 4  # integers are the first model's


def test_krum_hands_on_one_of_the_models() -> None:
    found = robust_aggregate("krum", MODELS, EQUAL, 0.25)["net"]
    # One may lie and one neighbour counts: (2, 5) and (3, 3) are each other's, so the first.
    assert found["weight"].tolist() == [[2, 5]]


def test_the_geometric_median_stays_with_the_many() -> None:
    found = robust_aggregate("geometric_median", MODELS, EQUAL, 0.25)["net"]["weight"]
    assert 0 <= found[0, 0] <= 3
    assert 1 <= found[0, 1] <= 6


def test_squared_distances_and_stretches(monkeypatch: pytest.MonkeyPatch) -> None:
    whole = squared_distances(MODELS)
    assert whole[0].tolist() == [0, 17, 8, 901**2 + 799**2]
    median = robust_aggregate("median", MODELS, EQUAL, 0.3)["net"]["weight"]
    monkeypatch.setattr(robust_models, "STRETCH", 1)  # an entry at a time gives the same
    assert squared_distances(MODELS) == pytest.approx(whole)
    assert robust_aggregate("median", MODELS, EQUAL, 0.3)["net"]["weight"].equal(median)


def test_a_clipped_update_goes_the_same_way_less_far() -> None:
    found = clipped(model(5, 1, steps=3), model(1, 1), 0.25)["net"]
    assert found["weight"].tolist() == [[2, 1]]
    assert found["steps"].item() == 3


def test_a_lied_size_is_no_help() -> None:
    lied = np.array([10.0, 10.0, 10.0, 30.0])  # capped from a thousand times as much
    assert robust_aggregate("median", MODELS, lied, 0.3)["net"]["weight"][0, 1] == 402.5
    assert robust_aggregate("median", MODELS, EQUAL, 0.3)["net"]["weight"][0, 1] == 4


def test_directions_of_updates_leave_out_what_layers_count_of_their_inputs() -> None:
    def model(weight: list[float], counted: float) -> Weights:
        return {"net": {"w": torch.tensor(weight), "bn.running_mean": torch.tensor([counted])}}

    sent = model([1.0, 1.0], 0.0)
    models = [model([1.0, 3.0], 9.0), model([1.0, 0.0], 9.0), model([2.0, 2.0], 9.0), sent]
    found = update_cosines(models, [sent] * 4)
    half = np.sqrt(0.5)
    assert found[0].tolist() == pytest.approx([1, -1, half, 0])
    assert found[3].tolist() == [0, 0, 0, 0]


def test_an_update_is_turned_back_but_not_what_layers_count() -> None:
    def net(weight: float, variance: float, steps: int) -> Weights:
        entries = {"weight": [weight], "bn.running_var": [variance]}
        tensors = {key: torch.tensor(value) for key, value in entries.items()}
        return {"net": {**tensors, "bn.num_batches_tracked": torch.tensor(steps)}}

    sent, said = net(5.0, 1.0, 0), net(3.0, 9.0, 25)
    found = turned_back(said, sent)["net"]
    assert [value.tolist() for value in found.values()] == [[7.0], [9.0], 25]
    assert found["bn.running_var"] is not said["net"]["bn.running_var"]


def test_directions_go_by_the_names_of_entries_not_by_their_order() -> None:
    sent: Weights = {"net": {"a": torch.zeros(2), "b": torch.ones(3)}, "more": {"c": torch.ones(1)}}
    there: Weights = {"net": {"b": torch.full((3,), 2.0), "a": torch.zeros(2)}}
    back: Weights = {"net": {"a": torch.zeros(2), "b": torch.zeros(3)}}
    found = update_cosines([there, back], [sent, sent])
    assert found == pytest.approx(np.array([[1.0, -1.0], [-1.0, 1.0]]))
