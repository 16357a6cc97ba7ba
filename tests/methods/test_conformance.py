"""What every method must hold to; a new one is tested by being registered."""

import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import feddiv
from feddiv.data import Draw
from feddiv.data.draw.fingerprint import label_fingerprint
from feddiv.federation.reply_check import Refused, check_reply
from feddiv.methods.contract import Facts, Reply
from feddiv.methods.registry import METHODS
from feddiv.runs.experiment import Watcher
from feddiv.runs.prepare import prepare

pytestmark = pytest.mark.slow

EVERY = sorted(METHODS)
OF_FEDDIV = [f"feddiv-{variant}" for variant in ("paper", "release", "perfect-filter")]
CLASSES, WIDTH = 3, 6
SIZES = (1, 2, 20, 20, 24, 30)  # of the clients: odd ones first
ONE_CLASS, ALL_NOISE = 2, 3


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """Feature vectors and a draw with very small clients, one of one class, one of noise only."""
    folder, rng = tmp_path_factory.mktemp("world"), np.random.default_rng(3)
    truth = np.arange(sum(SIZES) + 60) % CLASSES
    x = rng.normal(0, 0.4, (len(truth), WIDTH)).astype(np.float32)
    x[np.arange(len(truth)), truth] += 1.5
    train = sum(SIZES)
    np.savez(
        folder / "data.npz",
        x=x[:train],
        y=truth[:train],
        x_test=x[train:],
        y_test=truth[train:],
        y_true=truth[:train],
    )
    settings = {
        "data.source": "npz",
        "data.path": str(folder / "data.npz"),
        "model.name": "mlp",
        "clients.count": len(SIZES),
        "clients.fraction": 0.5,
        "rounds": 8,
        "warmup.iterations": 1,
        "train.epochs": 2,
        "train.batch": 5,
        "against": [],
        "noise.name": "none",
        "partition.name": "iid",
    }
    plain = prepare(feddiv.load_experiment(None, settings)).dataset
    labels = plain.train.labels.numpy()
    same_class = np.flatnonzero(labels == 1)[: SIZES[ONE_CLASS]]
    rest = np.setdiff1d(np.arange(train), same_class)
    parts, place = [], 0
    for client, size in enumerate(SIZES):
        if client == ONE_CLASS:
            parts.append(same_class)
        else:
            parts.append(rest[place : place + size])
            place += size
    given = labels.copy()
    given[parts[ALL_NOISE]] = (given[parts[ALL_NOISE]] + 1) % CLASSES
    given[parts[-1][::3]] = (given[parts[-1][::3]] + 2) % CLASSES
    draw = Draw("npz", tuple(parts), given, labels, None, label_fingerprint(plain.train.labels))
    draw.save(folder / "draw.npz")
    return settings | {"data.draw": str(folder / "draw.npz")}


def records(run: feddiv.Run, name: str) -> list[dict[str, Any]]:
    lines = [json.loads(line) for line in (run.folder / name).read_text().splitlines()]
    return [{k: v for k, v in line.items() if not k.endswith("seconds")} for line in lines]


class Enough(Exception):
    """Stops a run."""


class StopAfter(Watcher):
    def __init__(self, rounds: int) -> None:
        self.left = rounds

    def round(self, line: dict[str, Any]) -> None:
        self.left -= 1
        if not self.left:
            raise Enough


@pytest.mark.parametrize("name", [*EVERY, *OF_FEDDIV])
def test_odd_clients_workers_and_resume(world: dict[str, Any], tmp_path: Path, name: str) -> None:
    settings = world | {"method.name": name}
    whole = feddiv.run(None, settings, out=tmp_path / "whole", workers=0)
    # What clients sent is what was declared, finite and within bounds: nothing was refused.
    visits = records(whole, "clients.jsonl")
    assert not [line for line in visits if "refused" in line]
    assert not [line for line in records(whole, "rounds.jsonl") if line["missing"]]
    assert {line["client"] for line in visits} >= {0, 1, ONE_CLASS, ALL_NOISE}
    assert np.isfinite(whole.column("test_accuracy")).all()
    assert len(whole.assessment["predicted_label"]) == sum(SIZES)
    # The same bits with workers, and after a stop.
    with pytest.raises(Enough):
        feddiv.run(None, settings, out=tmp_path / "again", workers=2, watcher=StopAfter(3))
    again = feddiv.resume(tmp_path / "again", workers=2)
    assert again.summary["model_hash"] == whole.summary["model_hash"]
    for file in ("rounds.jsonl", "clients.jsonl"):
        assert records(again, file) == records(whole, file)
    assert whole.assessment.keys() == again.assessment.keys()
    for key, values in whole.assessment.items():
        assert np.array_equal(values, again.assessment[key])


@pytest.mark.parametrize("name", [*EVERY, *OF_FEDDIV, "feddiv-local-filter"])
def test_replies_that_lack_something_or_hold_more_are_refused(
    world: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    arrived: dict[str, tuple[Any, ...]] = {}

    def noted(reply: Reply, *terms: Any) -> None:
        check_reply(reply, *terms)
        arrived[terms[1].kind] = (reply, *terms)  # the last of each kind: of a usual client

    monkeypatch.setattr("feddiv.runs.loop.check_reply", noted)
    run = feddiv.run(None, world | {"method.name": name}, out=tmp_path / "run", workers=0)
    trained = {name for name, (_, kind, *_) in arrived.items() if kind.models}
    assert "train" in trained
    # What a run of the method sends is what it declares: every kind of it, and no other.
    facts = Facts(tuple("abc"), (WIDTH,), dict(enumerate(SIZES)), True)
    assert arrived.keys() == run.experiment.build_method().kinds(facts).keys()
    for reply, kind, *terms in arrived.values():
        assert terms[0].payload.keys() <= set(kind.message)
        kept = {**reply.payload, **reply.metrics}
        for entry, field in kind.reply.items():
            place = "metrics" if field.metric else "payload"
            less = {key: value for key, value in getattr(reply, place).items() if key != entry}
            without = replace(reply, **{place: less})
            if field.optional:
                check_reply(without, kind, *terms)
                continue
            assert entry in kept
            with pytest.raises(Refused, match=f"{entry} is missing"):
                check_reply(without, kind, *terms)
        more = replace(reply, payload={**reply.payload, "labels": np.zeros(3)})
        with pytest.raises(Refused, match="labels was not declared"):
            check_reply(more, kind, *terms)
        other = replace(reply, weights=None if kind.models else {"net": {}})
        with pytest.raises(Refused, match="were asked for"):
            check_reply(other, kind, *terms)


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
    trained = {line["client"] for line in records(run, "clients.jsonl") if line["kind"] == "train"}
    assert 1 <= len(trained) <= 4
    assert np.array_equal(np.unique(run.assessment["client"]), np.arange(12))


@pytest.mark.parametrize("name", [*EVERY, *OF_FEDDIV])
def test_nothing_that_is_sent_is_per_sample(name: str) -> None:
    method = feddiv.load_experiment("quickstart", {"method.name": name}).build_method()
    classes = tuple("abc")
    few, many = (Facts(classes, (WIDTH,), dict.fromkeys(range(5), size), True) for size in (7, 700))
    declared, of_many = method.kinds(few), method.kinds(many)
    assert declared.keys() == of_many.keys()
    for kind, carried in declared.items():
        assert {key: field.shape for key, field in carried.reply.items()} == {
            key: field.shape for key, field in of_many[kind].reply.items()
        }


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
        "    feddiv.run(None, run, out=f'{sys.argv[2]}/{name}', workers=0)\n"
    )
    command = [sys.executable, "-c", code, json.dumps(world), str(tmp_path), *EVERY]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert {folder.name for folder in tmp_path.iterdir()} == set(EVERY)


@pytest.mark.parametrize("name", EVERY)
def test_a_method_says_what_it_is(name: str) -> None:
    method = METHODS[name]
    assert method.name == name
    assert method.summary
    assert method.paper.split(",")[0].endswith(("et al.", "al."))
    assert method.State is not None
    assert method.Options(name=name).name == name  # type: ignore[call-arg]
