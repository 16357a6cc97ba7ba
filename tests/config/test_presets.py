"""The paper's settings: what the presets say, and what the draws they make look like."""

from pathlib import Path

import pytest

from feddiv.config.experiment import Experiment, to_toml
from feddiv.config.reading import load_experiment
from feddiv.core.errors import UserError
from feddiv.presets import presets

CIFAR10_IID = {
    f"cifar10-iid-{rho}-{tau}": (rho, tau) for rho in (0.4, 0.6, 0.8) for tau in (0.0, 0.5)
}
CIFAR10_NONIID = {
    "cifar10-noniid-0.7-10": (0.7, 10),
    "cifar10-noniid-0.7-1": (0.7, 1),
    "cifar10-noniid-0.3-10": (0.3, 10),
}
CIFAR100_IID = {f"cifar100-iid-{rho}-0.5": rho for rho in (0.4, 0.6, 0.8)}
CIFAR100_NONIID = "cifar100-noniid-0.7-10"
CELLS = [*CIFAR10_IID, *CIFAR10_NONIID, *CIFAR100_IID, CIFAR100_NONIID]


FEATURES = {
    "cifar10": [name.replace("cifar10", "cifar10-features") for name in CIFAR10_IID]
    + [name.replace("cifar10", "cifar10-features") for name in CIFAR10_NONIID]
    + ["cifar10-features-iid-1.0-0.0", "cifar10-features-iid-1.0-0.5"],
    "cifar100": [
        name.replace("cifar100", "cifar100-features") for name in (*CIFAR100_IID, CIFAR100_NONIID)
    ],
}


def common(found: Experiment) -> tuple[object, ...]:
    """Clients, share in a round, rounds, net, batch, lr, warm-up."""
    clients, train = found.clients, found.train
    return (
        clients.count,
        clients.fraction,
        found.rounds,
        found.model.name,
        train.batch,
        train.lr,
        found.warmup.iterations,
    )


def test_the_papers_cells_are_all_there() -> None:
    assert {*CELLS, "clothing1m", "cifar100n-annotators"} <= presets().keys()
    assert len(CELLS) == 13


@pytest.mark.parametrize("name", [*FEATURES["cifar10"], *FEATURES["cifar100"]])
def test_cells_on_frozen_features_are_the_papers_with_another_net(name: str) -> None:
    found, cell = load_experiment(name), name.replace("-features", "")
    assert (found.data.encoder, found.model.name, found.train.lr) == ("effnet_lite0", "mlp", 0.03)
    if cell in CELLS:
        paper = load_experiment(cell)
        assert found.data.source == paper.data.source
        for section in ("rounds", "clients", "partition", "noise", "warmup", "evaluation"):
            assert getattr(found, section) == getattr(paper, section)
        assert found.train.model_copy(update={"lr": 0.0}) == paper.train.model_copy(
            update={"lr": 0.0}
        )
    else:
        assert found.noise.rho == 1.0
        assert found.noise.tau == float(name.rpartition("-")[2])


@pytest.mark.parametrize("name", [*CELLS, "clothing1m"])
def test_constants_of_the_benchmark(name: str) -> None:
    found = load_experiment(name)
    assert (
        common(found)
        == {
            "cifar10": (100, 0.1, 1000, "resnet18", 10, 0.03, 5),
            "cifar100": (50, 0.1, 1000, "resnet34", 10, 0.01, 10),
            "clothing1m": (500, 0.02, 200, "resnet50", 16, 0.001, 2),
        }[name.partition("-")[0]]
    )
    assert (found.train.epochs, found.train.momentum, found.train.weight_decay) == (5, 0.5, 0.0)
    assert found.data.source == name.partition("-")[0]
    assert found.data.images is None
    assert found.against == ()


def settings(name: str) -> dict[str, object]:
    found = load_experiment(name)
    return {**found.partition.model_dump(), **found.noise.model_dump(exclude={"name"})}


@pytest.mark.parametrize("name", CIFAR10_IID)
def test_cifar10_iid(name: str) -> None:
    rho, tau = CIFAR10_IID[name]
    assert settings(name).items() >= {"name": "iid", "rho": rho, "tau": tau}.items()


@pytest.mark.parametrize("name", CIFAR10_NONIID)
def test_cifar10_noniid(name: str) -> None:
    p, alpha = CIFAR10_NONIID[name]
    wanted = {"name": "bernoulli_dirichlet", "p": p, "alpha": alpha, "rho": 0.6, "tau": 0.5}
    assert settings(name).items() >= wanted.items()


def test_cifar100() -> None:
    for name, rho in CIFAR100_IID.items():
        assert settings(name).items() >= {"name": "iid", "rho": rho, "tau": 0.5}.items()
    wanted = {"name": "bernoulli_dirichlet", "p": 0.7, "alpha": 10.0, "rho": 0.4, "tau": 0.0}
    assert settings(CIFAR100_NONIID).items() >= wanted.items()
    assert settings("clothing1m").items() >= {"p": 0.7, "alpha": 10.0}.items()
    assert load_experiment("clothing1m").noise.name == "none"


# Presets on top of others


def test_another_choice_drops_the_options_of_the_base(tmp_path: Path) -> None:
    file = tmp_path / "own.toml"
    file.write_text(
        """
        base = "digits-noniid"
        rounds = 17
        [noise]
        name = "pair"
        levels = "constant"
        level = 0.2
        [partition]
        alpha = 1.0
        """
    )
    found = load_experiment(file)
    base = load_experiment("digits-noniid")
    assert found.rounds == 17
    assert found.noise.model_dump(exclude_none=True)["level"] == 0.2
    assert found.partition.model_dump() == base.partition.model_dump() | {"alpha": 1.0}
    assert (found.model, found.train, found.clients) == (base.model, base.train, base.clients)
    assert "base" not in to_toml(found)
    assert load_experiment({"base": "digits-noniid", "rounds": 17}).rounds == 17


CONSTANT = {"levels": "constant", "level": 0.5}
RAMP = {"levels": "ramp", "low": 0.0, "high": 0.5}


@pytest.mark.parametrize("preset", ["quickstart", "cifar10-iid-0.4-0.5"])
@pytest.mark.parametrize("rule", [CONSTANT, RAMP])
def test_another_rule_for_noise_levels_drops_the_keys_of_the_old(
    preset: str, rule: dict[str, object]
) -> None:
    overrides = {f"noise.{key}": value for key, value in rule.items()}
    found = load_experiment(preset, {**overrides, "noise.classes": "first_ten"})
    bare = {"name": "symmetric", "classes": "first_ten", "rho": 0.0, "tau": 0.0}
    assert found.noise.model_dump(exclude_none=True) == bare | rule
    table = {"name": "symmetric", "classes": "first_ten", **rule}
    assert load_experiment({"base": preset, "noise": table}).noise == found.noise
    # The kind's other options stay, and so do the rule's own keys where it is chosen again.
    assert load_experiment(found, {"noise.levels": rule["levels"]}) == found
    back = load_experiment(found, ["noise.levels=bernoulli", "noise.rho=0.3"]).noise
    assert back.model_dump(exclude_none=True) == bare | {"levels": "bernoulli", "rho": 0.3}
    assert load_experiment(preset, ["noise.levels=bernoulli"]) == load_experiment(preset)
    for wrong in (
        {**overrides, "noise.rho": 0.3},
        {"noise.levels": "bernoulli", "noise.level": 0.3},
    ):
        with pytest.raises(UserError, match=r"^noise: .* no meaning with levels="):
            load_experiment(preset, wrong)
    with pytest.raises(UserError, match=r"^noise: rho and tau have no meaning with levels="):
        load_experiment({"base": preset, "noise": {**rule, "rho": 0.3}})


@pytest.mark.parametrize("base", ["'nowhere'", "3", "'own.toml'"])
def test_a_base_that_is_no_preset_is_refused(base: str, tmp_path: Path) -> None:
    (tmp_path / "own.toml").write_text(f"base = {base}")
    with pytest.raises(UserError, match=r"base=.* is no preset; there are .*quickstart"):
        load_experiment(tmp_path / "own.toml")


# How many clients


def test_clients_are_counted_by_the_user_or_by_the_data() -> None:
    assert load_experiment().clients.count is None, "the data may name them"
    dealt = load_experiment(None, ["clients.fraction=0.2", "partition.name=iid"])
    assert dealt.clients.count == 10
    assert load_experiment("own").clients.count is None
    assert load_experiment("own", ["partition.name=dirichlet"]).clients.count == 5
    assert load_experiment("own", ["partition.name=iid", "clients.count=8"]).clients.count == 8
    natural = load_experiment("quickstart", ["partition.name=natural"])
    assert natural.clients.count is None
    assert load_experiment(natural) == natural
    counted = load_experiment("quickstart", ["partition.name=natural", "clients.count=7"])
    assert counted.clients.count == 7
    assert load_experiment(natural, ["partition.name=iid"]).clients.count == 10
    with pytest.raises(UserError, match=r"clients\.count=0"):
        load_experiment("quickstart", ["partition.name=natural", "clients.count=0"])


def test_paths_of_every_section_mean_the_same_elsewhere(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    kinds = [{"name": "human", "path": "b"}, {"name": "open_set", "source": "npz", "path": "c"}]
    found = load_experiment(
        None,
        {
            "data.path": "a",
            "noise.name": "mixed",
            "noise.kinds": kinds,
            "partition.name": "annotator",
            "partition.path": "d",
        },
    ).from_anywhere()
    text = to_toml(found)
    for folder in "abcd":
        assert f'"{tmp_path / folder}"' in text
    assert load_experiment(found) == found


@pytest.mark.parametrize(
    ("key", "choice"),
    [
        ("data.path", "data.source=folder"),
        ("data.draw", "seed=1"),
        ("model.weights", "model.name=resnet18"),
        ("noise.path", "noise.name=human"),
        ("noise.path", "noise.name=open_set"),
        ("partition.path", "partition.name=annotator"),
    ],
)
def test_an_empty_path_is_not_the_current_folder(key: str, choice: str) -> None:
    with pytest.raises(UserError, match=rf"^{key}='': is empty"):
        load_experiment(None, [choice, f"{key}="])
    assert load_experiment(None, [choice, f"{key}=."])


def test_an_unknown_key_in_a_list_of_kinds_names_what_is_allowed() -> None:
    with pytest.raises(UserError) as caught:
        load_experiment(None, ["noise.name=mixed", 'noise.kinds=["none", {name="pair", rate=1}]'])
    message = str(caught.value)
    assert message.startswith("noise.kinds.1.rate is an unknown key; allowed here: name, levels")
    assert "map" in message


def test_clothing1m_asks_for_published_weights() -> None:
    with pytest.raises(UserError, match=r"model\.weights=resnet50\.pth: there is no such.*none"):
        load_experiment("clothing1m").model.pinned()
    assert load_experiment("clothing1m", ["model.weights=none"]).model.weights is None
