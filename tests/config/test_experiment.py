import itertools
import math
import tomllib
from pathlib import Path
from typing import Any

import pytest

from feddiv.config.experiment import Experiment, to_toml
from feddiv.config.reading import load_experiment
from feddiv.core.errors import UserError
from feddiv.methods.registry import METHODS
from feddiv.presets import presets


def options(*overrides: str, source: str | Path | None = None) -> Experiment:
    return load_experiment(source, overrides)


def flat(tree: dict[str, Any], prefix: str = "") -> dict[str, Any]:
    """Nested options by dotted key."""
    found: dict[str, Any] = {}
    for key, value in tree.items():
        found |= (
            flat(value, f"{prefix}{key}.") if isinstance(value, dict) else {prefix + key: value}
        )
    return found


def method_options(*overrides: str) -> dict[str, Any]:
    return flat(options(*overrides).method.model_dump())


def refused(*overrides: str, source: str | Path | None = None) -> str:
    with pytest.raises(UserError) as caught:
        options(*overrides, source=source)
    message = str(caught.value)
    assert "\n" not in message
    return message


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "own.toml"
    path.write_text(
        """
        rounds = 40
        [method]
        name = "feddiv"
        variant = "paper"
        relabel.confidence = 0.6
        [noise]
        name = "symmetric"
        rho = 0.8
        tau = 0.5
        [partition]
        name = "bernoulli_dirichlet"
        p = 0.4
        alpha = 10.0
        """
    )
    return path


# Overrides


def test_overrides_are_read_as_what_they_look_like() -> None:
    found = options(
        "seed=7",
        "train.lr=1e-2",
        "clients.fraction=1",
        "model.name=mlp",
        'data.source="digits"',
        "method.relabel.enabled=false",
        "method.filter.clean_client_below=0.25",
        "noise.name=symmetric",
        "noise.rho=0.8",
        'against=["fedavg", "feddiv-paper"]',
        "description=two words = one text",
    )
    assert found.seed == 7
    assert found.train.lr == 0.01
    assert found.clients.fraction == 1.0
    assert found.model.name == "mlp"
    assert found.data.source == "digits"
    values = flat(found.method.model_dump())
    assert values["relabel.enabled"] is False
    assert values["filter.clean_client_below"] == 0.25
    assert flat(found.noise.model_dump())["rho"] == 0.8
    assert found.against == ("fedavg", "feddiv-paper")
    assert found.description == "two words = one text"


def test_the_last_of_two_overrides_of_a_key_wins() -> None:
    assert options("rounds=3", "rounds=9").rounds == 9


@pytest.mark.parametrize("item", ["rounds", "=3", ""])
def test_what_is_no_override_is_refused(item: str) -> None:
    assert "is not key=value" in refused(item)


def test_a_value_is_no_section() -> None:
    assert "rounds is a value, not a section" in refused("rounds=4", "rounds.max=3")


def test_defaults_are_the_users_method_without_noise() -> None:
    found = options()
    assert (found.method.name, found.method.variant) == ("feddiv", "plus")
    assert (found.partition.name, found.noise.name) == ("auto", "none")


# Choosing another method, variant or noise


def test_another_method_drops_the_options_of_the_old_one(file: Path) -> None:
    found = options("method.name=fedavg", source=file)
    assert flat(found.method.model_dump(exclude={"warmup"})) == {
        "name": "fedavg",
        "variant": "default",
        "mixup": False,
    }
    assert found.rounds == 40


def test_another_variant_drops_the_options_set_for_the_old_one(file: Path) -> None:
    found = flat(options("method.variant=release", source=file).method.model_dump())
    assert found == method_options("method.variant=release")


def test_the_same_choice_again_keeps_them(file: Path) -> None:
    same = options(
        "method.name=feddiv", "method.variant=paper", "noise.name=symmetric", source=file
    )
    assert same == options(source=file)
    assert flat(same.method.model_dump())["relabel.confidence"] == 0.6


def test_fedcorr_is_refused_without_its_first_stage() -> None:
    message = refused("method.name=fedcorr")
    assert message.startswith("warmup.iterations=0: fedcorr needs 1 or more")
    assert "FedAvg with MixUp" in message
    assert options("method.name=fedcorr", "warmup.iterations=1").method.name == "fedcorr"


def test_another_noise_or_partition_drops_theirs(file: Path) -> None:
    found = options("noise.name=none", "partition.name=iid", source=file)
    assert found.noise.model_dump() == {"name": "none"}
    assert found.partition.model_dump() == {"name": "iid"}


@pytest.mark.parametrize(
    "order",
    list(
        itertools.permutations(["method.name=fedavg", "method.variant=mixup", "method.mixup=false"])
    ),
)
def test_overrides_of_a_new_choice_hold_in_any_order(order: tuple[str, ...], file: Path) -> None:
    found = options(*order, source=file)
    said = found.method.model_dump(exclude={"warmup"})
    assert said == {"name": "fedavg", "variant": "mixup", "mixup": False}


@pytest.mark.parametrize(
    "order", [["noise.name=symmetric", "noise.rho=0.3"], ["noise.rho=0.3", "noise.name=symmetric"]]
)
def test_noise_and_its_level_in_any_order(order: list[str]) -> None:
    assert flat(options(*order).noise.model_dump())["rho"] == 0.3


# Files and presets


@pytest.mark.parametrize("name", presets())
def test_every_preset_builds(name: str) -> None:
    found = load_experiment(name)
    assert found.description
    method = found.build_method()
    spent = sum(stage.turns * stage.rounds for stage in method.stages())
    assert spent == pytest.approx(found.rounds)
    for other in found.against:
        load_experiment(name, [f"method.name={other}"]).build_method()


def test_the_presets_that_docs_name_are_there() -> None:
    assert {"quickstart", "cifar10-iid-0.8-0.5"} <= presets().keys()
    assert all(presets().values()), "every preset says what it is"


@pytest.mark.parametrize("source", [None, *presets()])
@pytest.mark.parametrize(
    "overrides",
    [
        [],
        ["method.variant=paper", "method.filter.members=round"],
        ["method.variant=release", "data.images=500", "data.augment.pad=2"],
        ["method.name=fedavg", 'against=["feddiv-paper"]', "data.path=some/where"],
        ["noise.name=symmetric", "noise.rho=0.25", "partition.name=bernoulli_dirichlet"],
    ],
)
def test_resolved_experiment_survives_a_file(
    source: str | None, overrides: list[str], tmp_path: Path
) -> None:
    found = load_experiment(source, overrides)
    path = tmp_path / "config.toml"
    path.write_text(to_toml(found))
    assert load_experiment(path) == found
    assert to_toml(load_experiment(path)) == to_toml(found)
    written = tomllib.loads(path.read_text())
    assert written["method"]["name"] == found.method.name
    assert written["train"]["lr"] == found.train.lr, "defaults are written out"


def test_a_file_that_is_missing_or_no_toml(tmp_path: Path) -> None:
    assert "gone.toml" in refused(source=tmp_path / "gone.toml")
    (tmp_path / "bad.toml").write_text("rounds = = 3")
    assert "is not TOML" in refused(source=tmp_path / "bad.toml")
    (tmp_path / "binary.toml").write_bytes(b"\xff\xfe\x00")
    assert "binary.toml" in refused(source=tmp_path / "binary.toml")
    assert str(tmp_path) in refused(source=tmp_path)


# What is refused


@pytest.mark.parametrize(
    ("override", "key", "allowed"),
    [
        ("round=3", "round", {"rounds", "seed", "method", "data", "clients", "noise", "train"}),
        ("clients.number=3", "clients.number", {"count", "fraction"}),
        ("train.learning_rate=3", "train.learning_rate", {"epochs", "batch", "lr", "momentum"}),
        ("method.filtre=3", "method.filtre", {"name", "variant", "filter", "relabel", "sampler"}),
        (
            "method.filter.scores=3",
            "method.filter.scores",
            {"score", "scale", "debias", "monotone"},
        ),
        ("method.sampler.x=3", "method.sampler.x", {"enabled", "timing", "xi", "momentum"}),
        ("noise.rate=3", "noise.rate", {"name"}),
        ("partition.alpha=3", "partition.alpha", {"name"}),
        ("data.augment.crop=3", "data.augment.crop", {"pad", "flip"}),
        ("nois.rho=0.3", "nois", {"noise", "method"}),
    ],
)
def test_unknown_keys_name_what_is_allowed_there(override: str, key: str, allowed: set) -> None:
    message = refused(override)
    assert message.startswith(f"{key} is an unknown key")
    assert allowed <= set(message.partition("allowed here: ")[2].split(", "))


def test_unknown_keys_of_a_chosen_class_name_the_keys_of_that_class() -> None:
    message = refused("noise.name=symmetric", "noise.rate=3")
    assert {"name", "rho", "tau", "classes"} <= set(message.partition("here: ")[2].split(", "))
    message = refused("partition.name=bernoulli_dirichlet", "partition.q=3")
    assert {"name", "p", "alpha"} <= set(message.partition("here: ")[2].split(", "))
    message = refused("method.name=fedavg", "method.mix=true")
    assert {"name", "variant", "mixup"} <= set(message.partition("here: ")[2].split(", "))


@pytest.mark.parametrize(
    "override",
    [
        "rounds=abc",
        "rounds=2.5",
        "rounds=true",
        "rounds=[3]",
        "seed=true",
        "clients.fraction=true",
        "clients.count=ten",
        "train.lr=fast",
        "method.filter.monotone=perhaps",
        "method.filter.score=3",
        "against=3",
        "against=[3]",
        "description=3",
        "data=digits",
        "clients=3",
        "method=fedavg",
        "method.filter=off",
    ],
)
def test_values_of_the_wrong_type_name_the_key(override: str) -> None:
    assert override.partition("=")[0] in refused(override)


@pytest.mark.parametrize(
    "override",
    [
        "rounds=0",
        "seed=-1",
        "clients.count=0",
        "clients.fraction=0",
        "clients.fraction=1.01",
        "clients.fraction=nan",
        "train.epochs=0",
        "train.batch=1",
        "train.lr=0",
        "train.lr=nan",
        "train.lr=inf",
        "train.momentum=1",
        "train.weight_decay=-0.1",
        "warmup.iterations=-1",
        "method.filter.clean_client_below=1.5",
        "method.filter.em_steps=-1",
        "method.relabel.confidence=-0.1",
        "method.sampler.momentum=1.1",
        "method.sampler.xi=-1",
        "method.regulariser=sometimes",
        "method.warmup.mode=none",
        "data.images=0",
    ],
)
def test_values_out_of_range_name_key_and_value(override: str) -> None:
    key, _, value = override.partition("=")
    message = refused(override)
    assert key in message
    assert value in message


@pytest.mark.parametrize(
    ("override", "said"),
    [
        (
            "method.filter.drop_below=2",
            "method.filter.drop_below=2: Input should be less than 1, or: Input should be 'sure'",
        ),
        (
            "method.filter.second_opinion=maybe",
            "method.filter.second_opinion='maybe': Input should be a valid boolean, or: Input "
            "should be 'calibrated'",
        ),
        (
            "method.filter.drop_below=[0.5]",
            "method.filter.drop_below=[0.5]: Input should be a valid number, or: Input should be "
            "'sure'",
        ),
        (
            "method.filter.second_opinion={maybe=1}",
            "method.filter.second_opinion: Input should be a valid boolean, or: Input should be "
            "'calibrated'",
        ),
    ],
)
def test_an_option_of_two_kinds_says_what_each_allows(override: str, said: str) -> None:
    assert refused(override) == said
    both = refused(override, "rounds=0")
    assert both.startswith("rounds=0: ")
    assert both.endswith(" (and 1 more)")


@pytest.mark.parametrize("value", ["1.5", "-0.1", "nan"])
@pytest.mark.parametrize("key", ["noise.rho", "noise.tau"])
def test_noise_outside_zero_to_one(key: str, value: str) -> None:
    message = refused("noise.name=symmetric", f"{key}={value}")
    assert message.startswith(f"{key}={value}")


@pytest.mark.parametrize(
    ("override", "named"),
    [
        ("method.name=fedsgd", ["fedsgd", *METHODS]),
        ("method.variant=best", ["best", "plus", "paper", "release"]),
        ("noise.name=pairs", ["pairs", "none", "symmetric"]),
        ("partition.name=sorted", ["sorted", "iid", "iid_stratified", "bernoulli_dirichlet"]),
        ('against=["fedsgd"]', ["fedsgd", *METHODS]),
        ('against=["fedavg-best"]', ["fedavg-best", "fedavg", "fedavg-mixup"]),
        ("method.name=feddiv-best", ["feddiv-best", "feddiv-paper", "feddiv-no-relabel-no-pcs"]),
    ],
)
def test_unknown_names_list_the_known_ones(override: str, named: list[str]) -> None:
    message = refused(override)
    assert all(name in message for name in named)


def test_an_unknown_preset_lists_the_known_ones() -> None:
    message = refused(source="quikstart")
    assert "quikstart" in message
    assert all(name in message for name in presets())


def test_impossible_filters_are_refused_with_their_reason() -> None:
    message = refused("method.filter.variance_weights=squared")
    assert message.startswith("method.filter: variance_weights=squared is for aggregate=mean only")
    message = refused(
        "method.filter.score=cross_entropy",
        "method.filter.no_noise_rule=false",
        "method.filter.second_opinion=false",
    )
    assert "needs a common range" in message


def test_warm_up_has_to_leave_a_round() -> None:
    # 5 iterations of everybody at a fraction of 1/2 are 10 rounds.
    assert options("rounds=11", "warmup.iterations=5").budget.warmup_rounds == 10
    message = refused("rounds=10", "warmup.iterations=5")
    assert "warmup.iterations=5 takes 10 of rounds=10" in message
    # Where 1/fraction is no whole number, warm-up takes the round that it has begun: 1/0.3 is 4.
    assert options("rounds=5", "warmup.iterations=1", "clients.fraction=0.3")
    message = refused("rounds=4", "warmup.iterations=1", "clients.fraction=0.3")
    assert "warmup.iterations=1 takes 4 of rounds=4" in message


def test_fedavg_has_no_warm_up_to_leave_room_for() -> None:
    found = options("method.name=fedavg", "rounds=2", "warmup.iterations=5")
    assert [(stage.turns, stage.rounds) for stage in found.build_method().stages()] == [(2, 1)]


@pytest.mark.parametrize(("iterations", "fraction"), [(5, 0.1), (1, 0.4), (3, 0.7), (2, 0.3)])
@pytest.mark.parametrize("mode", ["hand_over", "average"])
def test_no_method_spends_more_than_its_rounds(iterations: int, fraction: float, mode: str) -> None:
    found = options(
        "rounds=100",
        f"clients.fraction={fraction}",
        f"warmup.iterations={iterations}",
        f"method.warmup.mode={mode}",
    )
    spent = sum(stage.turns * stage.rounds for stage in found.build_method().stages())
    assert spent <= 100 + 1e-9
    assert spent > 99


def test_the_papers_budget() -> None:
    # 1000 = 5 / 0.1 + 950
    found = options("rounds=1000", "clients.fraction=0.1", "warmup.iterations=5")
    stages = {stage.name: stage for stage in found.build_method().stages()}
    assert stages["warmup"].turns == 5
    assert math.isclose(stages["warmup"].rounds, 10)
    assert (stages["train"].turns, stages["train"].rounds) == (950, 1)


def test_few_rounds_shorten_a_presets_warm_up_and_say_so() -> None:
    lines: list[str] = []
    short = load_experiment("quickstart", ["rounds=8"], note=lines.append)
    assert (short.rounds, short.warmup.iterations) == (8, 3)  # an iteration is worth two rounds
    assert lines == ["rounds=8: warmup.iterations=3, as 4 would take them all"]
    assert load_experiment("quickstart", ["rounds=2"]).warmup.iterations == 0
    assert load_experiment("quickstart", ["rounds=9"]).warmup.iterations == 4
    for settings in (["rounds=8", "warmup.iterations=4"], ["rounds=2", "method.name=fedcorr"]):
        with pytest.raises(UserError, match=r"warmup.iterations=4 takes 8 of rounds=\d"):
            load_experiment("quickstart", settings)
