"""A run of seconds whose audits are looked at."""

import pytest

import feddiv

SETTINGS = {
    "against": [],
    "rounds": 5,
    "data.images": 420,
    "clients.count": 3,
    "clients.fraction": 1.0,
    "warmup.iterations": 2,
    "train.epochs": 4,
    "seed": 3,
}


@pytest.fixture(scope="session")
def finished(tmp_path_factory):
    """FedDiv on 420 digits at three clients, some of them noisy."""
    out = tmp_path_factory.mktemp("runs") / "finished"
    return feddiv.run("quickstart", SETTINGS, out=out, workers=0)
