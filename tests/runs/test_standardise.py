"""Standardisation by sums that clients tell: the numbers, who carries them, who lies."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import feddiv
from feddiv.config.sections import RobustOptions
from feddiv.core.errors import UserError
from feddiv.core.files import Unreadable, load_tensors
from feddiv.core.randomness import Streams
from feddiv.defence.defence import Defence
from feddiv.federation.in_process import InProcess
from feddiv.methods.contract import Reply
from feddiv.runs.checkpoint_check import _check_standard
from feddiv.runs.prepare import prepare
from feddiv.runs.standardise import Standard, agreed_standard, plausible

FEATURES = 6
SETTINGS: dict[str, Any] = {
    "data.source": "npz",
    "data.standardise": "clients",
    "model.name": "mlp",
    "model.hidden": 8,
    "method.name": "fedavg",
    "partition.name": "iid",
    "clients.count": 5,
    "clients.fraction": 0.4,
    "rounds": 4,
    "train.epochs": 1,
}


@pytest.fixture(scope="module")
def vectors(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Vectors on several scales, the last feature constant."""
    file, rng = tmp_path_factory.mktemp("data") / "vectors.npz", np.random.default_rng(0)
    y, y_test = np.arange(100) % 3, np.arange(30) % 3
    made = {}
    for key, labels in (("x", y), ("x_test", y_test)):
        x = rng.normal(size=(len(labels), FEATURES)) + labels[:, None]
        x = x * [1, 100, 1e-3, 1, 1, 0] + [0, 1e6, 0, -5, 3, 7]
        made[key] = x.astype(np.float32)
    np.savez(file, **made, y=y, y_test=y_test)
    return file


def settings(vectors: Path, **changes: Any) -> dict[str, Any]:
    named = {key.replace("__", "."): value for key, value in changes.items()}
    return {**SETTINGS, "data.path": str(vectors), **named}


class Told(InProcess):
    """Clients that send what they are told to, in place of their own sums."""

    lies: dict[int, dict[str, np.ndarray]]

    def visits(self, exchange: Any, rng: Streams) -> Any:
        for visit in super().visits(exchange, rng):
            reply = visit.reply
            lie = self.lies.get(reply.client)
            if lie is not None:
                reply = Reply(reply.client, reply.samples, None, lie, {})
            yield type(visit)(reply, visit.memory, visit.diary)


def agreed(
    vectors: Path, lies: dict[int, Any], defence: Defence | None = None, **changes: Any
) -> tuple[Any, list[dict[str, Any]]]:
    federation = Told(prepare(feddiv.load_experiment(None, settings(vectors, **changes))).workspace)
    federation.lies = lies
    lines: list[dict[str, Any]] = []
    standard = agreed_standard(federation, defence or Defence(), Streams(0), lines.append)
    return standard, lines


def sums(mean: float, std: float, samples: int = 20) -> dict[str, np.ndarray]:
    total, squares = mean * samples, (mean**2 + std**2) * samples
    return {"sum": np.full(FEATURES, total), "squares": np.full(FEATURES, squares)}


def test_it_is_the_mean_and_spread_of_all_that_clients_train_on(vectors: Path) -> None:
    x = np.load(vectors)["x"].astype(np.float64)
    standard, lines = agreed(vectors, {})
    np.testing.assert_allclose(standard.mean, x.mean(axis=0), rtol=1e-9, atol=1e-9)
    expected = x.std(axis=0)
    expected[-1] = 1.0  # a constant feature is centred, and not blown up
    np.testing.assert_allclose(standard.std, expected, rtol=1e-6)
    assert [(line["client"], line["samples"]) for line in lines] == [(k, 20) for k in range(5)]
    assert (standard.bytes_up, standard.bytes_down) == (5 * (2 * 8 * FEATURES + 8), 0)


def test_noise_by_instance_sees_standardised_features(vectors: Path) -> None:
    """One feature is a million: raw, it alone would choose the wrong class of every sample."""
    noisy = {"noise__name": "instance", "noise__rho": 1.0, "noise__tau": 0.5}
    given = {}
    for rule in ("source", "clients"):
        chosen = settings(vectors, data__standardise=rule, **noisy)
        prepared = prepare(feddiv.load_experiment(None, chosen))
        given[rule] = prepared.draw.given
        assert (prepared.dataset.mean == (0.0,) * FEATURES) == (rule == "clients")
    assert np.array_equal(given["source"], given["clients"])
    flipped = given["source"][given["source"] != np.arange(100) % 3]
    assert len(flipped) > 20


class Again(InProcess):
    """Too few answer at first."""

    failures = 0

    def enough(self, answered: int, asked: int) -> bool:
        return self.failures > 0

    def regroup(self, failures: int) -> None:
        self.failures = failures


def test_bytes_of_an_attempt_that_was_given_up_count(vectors: Path, tmp_path: Path) -> None:
    prepared = prepare(feddiv.load_experiment(None, settings(vectors)))
    found = []
    for kind in (InProcess, Again):
        federation = kind(prepared.workspace, tmp_path)
        found.append(agreed_standard(federation, Defence(), Streams(0), lambda line: None))
    once, twice = found
    assert once.bytes_up > 0
    assert (twice.bytes_up, twice.bytes_down) == (2 * once.bytes_up, 2 * once.bytes_down)
    assert np.array_equal(once.mean, twice.mean)


def test_a_liar_moves_little(vectors: Path) -> None:
    honest, _ = agreed(vectors, {})
    for lie in (sums(1e11, 1e11), sums(-1e11, 1.0), sums(0.0, 1e12)):
        standard, lines = agreed(vectors, {3: lie})
        left_out = [line for line in lines if "left_out" in line]
        assert [line["client"] for line in left_out] == [3]
        assert "6 of 6 features are unlike those of others" in left_out[0]["left_out"]
        assert (np.abs(standard.mean - honest.mean) <= 0.3 * honest.std).all()
        np.testing.assert_allclose(standard.std, honest.std, rtol=0.2)


def test_a_lie_that_is_not_far_out_is_bounded_by_its_share(vectors: Path) -> None:
    honest, _ = agreed(vectors, {})
    shifted = honest.mean + 15 * honest.std
    lie = {"sum": 20 * shifted, "squares": 20 * (shifted**2 + honest.std**2)}
    standard, _ = agreed(vectors, {3: lie})
    moved = (np.abs(standard.mean - honest.mean) / honest.std)[:-1]
    assert (moved > 2).all()  # 15 spreads of one of five clients
    assert (moved < 4).all()
    trimmed = Defence(RobustOptions(filter="trimmed_mean"))
    robust, _ = agreed(vectors, {3: lie}, trimmed)
    assert (np.abs(robust.mean - honest.mean) < 0.7 * honest.std).all()
    assert (robust.std < 3 * honest.std).all()


@pytest.mark.parametrize(
    ("lie", "why"),
    [
        (sums(np.nan, 1.0), "sum is not finite"),
        (sums(2e12, 1.0), "sum is outside"),
        ({"sum": np.ones(FEATURES), "squares": -np.ones(FEATURES)}, "squares is outside"),
        ({"sum": np.full(FEATURES, 100.0), "squares": np.ones(FEATURES)}, "squares that are too"),
        ({"sum": np.ones(FEATURES)}, "one of sum and squares without the other"),
        (sums(0.0, 1.0) | {"labels": np.ones(3)}, "labels was not declared"),
        ({"sum": np.ones(3), "squares": np.ones(3)}, "sum has shape (3,), declared (6,)"),
    ],
)
def test_impossible_sums_are_refused_and_the_run_goes_on(
    vectors: Path, lie: dict[str, np.ndarray], why: str
) -> None:
    standard, lines = agreed(vectors, {1: lie})
    refused = [line for line in lines if "refused" in line]
    assert [line["client"] for line in refused] == [1]
    assert why in refused[0]["refused"]
    assert np.isfinite(standard.std).all()


def test_clients_of_few_samples_tell_nothing(vectors: Path) -> None:
    changes = {"data__images": 20, "clients__count": 5}  # four each
    with pytest.raises(UserError, match="no client has told its sums"):
        agreed(vectors, {}, **changes)
    with pytest.raises(UserError, match="no client has told its sums"):
        agreed(vectors, {2: sums(0.0, 1.0, 4)}, **changes)


def test_a_feature_that_only_one_client_has_counts() -> None:
    means, variances = np.zeros((5, 3)), np.ones((5, 3))
    variances[:, 2] = 0.0
    means[4, 2], variances[4, 2] = 2.0, 1.0
    assert plausible(means, variances).all()
    means[4, 2] = 21.0
    assert plausible(means, variances).sum() == 14
    assert plausible(means[3:], variances[3:]).all()  # of two nobody can tell


def test_the_same_bits_whoever_carries_the_sums(vectors: Path, tmp_path: Path) -> None:
    runs = [
        feddiv.run(None, settings(vectors), out=tmp_path / f"{count}", workers=count)
        for count in (0, 1, 3)
    ]
    assert len({run.summary["model_hash"] for run in runs}) == 1
    assert len({run.summary["bytes_up"] for run in runs}) == 1
    card = json.loads(load_tensors(runs[0].folder / "model.safetensors")[1]["feddiv"])
    x = np.load(vectors)["x"].astype(np.float64)
    np.testing.assert_allclose(card["mean"], x.mean(axis=0), rtol=1e-9, atol=1e-9)
    test = np.load(vectors)
    right = feddiv.load(runs[0].folder).predict(test["x_test"]) == test["y_test"]
    assert right.mean() == pytest.approx(runs[0].summary["last_test_accuracy"])
    first, second = runs[0].rounds[:2]
    assert first["bytes_up"] - second["bytes_up"] == 5 * (2 * 8 * FEATURES + 8)
    plain = feddiv.run(
        None, settings(vectors, data__standardise="source"), out=tmp_path / "plain", workers=0
    )
    told = 2 * 8 * FEATURES * 2  # with each of two messages
    assert second["bytes_down"] - plain.rounds[1]["bytes_down"] == told


def test_a_run_that_goes_on_knows_them(vectors: Path, tmp_path: Path) -> None:
    straight = feddiv.run(None, settings(vectors), out=tmp_path / "straight", workers=0)
    short = settings(vectors, rounds=2, checkpoint__seconds=0.0)
    feddiv.run(None, short, out=tmp_path / "run", workers=0)
    again = feddiv.resume(tmp_path / "run", {"rounds": 4}, workers=0)
    assert again.summary["model_hash"] == straight.summary["model_hash"]
    lines = (tmp_path / "run" / "clients.jsonl").read_text().splitlines()
    asked = [json.loads(line) for line in lines if '"standardise"' in line]
    assert [(line["stage"], line["turn"], line["client"]) for line in asked] == [
        ("hello", 0, client) for client in range(5)
    ]


def test_a_checkpoint_has_to_have_it(vectors: Path) -> None:
    def check(standard: Standard | None, **changes: Any) -> None:
        _check_standard(
            standard, prepare(feddiv.load_experiment(None, settings(vectors, **changes)))
        )

    zeros, ones = np.zeros(FEATURES), np.ones(FEATURES)
    check(Standard(zeros, ones, 1, 0))
    check(None, data__standardise="source")
    for bad in (
        None,
        Standard(zeros, zeros, 1, 0),
        Standard(zeros[1:], ones[1:], 1, 0),
        Standard(zeros * np.nan, ones, 1, 0),
        Standard(zeros, ones, -1, 0),
    ):
        with pytest.raises(Unreadable):
            check(bad)
    with pytest.raises(Unreadable):
        check(Standard(zeros, ones, 1, 0), data__standardise="source")


def test_a_robust_filter_has_something_to_do_then(vectors: Path) -> None:
    for standardise, lines in (("clients", 0), ("source", 1)):
        notes: list[str] = []
        changes = {"robust__filter": "median", "data__standardise": standardise}
        feddiv.load_experiment(None, settings(vectors, **changes), note=notes.append)
        assert len(notes) == lines


def test_what_it_is_not_for(vectors: Path, tmp_path: Path) -> None:
    def refused(preset: str | None, changes: dict[str, Any]) -> str:
        with pytest.raises(UserError) as error:
            feddiv.run(preset, changes, out=tmp_path / "run", workers=0)
        assert not (tmp_path / "run").exists()
        return str(error.value)

    said = refused("quickstart", {"data.standardise": "clients"})
    assert said == (
        "data.standardise=clients: is for feature vectors, and a sample here has shape (1, 8, 8)"
    )
    for private in ("sum_only", "dp"):
        said = refused(None, settings(vectors, privacy__filter=private))
        assert said == (
            "data.standardise=clients: each client would tell sums of its features, which "
            f"privacy.filter={private} does not hide; take data.standardise=source"
        )
