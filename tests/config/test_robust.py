"""The settings of the defences: what they refuse, and what they tell the method."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType

import numpy as np
import pytest

from feddiv.config.experiment import Experiment, to_toml, validated
from feddiv.core.errors import UserError
from feddiv.core.randomness import Streams
from feddiv.learning.robust import CentreRule
from feddiv.methods.contract import Exchange, Facts, Message, Reply


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
    assert paper.takes_centres
    assert paper.centre == CentreRule("trimmed_mean", 0.2)
    plus = experiment(
        method={"name": "feddiv"}, robust=robust, warmup={"iterations": 1}
    ).build_method()
    assert not plus.takes_centres  # its histograms are made robust on their way


@dataclass
class Answers:
    """Three clients' mixtures, of which the last is a lie."""

    missing: list[int] = field(default_factory=list)

    def __iter__(self) -> Iterator[Reply]:
        for client, noisy in enumerate([0.5, 0.6, 1.0]):
            mixture = np.array([0.1, noisy, 0.1, 0.1, 0.5, 0.5])
            yield Reply(client, 10, payload={"mixture": mixture})


@pytest.mark.parametrize(("rule", "noisy"), [("sum", 0.7), ("median", 0.6)])
def test_the_server_merges_mixtures_by_the_rule(rule: str, noisy: float) -> None:
    paper = experiment(
        method={"name": "feddiv-paper"}, robust={"filter": rule}, warmup={"iterations": 1}
    ).build_method()
    facts = Facts(("a", "b"), (2,), dict.fromkeys(range(3), 10), iid=True)
    state = paper.begin(lambda name: {}, facts, Streams(0))
    merged = paper.merge(state, Exchange((0, 1, 2), Message("filter")), Answers())
    assert merged.mixture == pytest.approx([0.1, noisy, 0.1, 0.1, 0.5, 0.5])


@pytest.mark.parametrize(("key", "value"), [("centre", "median"), ("trim", 0.2)])
def test_the_centre_is_no_option_of_the_method(key: str, value: object) -> None:
    with pytest.raises(UserError, match=f"method.filter.{key}"):
        experiment(method={"name": "feddiv", "filter": {key: value}}, warmup={"iterations": 1})


def test_a_config_with_the_keys_that_runs_once_wrote_is_read() -> None:
    written = {"name": "feddiv", "filter": {"centre": "mean", "trim": 0.3}}
    warmup = {"iterations": 1}
    plain = experiment(method={"name": "feddiv"}, warmup=warmup)
    assert experiment(method=written, warmup=warmup) == plain
    assert "centre" not in to_toml(plain)


@pytest.mark.parametrize(
    ("method", "does_something"),
    [
        ("fedavg", False),
        ("fedcorr", False),
        ("feddiv-local-filter", False),
        ("feddiv-paper", True),
        ("feddiv", True),
    ],
)
def test_a_line_says_where_a_robust_filter_does_nothing(method: str, does_something: bool) -> None:
    notes: list[str] = []
    tree = {
        "method": {"name": method},
        "partition": {"name": "iid"},
        "noise": {"name": "none"},
        "warmup": {"iterations": 1},
    }
    validated({**tree, "robust": {"filter": "median"}}, notes.append)
    assert bool(notes) is not does_something
    assert all(line.startswith("robust.filter=median changes nothing: ") for line in notes)
    validated(tree, notes.append)
    assert len(notes) <= 1


def test_a_line_says_that_models_of_a_hand_over_are_compared_with_nothing() -> None:
    def notes(
        iterations: int = 1,
        introductions: int = 0,
        clients: Mapping[str, int] = MappingProxyType({}),
        **method: object,
    ) -> list[str]:
        lines: list[str] = []
        tree = {
            "method": method,
            "clients": dict(clients),
            "partition": {"name": "iid"},
            "noise": {"name": "none"},
            "warmup": {"iterations": iterations},
            "robust": {"weights": "aligned", "introductions": introductions},
        }
        validated(tree, lines.append)
        return lines

    (line,) = notes(name="feddiv")
    assert line == (
        "robust.weights=aligned: in a hand-over, as in the warm-up of feddiv, there is nothing to "
        "compare a client's model with; robust.introductions=5 compares all clients before it; "
        "method.warmup.mode=average warms up by averages"
    )
    (line,) = notes(name="feddiv", introductions=5, clients={"count": 2})  # two are too few
    assert "introductions" not in line
    assert notes(name="feddiv", warmup={"mode": "average"}) == []
    assert notes(name="feddiv", iterations=0) == []
    assert notes(name="feddiv", introductions=5) == []  # they are compared before it
    (line,) = notes(name="fedcorr")  # it has no other way to warm up
    assert line.endswith(
        "as in the warm-up of fedcorr, there is nothing to compare a client's model with; "
        "robust.introductions=5 compares all clients before it"
    )
    assert notes(name="fedavg") == []


def test_substitutes_are_for_those_whom_aligned_leaves_out() -> None:
    tree = {"method": {"name": "fedavg"}, "partition": {"name": "iid"}, "noise": {"name": "none"}}
    with pytest.raises(UserError, match=r"robust\.substitutes=true: with robust\.weights=median"):
        validated({**tree, "robust": {"weights": "median", "substitutes": True}})
    assert validated({**tree, "robust": {"weights": "aligned", "substitutes": True}})


def test_updates_are_turned_back_by_aligned_only() -> None:
    with pytest.raises(UserError, match=r"robust\.opposed=turned_back: with robust\.weights=clip"):
        experiment(robust={"weights": "clip", "opposed": "turned_back"})
    assert experiment(robust={"weights": "aligned", "opposed": "turned_back"})
    with pytest.raises(UserError, match=r"robust\.introductions"):
        experiment(robust={"weights": "aligned", "introductions": -1})
