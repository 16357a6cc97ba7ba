"""Features that sites standardise alike, by sums that leave them and vectors that do not."""

import tomllib
from hashlib import sha256
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("flwr")

from tests.flower.grids import LocalGrid
from tests.flower.trial import lines, local, run_config, served, trial_grid

from feddiv.config.experiment import to_toml
from feddiv.config.reading import load_experiment
from feddiv.core.errors import UserError
from feddiv.data.scaling import Scaling
from feddiv.federation.reply_check import Refused
from feddiv.flower import client_app
from feddiv.flower.records import SiteTask, VisitAddress, message_records, read_task
from feddiv.flower.site import Site
from feddiv.flower.site_data import OwnData
from feddiv.methods.contract import Message
from feddiv.methods.feature_sums import KIND
from feddiv.runs.model import load_model

pytestmark = pytest.mark.slow

FEATURES, SITES = 4, 3
CONFIG = """
rounds = 2
[data]
source = "sites"
classes = ["0", "1"]
features = 4
standardise = "clients"
[method]
name = "fedavg"
[model]
name = "linear"
[partition]
name = "natural"
[clients]
fraction = 1.0
[evaluation]
name = "held_out"
[federation]
name = "flower"
sites = 3
wait = 0.3
"""


def samples(count: int, seed: int) -> dict[str, np.ndarray]:
    rng, y = np.random.default_rng(seed), np.arange(count) % 2
    x = (rng.normal(size=(count, FEATURES)) + 2 * y[:, None]) * [1, 1e4, 1e-4, 1] + [0, 5e4, 0, 9]
    return {"x": x.astype(np.float32), "y": y}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for site in range(SITES):
        np.savez(tmp_path / f"{site}.npz", **samples(20 + 10 * site, site))
    (tmp_path / "experiment.toml").write_text(CONFIG)
    return tmp_path


def sites(folder: Path, **changes: Any) -> tuple[LocalGrid, dict[str, Any]]:
    config = {"config": str(folder / "experiment.toml"), "out": str(folder / "run"), **changes}
    nodes = {
        5 + site: {"data-path": str(folder / f"{site}.npz"), "site-path": str(folder / f"at{site}")}
        for site in range(SITES)
    }
    keys = {node: f"key {node}".encode() for node in nodes}
    names = {node: f"site {node}" for node in nodes}
    return LocalGrid(client_app(), nodes, config, keys=keys, names=names), config


def test_a_trial_gives_the_bits_of_the_local_engine(tmp_path: Path) -> None:
    rng, y = np.random.default_rng(0), np.arange(60) % 3
    x = (rng.normal(size=(60, 5)) * 100 + y[:, None]).astype(np.float32)
    np.savez(tmp_path / "v.npz", x=x, y=y, x_test=x[:9], y_test=y[:9])
    settings = {
        "data__source": "npz",
        "data__path": str(tmp_path / "v.npz"),
        "data__images": 60,
        "data__standardise": "clients",
    }
    config = run_config(tmp_path / "grid", **settings)
    ours = served(trial_grid(config), config)
    theirs = local(tmp_path / "local", **settings)
    for key in ("model_hash", "bytes_up", "bytes_down", "last_test_accuracy", "flagged"):
        assert ours.summary[key] == theirs.summary[key]


def test_sites_agree_and_the_model_has_it(folder: Path) -> None:
    grid, config = sites(folder)
    told: list[dict[str, Any]] = []

    def listen(node: int, message: Any, reply: Any) -> Any:
        if message.content["task"]["kind"] == KIND:
            told.append(dict(reply.content["payload"]))
        return reply

    grid.meddle = listen
    run = served(grid, config)
    assert run.summary["last_held_out_accuracy"] > 0.7
    assert [len(each["sum"]) for each in told] == [FEATURES] * SITES
    assert all(each.keys() == {"sum", "sum:shape", "squares", "squares:shape"} for each in told)
    card = load_model(run.folder).card
    counts = [line["samples"] for line in lines(folder / "run" / "clients.jsonl")][:SITES]
    total = np.sum([each["sum"] for each in told], axis=0) / sum(counts)
    np.testing.assert_allclose(card.mean, total, rtol=1e-12)
    np.testing.assert_allclose(card.std[1], 1.4e4, rtol=0.2)


def test_a_server_that_is_started_again_goes_on_with_it(folder: Path) -> None:
    grid, config = sites(folder)
    straight = served(grid, config)
    (folder / "experiment.toml").write_text(CONFIG.replace("rounds = 2", "rounds = 1"))
    grid, config = sites(folder, out=str(folder / "again"))
    served(grid, config)
    grid, config = sites(folder, out=str(folder / "again"), resume=True, settings="rounds=2")
    config.pop("config")
    again = served(grid, config)
    assert again.summary["model_hash"] == straight.summary["model_hash"]
    assert KIND not in {kind for _, kind in grid.log}  # nobody is asked again


def test_one_site_that_lies_or_stays_away_does_not_void_it(folder: Path) -> None:
    grid, config = sites(folder)
    honest = load_model(served(grid, config).folder).card
    for name, meddled in (("lies", "sum"), ("away", None)):
        grid, config = sites(folder, out=str(folder / name))

        def meddle(node: int, message: Any, reply: Any, meddled: Any = meddled) -> Any:
            if node == 5 and message.content["task"]["kind"] == KIND:
                if meddled is None:
                    return None
                payload = reply.content["payload"]
                payload["sum"] = [1e9] * FEATURES
                payload["squares"] = [1e20] * FEATURES
            return reply

        grid.meddle = meddle
        (folder / "experiment.toml").write_text(
            CONFIG.replace("wait = 0.3", "wait = 0.3\nround_timeout = 1.0")
        )
        card = load_model(served(grid, config).folder).card
        moved = np.abs(np.subtract(card.mean, honest.mean)) / honest.std
        assert (moved < 1).all()


def test_a_site_tells_sums_only_in_a_run_that_says_so(folder: Path) -> None:
    site = Site(folder / "at0", OwnData(folder / "0.npz"))

    def said(config: str, kind: str, scaling: Scaling | None = None) -> str:
        run = sha256(config.encode()).hexdigest()[:32]
        whole = to_toml(load_experiment(tomllib.loads(config)))
        task = SiteTask(VisitAddress(run, 0, 0, "", 0), kind, whole, scaling=scaling)
        answer = site.answer(message_records(task, Message(kind)))
        return str(dict(answer.get("problem", {})).get("text", ""))

    plain = CONFIG.replace('standardise = "clients"\n', "")
    assert said(plain, KIND) == "is asked for sums of features, and data.standardise is not clients"
    assert said(CONFIG, KIND) == ""
    good, bad = Scaling(np.zeros(4), np.ones(4)), Scaling(np.zeros(4), np.zeros(4))
    wrong = "is not told what the run standardises features by, or something else"
    assert said(CONFIG, "train") == wrong
    assert said(CONFIG, "train", bad) == wrong
    assert said(CONFIG, "train", Scaling(np.zeros(3), np.ones(3))) == wrong
    assert said(plain, "train", good) == wrong


def test_a_task_with_half_a_scaling_is_refused() -> None:
    task = SiteTask(VisitAddress("0" * 32, 0, 0, "", 0), KIND, "", scaling=None)
    records = message_records(task, Message(KIND))
    assert read_task(records).scaling is None
    whole = SiteTask(task.address, KIND, "", scaling=Scaling(np.arange(2.0), np.ones(2)))
    read = read_task(message_records(whole, Message(KIND))).scaling
    assert read is not None
    assert (read.mean.tolist(), read.std.tolist()) == ([0.0, 1.0], [1.0, 1.0])
    records["task"]["mean"] = [0.0]
    with pytest.raises(Refused, match="std is no array"):
        read_task(records)


def test_data_mean_and_clients_contradict_each_other(folder: Path) -> None:
    (folder / "experiment.toml").write_text(
        CONFIG.replace("features = 4", "features = 4\nmean = 3")
    )
    grid, config = sites(folder)
    with pytest.raises(UserError, match=r"standardise=clients and data\.mean contradict"):
        served(grid, config)
