"""A slip of the pen is refused with what may have been meant."""

from pathlib import Path

import pytest

from feddiv.config.reading import load_experiment
from feddiv.core.errors import UserError


def refused(*overrides: str, source: str | None = "quickstart") -> str:
    with pytest.raises(UserError) as caught:
        load_experiment(source, overrides)
    message = str(caught.value)
    assert "\n" not in message
    return message


@pytest.mark.parametrize(
    ("override", "meant"),
    [
        ("round=3", "rounds"),
        ("nois={rho=0.3}", "noise"),
        ("train.epoch=3", "train.epochs"),
        ("method.filter.scores=bounded", "method.filter.score"),
        ("clients.Fraction=0.3", "clients.fraction"),
        # In another section.
        ("rho=0.8", "noise.rho"),
        ("lr=0.1", "train.lr"),
        ("fraction=0.1", "clients.fraction"),
        ("data.lr=0.1", "train.lr"),
        ("batch_size=32", "train.batch"),
        ("drop_below=0.2", "method.filter.drop_below"),
    ],
)
def test_keys(override: str, meant: str) -> None:
    key = override.partition("=")[0]
    said = f"{key} is an unknown key (did you mean {meant}?); allowed here: "
    assert refused(override).startswith(said)


@pytest.mark.parametrize(
    ("override", "owner"),
    [
        ("noise.rho=0.8", "noise.rho is for noise.name=symmetric, pair, instance, open_set"),
        ("rho=0.8", "noise.rho is for noise.name=symmetric, pair, instance, open_set"),
        ("method.mixup=true", "method.mixup is for method.name=fedavg"),
        ("partition.alpha=1", "partition.alpha is for partition.name=bernoulli_dirichlet, dir"),
    ],
)
def test_keys_of_another_choice(override: str, owner: str) -> None:
    assert f" is an unknown key ({owner}" in refused(override, source=None)


@pytest.mark.parametrize("override", ["xyzzy=1", "train.speed=1", "noise.zzz=1"])
def test_nothing_is_suggested_where_nothing_is_alike(override: str) -> None:
    assert " is an unknown key; allowed here: " in refused(override)


@pytest.mark.parametrize(
    ("override", "meant"),
    [
        ("method.name=fedag", "fedavg"),
        ("method.name=FedCorr", "fedcorr"),
        ("method.name=fedavg-mixop", "fedavg-mixup"),
        ("method.variant=relase", "release"),
        ("against=fedprx", "fedprox"),
        ("noise.name=symetric", "symmetric"),
        ("partition.name=dirichelt", "dirichlet"),
        ("data.source=cfar10", "cifar10"),
        ("model.name=cn", "cnn"),
        ("evaluation.name=heldout", "held_out"),
        ("federation.name=flowr", "flower"),
    ],
)
def test_names(override: str, meant: str) -> None:
    key, _, name = override.partition("=")
    message = refused(override)
    assert message.startswith(key)
    assert f"{name}" in message
    assert f"(did you mean {meant!r}?)" in message


def test_kinds_of_mixed_noise() -> None:
    assert "(did you mean 'pair'?)" in refused("noise.name=mixed", "noise.kinds=none,pairs")


def test_presets_and_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert "'quikstart' is no file and no preset (did you mean 'quickstart'?)" in refused(
        source="quikstart"
    )
    assert "(did you mean 'quickstart'?)" in refused(source="quickstart.toml")
    assert "did you mean" not in refused(source="something-else.toml")
    (tmp_path / "hospital.toml").write_text("rounds = 3")
    assert "(did you mean 'hospital.toml'?)" in refused(source="hospitl")
    (tmp_path / "on-top.toml").write_text('base = "digits-non-iid"')
    assert "base='digits-non-iid' is no preset (did you mean 'digits-noniid'?)" in refused(
        source="on-top.toml"
    )


def test_a_runs_folder_in_the_place_of_its_config(tmp_path: Path) -> None:
    plain = refused(source=str(tmp_path))
    assert plain == f"config file {tmp_path}: is a folder"
    (tmp_path / "config.toml").write_text("rounds = 3\n")
    assert refused(source=str(tmp_path)) == f"{plain}, of a run: name {tmp_path / 'config.toml'}"
