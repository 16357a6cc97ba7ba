"""What goes with a private filter, and what is refused in one line."""

import importlib.util
from typing import Any

import pytest

from feddiv.config.experiment import to_toml, validated
from feddiv.config.reading import load_experiment
from feddiv.core.errors import UserError
from feddiv.presets import toml_tree


def loaded(**settings: Any):
    notes: list[str] = []
    keys = {key.replace("__", "."): value for key, value in settings.items()}
    experiment = load_experiment("quickstart", {"against": [], **keys}, note=notes.append)
    return experiment, notes


def test_off_by_default() -> None:
    experiment, notes = loaded()
    assert experiment.privacy.filter == "none"
    assert experiment.method.weigh_by_trust == "iid"
    assert not notes


def test_sum_only_tells_no_trusted_labels_and_says_so() -> None:
    experiment, notes = loaded(privacy__filter="sum_only")
    assert experiment.method.weigh_by_trust == "never"
    assert notes == ["privacy.filter=sum_only sets method.weigh_by_trust=never"]
    again = validated(toml_tree(to_toml(experiment), "it"))
    assert again == experiment


def test_dp_leaves_out_what_has_no_bound() -> None:
    experiment, notes = loaded(privacy__filter="dp")
    options = experiment.method.filter
    assert (options.second_opinion, options.starved_below, options.count_equal) == (True, 0, True)
    assert experiment.privacy.uploads == 14
    assert len(notes) == 1
    # More rounds later change nothing of the noise that was promised.
    longer = load_experiment(experiment, {"rounds": 60})
    assert longer.privacy.uploads == 14


def test_a_method_without_totals_has_nothing_to_hide() -> None:
    _, notes = loaded(method__name="fedavg", privacy__filter="sum_only", clients__fraction=0.1)
    assert notes == [
        "privacy.filter=sum_only: fedavg uploads nothing but models, which no filter hides"
    ]


@pytest.mark.parametrize(
    ("settings", "says"),
    [
        ({"method.weigh_by_trust": "always"}, "needs trusted of each client"),
        ({"method.name": "feddiv-paper"}, "needs mixture of each client"),
        ({"method.name": "arfl_residual"}, "needs each client's model by itself"),
        ({"method.name": "fedrn"}, "needs each client's model by itself"),
        ({"method.name": "arfl_auto"}, "needs loss of each client"),
        ({"method.name": "rofl"}, "needs centroids of each client"),
        ({"method.name": "fedcorr"}, "of each client by itself"),
        ({"clients.fraction": 0.2}, "clients.fraction=0.2 lets 2 clients take part"),
        ({"robust.weights": "krum"}, "robust.weights=krum"),
        ({"robust.filter": "median"}, "robust.filter=median"),
        ({"federation.largest_site": 100}, "federation.largest_site"),
        ({"privacy.threshold": 0.5}, "privacy.threshold=0.5"),
    ],
)
def test_sum_only_refuses(settings: dict[str, Any], says: str) -> None:
    with pytest.raises(UserError, match=says) as problem:
        loaded(**{"privacy.filter": "sum_only", **settings})
    assert "\n" not in str(problem.value)
    assert "privacy." in str(problem.value)


@pytest.mark.parametrize(
    ("settings", "says"),
    [
        ({"method.name": "feddiv-paper"}, "needs mixture of each client"),
        ({"method.filter.debias": "local"}, "how much one sample changes histogram"),
        ({"method.filter.starved_below": 0.2}, "how much one sample changes tally"),
        ({"evaluation.name": "held_out"}, "evaluation.name=held_out"),
        ({"privacy.epsilon": 0.0}, "privacy.epsilon=0.0"),
        ({"privacy.delta": 0.5}, "privacy.delta=0.5"),
        ({"robust.filter": "trimmed_mean"}, "robust.filter=trimmed_mean"),
    ],
)
def test_dp_refuses(settings: dict[str, Any], says: str) -> None:
    with pytest.raises(UserError, match=says) as problem:
        loaded(**{"privacy.filter": "dp", **settings})
    assert "\n" not in str(problem.value)


def test_a_missing_package_is_named_with_its_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    import feddiv.privacy.options as options

    found = importlib.util.find_spec
    monkeypatch.setattr(options, "find_spec", lambda n: None if n == "dp_accounting" else found(n))
    with pytest.raises(UserError, match=r"dp-accounting; pip install 'feddiv\[privacy\]'"):
        loaded(privacy__filter="dp")
    loaded(privacy__filter="sum_only")
