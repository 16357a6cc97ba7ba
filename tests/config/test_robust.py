"""The settings of the defences: what they refuse, and what they tell the method."""

import pytest

from feddiv.config.experiment import Experiment, validated
from feddiv.core.errors import UserError


def experiment(**changed: object) -> Experiment:
    tree = {
        "method": {"name": "fedavg"},
        "partition": {"name": "iid"},
        "noise": {"name": "none"},
        **changed,
    }
    return validated(tree)


def test_by_default_there_is_no_defence() -> None:
    robust = experiment().robust
    assert (robust.weights, robust.filter) == ("mean", "sum")
    assert experiment().federation.largest_site is None


@pytest.mark.parametrize("method", ["fedrn", "arfl_residual"])
def test_methods_that_look_at_single_models_take_no_aggregate(method: str) -> None:
    message = f"^robust.weights=median: {method} looks at the models of single clients"
    with pytest.raises(UserError, match=message) as refused:
        experiment(method={"name": method}, robust={"weights": "median"})
    assert "\n" not in str(refused.value)
    for allowed in ("mean", "clip"):
        experiment(method={"name": method}, robust={"weights": allowed})


@pytest.mark.parametrize(
    ("key", "value"),
    [("weights", "mode"), ("filter", "mean"), ("trim", 0.5), ("trim", -0.1), ("clip", 0.0)],
)
def test_values_that_are_not_allowed(key: str, value: object) -> None:
    with pytest.raises(UserError, match=f"robust.{key}"):
        experiment(robust={key: value})


def test_a_robust_filter_is_that_of_mixtures_too() -> None:
    robust = {"filter": "trimmed_mean", "trim": 0.2}
    paper = experiment(
        method={"name": "feddiv-paper"}, robust=robust, warmup={"iterations": 1}
    ).build_method()
    assert (paper.options.filter.centre, paper.options.filter.trim) == ("trimmed_mean", 0.2)
    plus = experiment(
        method={"name": "feddiv"}, robust=robust, warmup={"iterations": 1}
    ).build_method()
    assert plus.options.filter.centre == "mean"  # its histograms are made robust on their way
