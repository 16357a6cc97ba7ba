"""A data set and a draw small enough to follow by hand."""

import importlib
import signal
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import settings
from tests.browser import browser

from feddiv.data import Augment, Dataset, Draw
from feddiv.data.dataset import Split
from feddiv.federation.simulation import Simulation

__all__ = ["browser"]  # fixtures for all tests

# torch.compile imports it, which fails once something else has imported distutils without it.
with suppress(ImportError):
    importlib.import_module("setuptools")

# The machine is shared: how long an example takes says nothing about the code.
settings.register_profile("feddiv", deadline=None)
settings.load_profile("feddiv")


def pytest_configure(config: pytest.Config) -> None:
    """Notes on runs are expected here; what they say has tests of its own."""
    config.addinivalue_line("filterwarnings", "ignore::feddiv.Note")


def pytest_collectreport(report: pytest.CollectReport) -> None:
    """A test file that cannot be imported is no file of doctests that may be left out."""
    lost = report.skipped and "unable to import module" in str(report.longrepr)
    if lost and report.nodeid.startswith("tests/"):
        raise pytest.UsageError(f"{report.nodeid}: cannot be imported")


@pytest.fixture
def terminal() -> Iterator[None]:
    """A hang-up means what it does at a terminal, also where the tests run under `nohup`."""
    if not hasattr(signal, "SIGHUP"):
        yield
        return
    before = signal.signal(signal.SIGHUP, signal.SIG_DFL)
    yield
    signal.signal(signal.SIGHUP, before)


@pytest.fixture
def small_data() -> Dataset:
    """Twelve training and six test vectors of three numbers; the largest is the class."""
    rng = np.random.default_rng(5)
    labels = torch.arange(18) % 3
    inputs = torch.from_numpy(rng.normal(0, 0.3, (18, 3)).astype(np.float32))
    inputs[torch.arange(18), labels] += 1
    return Dataset(
        name="small",
        classes=("red", "green", "blue"),
        train=Split(inputs[:12], labels[:12]),
        test=Split(inputs[12:], labels[12:]),
        mean=(0.0,),
        std=(1.0,),
        augment=Augment(),
        truth=labels[:12],
    )


@pytest.fixture
def small_draw(small_data: Dataset) -> Draw:
    """Three clients with 2, 4 and 6 samples; samples 3 and 8 have wrong labels."""
    truth = small_data.train.labels.numpy()
    given = truth.copy()
    given[[3, 8]] = (given[[3, 8]] + 1) % 3
    return Draw(
        dataset="small",
        parts=(np.arange(0, 2), np.arange(2, 6), np.arange(6, 12)),
        given=given,
        truth=truth,
        levels=np.array([0.0, 0.25, 1 / 6]),
        fingerprint="",
        iid=False,
    )


def remembered(federation: Simulation) -> dict[int, Any]:
    """What each client of a simulation remembers."""
    clients = federation.memories.clients()
    return {id: federation.records.read(federation.memories.get(id)) for id in clients}


@pytest.fixture(scope="session", autouse=True)
def cache(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A cache of the tests' own, never the user's."""
    folder = tmp_path_factory.mktemp("cache")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("FEDDIV_CACHE", str(folder))
        yield folder
