"""The variants of FedDiv, row by row of the table that defines them."""

from typing import Any

import pytest

from feddiv.config.reading import load_experiment
from feddiv.methods.registry import METHODS


def flat(tree: dict[str, Any], prefix: str = "") -> dict[str, Any]:
    """Nested options by dotted key."""
    found: dict[str, Any] = {}
    for key, value in tree.items():
        more = flat(value, f"{prefix}{key}.") if isinstance(value, dict) else {prefix + key: value}
        found |= more
    return found


def method_options(*overrides: str) -> dict[str, Any]:
    return flat(load_experiment(None, overrides).method.model_dump())


BY_EVIDENCE = object()
TABLE = {  # option: paper, release, plus
    "filter.score": ("cross_entropy", "bounded", "log_odds"),
    "filter.scale": ("minmax", "minmax", "absolute"),
    "filter.debias": ("none", "none", "global"),
    "filter.aggregate": ("mean", "mean", "histogram"),
    "filter.members": ("seen", "seen", "seen"),
    "filter.scope": ("federated", "federated", "federated"),
    "filter.fit": ("local", "local", "global"),
    "filter.prior": ("shared", "shared", "own"),
    "filter.no_noise_rule": (False, False, True),
    "filter.second_opinion": (False, False, "calibrated"),
    "filter.monotone": (False, False, True),
    "filter.variance_weights": ("linear", "squared", "linear"),
    "filter.em_steps": (0, 3, 0),
    "filter.clean_client_below": (0.1, 0.1, 0.1),
    "filter.starved_below": (0, 0, 0.1),
    "relabel.enabled": (True, True, True),
    "relabel.confidence": (0.75, 0.75, BY_EVIDENCE),
    "relabel.persist": (False, True, False),
    "relabel.min_noise": (0.1, 0.2, 0.1),
    "sampler.enabled": (True, True, BY_EVIDENCE),
    "sampler.timing": ("epoch", "visit", BY_EVIDENCE),
    "sampler.after_visits": (0, 5, BY_EVIDENCE),
    "sampler.xi": (0.5, 0.2, 0.5),
    "sampler.momentum": (0.2, 0.5, 0.2),
    "sampler.confident_only": (0, 0.85, 0),
    "regulariser": ("non_iid", "non_iid", "always"),
    "weigh_by_trust": ("never", "never", "iid"),
    "warmup.mode": ("hand_over", "hand_over", "hand_over"),
    "warmup.regulariser": (False, True, True),  # release: wherever `regulariser` says so
    "train.min_batches": (0, 1, 0),
    "train.raw_forward": (False, True, False),
}
VARIANTS = ("paper", "release", "plus")


@pytest.mark.parametrize("option", TABLE)
@pytest.mark.parametrize("variant", VARIANTS)
def test_table_of_variants(option: str, variant: str) -> None:
    expected = TABLE[option][VARIANTS.index(variant)]
    if expected is not BY_EVIDENCE:
        assert method_options(f"method.variant={variant}")[option] == expected


def differences(one: str, other: str) -> set[str]:
    """Options in which two variants differ, whether the table names them or not."""
    first, second = (method_options(f"method.variant={name}") for name in (one, other))
    return {key for key in first if first[key] != second[key]} - {"variant"}


def test_release_differs_from_paper_in_exactly_these() -> None:
    assert differences("release", "paper") == {
        "filter.score",
        "filter.variance_weights",
        "filter.em_steps",
        "relabel.persist",
        "relabel.min_noise",
        "sampler.timing",
        "sampler.after_visits",
        "sampler.xi",
        "sampler.momentum",
        "sampler.confident_only",
        "warmup.regulariser",
        "train.min_batches",
        "train.raw_forward",
    }


def test_the_filter_of_plus_differs_from_papers_in_exactly_these() -> None:
    changed = differences("plus", "paper")
    assert {key for key in changed if key.startswith("filter.")} == {
        "filter.score",
        "filter.scale",
        "filter.debias",
        "filter.aggregate",
        "filter.fit",
        "filter.prior",
        "filter.no_noise_rule",
        "filter.second_opinion",
        "filter.monotone",
        "filter.starved_below",
        "filter.drop_below",
    }


@pytest.mark.parametrize(
    ("variant", "of", "changed"),
    [
        ("degraded", "paper", {"filter.members": "round"}),
        ("local-filter", "paper", {"filter.scope": "local"}),
        ("no-pcs", "paper", {"sampler.enabled": False}),
        ("no-relabel-no-pcs", "paper", {"relabel.enabled": False, "sampler.enabled": False}),
        ("no-reg", "paper", {"regulariser": "never"}),
        ("perfect-filter", "plus", {"filter.scope": "perfect", "filter.drop_below": 0.5}),
    ],
)
def test_ablations_change_what_they_say_and_nothing_else(
    variant: str, of: str, changed: dict[str, Any]
) -> None:
    assert differences(variant, of) == changed.keys()
    found = method_options(f"method.variant={variant}")
    assert {key: found[key] for key in changed} == changed


def test_an_option_can_be_set_alone_on_top_of_a_variant() -> None:
    found = method_options("method.variant=paper", "method.filter.score=bounded")
    expected = {**method_options("method.variant=paper"), "filter.score": "bounded"}
    assert found == expected


@pytest.mark.parametrize(
    ("name", "variant"), [(name, v) for name, method in METHODS.items() for v in method.variants]
)
def test_every_variant_of_every_method_builds(name: str, variant: str) -> None:
    chosen = [f"method.name={name}", f"method.variant={variant}", "warmup.iterations=1"]
    found = load_experiment(None, chosen)
    assert found.method.variant == variant
    assert found.build_method().stages()
