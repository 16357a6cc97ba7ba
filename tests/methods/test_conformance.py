"""What every method must hold to; a new one is tested by being registered."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import feddiv
from feddiv.methods.registry import METHODS, split_name
from feddiv.testing import check_method
from feddiv.testing.odd_clients import ODD, write_trial
from feddiv.testing.trial import journal

pytestmark = pytest.mark.slow

EVERY = sorted(METHODS)
VARIANTS = ["fedavg-warm"] + [
    f"feddiv-{variant}" for variant in ("paper", "release", "perfect-filter", "local-filter")
]


@pytest.mark.parametrize("name", [*EVERY, *VARIANTS])
def test_every_method_keeps_to_the_contract(name: str) -> None:
    method, variant = split_name(name)
    check_method(METHODS[method], None if variant is None else {"variant": variant})


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """The data of the trial that methods go through."""
    return write_trial(tmp_path_factory.mktemp("world") / "data")


def test_the_trial_asks_every_odd_client(world: dict[str, Any], tmp_path: Path) -> None:
    run = feddiv.run({}, world | {"method.name": "fedavg"}, out=tmp_path / "run", workers=0)
    assert {line["client"] for line in journal(run.folder, "clients.jsonl")} >= ODD.keys()
    sizes = np.bincount(run.assessment["client"])
    assert list(sizes[:4]) == [1, 2, 20, 20]
    given, truth = run.assessment["given_label"], run.assessment["true_label"]
    assert len(np.unique(given[run.assessment["client"] == 2])) == 1
    assert (given != truth)[run.assessment["client"] == 3].all()


@pytest.mark.parametrize("name", EVERY)
def test_partial_participation_without_noise(tmp_path: Path, name: str) -> None:
    warmup = int(METHODS[name].without_warmup is not None)
    settings = {
        "rounds": 4 + 10 * warmup,
        "clients.count": 12,
        "clients.fraction": 0.1,  # one of twelve a round: most are never selected
        "warmup.iterations": warmup,
        "data.images": 240,
        "train.epochs": 1,
        "noise.name": "none",
        "against": [],
    }
    run = feddiv.run(
        "quickstart", settings | {"method.name": name}, out=tmp_path / "run", workers=0
    )
    assert len(run.rounds) == 4 + warmup
    visits = journal(run.folder, "clients.jsonl")
    trained = {line["client"] for line in visits if line["kind"] == "train"}
    assert 1 <= len(trained) <= 4
    assert np.array_equal(np.unique(run.assessment["client"]), np.arange(12))


def test_every_method_works_without_optional_packages(
    world: dict[str, Any], tmp_path: Path
) -> None:
    code = (
        "import json, sys\n"
        "sys.modules |= dict.fromkeys(['pyarrow', 'datasets', 'pandas', 'torchvision', 'flwr'])\n"
        "import feddiv\n"
        "settings = json.loads(sys.argv[1])\n"
        "for name in sys.argv[3:]:\n"
        "    run = settings | {'method.name': name, 'device': 'cpu', 'train.epochs': 1}\n"
        "    feddiv.run({}, run, out=f'{sys.argv[2]}/{name}', workers=0)\n"
    )
    command = [sys.executable, "-c", code, json.dumps(world), str(tmp_path), *EVERY]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert {folder.name for folder in tmp_path.iterdir()} == set(EVERY)


@pytest.mark.parametrize("name", EVERY)
def test_a_method_says_what_it_is(name: str) -> None:
    method = METHODS[name]
    assert method.name == name
    assert method.paper.split(",")[0].endswith(("et al.", "al."))
    assert method.Options.model_fields["name"].default == name
