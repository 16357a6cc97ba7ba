"""Flower's flat run config as settings of ours, and the app that is shipped."""

import subprocess
import sys
import tomllib
from importlib import resources
from logging import ERROR
from pathlib import Path

import pytest

pytest.importorskip("flwr")

from flwr.supercore.logger import log
from tests.flower.grids import LocalGrid
from tests.flower.trial import served

import feddiv
from feddiv.config.reading import load_experiment
from feddiv.core.errors import UserError
from feddiv.flower import client_app
from feddiv.flower.serverapp import IMPLIED, OURS, experiment_of, flat_keys

APP = Path(str(resources.files("feddiv"))) / "flower" / "app"


def test_flat_keys_are_settings():
    experiment = experiment_of(
        {
            "preset": "quickstart",
            "out": "x",
            "rounds": 30,
            "method-name": "feddiv-paper",
            "method-filter-drop-below": 0.25,
            "train-lr": 0.5,
            "federation-round-timeout": 5.0,
            "noise-rho": "",
            "settings": "against=[] train.momentum=0.9",
        }
    )
    same = load_experiment(
        "quickstart",
        {
            "rounds": 30,
            "method.name": "feddiv-paper",
            "method.filter.drop_below": 0.25,
            "train.lr": 0.5,
            "federation.round_timeout": 5.0,
            "against": [],
            "train.momentum": 0.9,
        },
        IMPLIED,
    )
    assert experiment == same


def test_a_choice_brings_its_own_keys():
    run = {"preset": "quickstart", "noise-name": "pair", "settings": "noise.levels=constant"}
    assert experiment_of({**run, "noise-level": 0.3}).noise.level == 0.3


@pytest.mark.parametrize(
    ("run", "said"),
    [
        ({"train-speed": 3}, "run config train-speed: is unknown"),
        ({"preset": "quickstart", "config": "a.toml"}, "give one of them"),
        ({"rounds": "many"}, "rounds='many'"),
        ({"rounds": 30, "settings": "rounds=40"}, "rounds and settings say different things"),
        ({"settings": "federation.name=local"}, "federation.name=local: it is flower here"),
        ({"config": "nowhere.toml"}, "nowhere.toml"),
    ],
)
def test_bad_run_configs(run, said):
    with pytest.raises(UserError, match=said):
        experiment_of(run)


def test_what_an_operator_can_mend_is_one_line_in_flowers_log(capsys, caplog):
    run = {"preset": "quickstart", "rounds": "many", "out": "nowhere"}
    with pytest.raises(UserError) as raised:
        served(LocalGrid(client_app(), {}), run)
    assert capsys.readouterr().out.startswith("feddiv: error: rounds='many'")
    for problem, trace in ((raised.value, False), (ValueError("ours"), True)):
        log(ERROR, "ServerApp raised an exception", exc_info=problem)  # as Flower does it
        assert bool(caplog.records[-1].exc_info) == trace


def test_the_app_lists_nothing_that_is_no_setting():
    config = tomllib.loads((APP / "pyproject.toml").read_text())["tool"]["flwr"]["app"]["config"]
    known = flat_keys(load_experiment("quickstart", {}, IMPLIED))
    assert set(config) - set(OURS) <= set(known)
    assert set(OURS) <= set(config)
    assert experiment_of({**config, "preset": "quickstart"}) == load_experiment(
        "quickstart", {}, IMPLIED
    )


@pytest.mark.slow
def test_the_app_asks_for_flower_only_and_builds(tmp_path):
    project = tomllib.loads((APP / "pyproject.toml").read_text())["project"]
    assert [name.split(">")[0] for name in project["dependencies"]] == ["flwr"]
    copy = tmp_path / "app"
    subprocess.run(["cp", "-r", str(APP), str(copy)], check=True)
    flwr = Path(sys.executable).with_name("flwr")
    done = subprocess.run(
        [str(flwr), "build", "--app", str(copy)],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        env={
            "FLWR_HOME": str(tmp_path / "home"),
            "FLWR_TELEMETRY_ENABLED": "0",
            "FLWR_DISABLE_UPDATE_CHECK": "1",
            "PATH": str(flwr.parent),
        },
    )
    assert done.returncode == 0, done.stdout + done.stderr
    bundles = [*tmp_path.glob("*.fab"), *copy.glob("*.fab")]
    assert len(bundles) == 1
    assert bundles[0].stat().st_size < 20_000  # our code is not in it


def test_without_flower_one_line_says_how_to_get_it(tmp_path):
    """A process in which flwr cannot be imported."""
    code = (
        "import sys; sys.modules['flwr'] = None\n"
        "import importlib.util as u; find = u.find_spec\n"
        "u.find_spec = lambda name, *a: None if name == 'flwr' else find(name, *a)\n"
        "import feddiv, feddiv.flower\n"
        "try:\n    feddiv.flower.serve\n"
        "except feddiv.UserError as error:\n    print(error)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.stdout.strip() == "Flower is not installed: pip install 'feddiv[flower]'"
    assert feddiv.__version__
