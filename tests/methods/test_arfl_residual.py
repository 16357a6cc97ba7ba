"""Residual-based ARFL: lines, confidences and weights worked out by hand."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

import feddiv
from feddiv.learning.train import TrainOptions
from feddiv.methods import arfl_residual
from feddiv.methods.arfl_residual import (
    ArflResidual,
    ArflResidualOptions,
    confidences,
    repeated_median,
    residual_weights,
    restrict,
)
from feddiv.methods.averaging import AveragingState
from feddiv.methods.contract import Budget, Exchange, Message, Reply

RUN = {
    "method.name": "arfl_residual",
    "rounds": 3,
    "data.images": 120,
    "train.epochs": 1,
    "clients.count": 4,
    "clients.fraction": 1.0,
    "against": [],
}


def row(*values: float) -> np.ndarray:
    return np.array([values], np.float64)


def test_the_repeated_median_line_of_four_points() -> None:
    # Median slopes from each point: (1, 1, 3), (1, 1, 4), (1, 1, 7), (3, 4, 7) -> 1, 1, 1, 4.
    # The median height is 1.5, at the middle rank 1.5.
    intercept, slope = repeated_median(row(0, 1, 2, 9))
    assert slope.tolist() == [[1]]
    assert intercept.tolist() == [[0]]


def test_the_repeated_median_line_of_five_points() -> None:
    # (1.5, 1, 5/6, 3.5) -> 1.25; (1.5, .5, .5, 25/6) -> 1; (1, .5, .5, 6) -> .75;
    # (5/6, .5, .5, 11.5) -> 2/3; (3.5, 25/6, 6, 11.5) -> 5.08; their median is 1.
    intercept, slope = repeated_median(row(0, 1.5, 2, 2.5, 14))
    assert slope.tolist() == [[1]]
    assert intercept.tolist() == [[0]]


def test_confidence_falls_with_the_residual() -> None:
    # As above in another order. Residuals from the line 0, 1, 2, 3, 4 are 10, 0, .5, 0, .5;
    # without the smallest their median is .5. The spread is 1.4826 * (1 + 5/4) * .5 = 1.667925.
    confidence, fitted = confidences(row(14, 2, 2.5, 0, 1.5))
    assert fitted.tolist() == [[4, 2, 3, 0, 1]]
    # Leverage of the last rank: 1/5 + 4/10 = .6, so the limit is 2 sqrt(2/5) sqrt(.4) = .8.
    assert confidence[0, 0] == pytest.approx(0.8 * 1.667925 / 10, rel=1e-6)
    assert confidence[0, 1:].tolist() == [1, 1, 1, 1]


def test_doubtful_values_are_replaced_and_their_model_earns_little() -> None:
    earned, kept = restrict(row(9, 1, 0, 2))
    # Three models are on the line and the spread is the floor, 1e-7: the first has lost all
    # confidence. The standard deviation of (0, 1, 1, 1) is sqrt(3) / 4.
    assert kept.tolist() == [[3, 1, 0, 2]]
    assert earned[1:] == pytest.approx([np.sqrt(3) / 4] * 3, rel=1e-6)
    assert 0 < earned[0] < 1e-7


def test_a_coordinate_on_which_all_agree_says_nothing() -> None:
    for values in (row(3, 3, 3, 3), row(0.1, 0.1, 0.1), row(2, 0, 1)):
        earned, kept = restrict(values)
        assert earned.tolist() == [0] * values.shape[1]
        assert kept.tolist() == values.tolist()


def test_a_replaced_variance_stays_between_those_of_the_models() -> None:
    # The line through 1, 11, 21, 31 at ranks 1 to 4 is at -9 for rank 0, where the value is 1.
    assert restrict(row(1, 1, 11, 21, 31))[1].tolist() == [[-9, 1, 11, 21, 31]]
    assert restrict(row(1, 1, 11, 21, 31), bounded=True)[1].tolist() == [[1, 1, 11, 21, 31]]
    models = [
        {"norm.weight": torch.tensor([v]), "norm.running_var": torch.tensor([v])}
        for v in (1.0, 1.0, 11.0, 21.0, 31.0)
    ]
    restricted = residual_weights(models)[1]
    assert restricted[0]["norm.weight"].item() == -9
    assert restricted[0]["norm.running_var"].item() == 1


def model(values: list[float], steps: int = 7) -> dict[str, Tensor]:
    return {
        "w": torch.tensor(values).reshape(2, -1),
        "scale": torch.tensor(values[0]),
        "steps": torch.tensor(steps),
    }


def merged(*models: dict[str, Tensor], sizes: tuple[int, ...] | None = None) -> dict[str, Tensor]:
    method = ArflResidual(ArflResidualOptions(), TrainOptions(), Budget(3, 1.0, 0))
    state = AveragingState({}, {})
    sizes = sizes or (10,) * len(models)
    replies = [Reply(k, sizes[k], {"net": found}) for k, found in enumerate(models)]
    exchange = Exchange(tuple(range(len(models))), Message("train"))
    return method.merge(state, exchange, replies).net


def test_identical_models_give_themselves() -> None:
    one = model([0.1, -0.2, 1 / 3, 4.0])
    found = merged(one, one, one, one, one)
    assert all(torch.equal(found[key], value) for key, value in one.items())


def test_an_outlier_gets_little_weight_whatever_its_size() -> None:
    good = [model([float(k), 1.0 + k, 2.0 - k, 5.0 * k]) for k in range(4)]
    outlier = model([1e6, -1e6, 1e6, -1e6])
    weights, restricted = residual_weights([*good, outlier])
    assert weights[-1] < 1e-6 * min(weights[:-1])
    assert float(restricted[-1]["w"].abs().max()) < 30
    found = merged(*good, outlier, sizes=(1, 1, 1, 1, 1000))
    assert found["w"].min() >= -5
    assert found["w"].max() <= 20
    assert torch.equal(outlier["w"], model([1e6, -1e6, 1e6, -1e6])["w"])


def test_weights_are_squares_of_what_was_earned() -> None:
    # Four models, two coordinates: the last model is off at the first, the third at the second.
    values = torch.tensor([[0.0, 1, 2, 9], [0.0, 1, 30, 2]]).T
    weights, _ = residual_weights([{"w": value} for value in values])
    first, second = (restrict(column[None].double().numpy())[0] for column in values.T)
    earned = first + second
    assert weights == pytest.approx((earned / earned.max()) ** 2)
    # sqrt(3) / 4 from both coordinates, or from one of them
    assert weights == pytest.approx([1, 1, 0.25, 0.25], rel=1e-6)


def test_entries_without_a_dimension_have_no_say_and_whole_numbers_stay() -> None:
    models = [model([0.0, 0.0], steps=3), model([0.0, 0.0]), model([0.0, 0.0]), model([0.0, 0.0])]
    models[3]["scale"] = torch.tensor(8.0)
    found = merged(*models)
    assert found["scale"].item() == 2.0  # a plain mean: nobody stands out in "w"
    assert found["steps"].item() == 3


@pytest.mark.parametrize("count", [1, 2])
def test_fewer_than_three_models_are_averaged_by_size(count: int) -> None:
    found = merged(*[model([0.0, 4.0]), model([8.0, 0.0])][:count], sizes=(1, 3))
    assert found["w"].flatten().tolist() == ([6, 1] if count == 2 else [0, 4])


def test_no_replies_leave_the_model_as_it_was() -> None:
    assert merged() == {}


def test_shards_change_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = torch.Generator().manual_seed(4)
    models = [{"w": torch.randn(7, 3, generator=rng)} for _ in range(6)]
    weights, restricted = residual_weights(models)
    monkeypatch.setattr(arfl_residual, "SHARD", 4)
    sharded_weights, sharded = residual_weights(models)
    assert sharded_weights == pytest.approx(weights)
    pairs = zip(restricted, sharded, strict=True)
    assert all(torch.equal(one["w"], other["w"]) for one, other in pairs)


def test_against_a_slow_twin() -> None:
    values = np.random.default_rng(2).standard_cauchy((50, 7))
    confidence, fitted = confidences(values)
    for given, c, line in zip(values, confidence, fitted, strict=True):
        m, order = len(given), np.argsort(given)
        y = given[order]
        slopes = [[(y[i] - y[j]) / (i - j) for j in range(m) if j != i] for i in range(m)]
        b = np.median([np.median(each) for each in slopes])
        a = np.median(y) - b * (m - 1) / 2
        residuals = [y[i] - (a + b * i) for i in range(m)]
        s = 1.4826 * (1 + 5 / (m - 1)) * np.median(sorted(map(abs, residuals))[1:]) + 1e-7
        design = np.stack([np.ones(m), np.arange(m)], axis=1)
        hat = design @ np.linalg.inv(design.T @ design) @ design.T
        for i, k in enumerate(order):
            e, q, z = residuals[i] / s, np.sqrt(1 - hat[i, i]), 2 * np.sqrt(2 / m)
            assert line[k] == pytest.approx(a + b * i)
            assert c[k] == pytest.approx(1 if e == 0 else q / e * np.clip(e / q, -z, z))


def test_a_client_trains_as_in_fedavg(bench: Any) -> None:
    client = bench.sure([0, 1, 2, 0], [0, 1, 1, 2])
    mine, theirs = (
        bench.method(name, train__epochs=2).visit(client, None, bench.message(), bench.rng).reply
        for name in ("arfl_residual", "fedavg")
    )
    assert all(torch.equal(v, theirs.weights["net"][k]) for k, v in mine.weights["net"].items())
    declared = bench.method("arfl_residual").kinds(None)["train"].reply
    assert mine.metrics.keys() == declared.keys() == {"divergence"}


@pytest.mark.slow
def test_a_run_ends_with_the_same_model_for_any_number_of_workers(tmp_path: Path) -> None:
    alone, together = (
        feddiv.run("quickstart", RUN, out=tmp_path / str(workers), workers=workers)
        for workers in (0, 2)
    )
    assert [line["round"] for line in alone.rounds] == [1, 2, 3]
    assert all(np.isfinite(line["test_loss"]) for line in alone.rounds)
    assert alone.summary["model_hash"] == together.summary["model_hash"]
