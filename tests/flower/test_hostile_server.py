"""Messages that no honest server sends: a site answers each, in one line if it is not to work."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

pytest.importorskip("flwr")

from flwr.app import Array, ArrayRecord, ConfigRecord, Context, Message, MetricRecord, RecordDict
from tests.federation.malformed import Rng, pick
from tests.flower.grids import as_sent
from tests.flower.test_malformed_replies import HEADERS, mutated, with_array
from tests.flower.trial import run_config, served, trial_grid

from feddiv.flower import client_app

pytestmark = pytest.mark.slow

NODE = {"partition-id": 0}
LONG = "n" * 10_000
ODD: list[Any] = [-7, 0, 2**63 - 1, 1.5, float("nan"), "", "seven", "\x1b[1m", LONG, True, b"x"]
ODD += [[], [1], ["a"], [float("inf")], [10**12] * 3]


@pytest.fixture(scope="module")
def messages(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Message]:
    """The last honest message of each kind to one node."""
    config = run_config(tmp_path_factory.mktemp("honest") / "run")
    grid, seen = trial_grid(config), dict[str, Message]()

    def remember(node: int, message: Message, reply: Message) -> Message:
        if node == 70:
            seen[str(message.content["task"]["kind"])] = as_sent(message)
        return reply

    grid.meddle = remember
    served(grid, config)
    assert {"hello", "warmup", "train", "assess"} <= seen.keys()
    return seen


def answer(message: Message, out: Path) -> str:
    """What the site says; empty where it does its work."""
    config = run_config(out)
    context = Context(
        run_id=1, node_id=70, node_config=dict(NODE), state=RecordDict(), run_config=config
    )
    reply = as_sent(client_app()(message, context))
    assert not reply.has_error()
    if "answer" in reply.content:
        return ""
    return str(reply.content["problem"]["text"])


def odd_value(records: RecordDict, rng: Rng) -> None:
    """A value of the task or of the payload is another one, of whatever type."""
    name = pick(rng, [name for name in ("task", "payload") if records[name]])
    records[name][pick(rng, records[name])] = pick(rng, ODD)


def without(records: RecordDict, rng: Rng) -> None:
    """Something is missing."""
    name = pick(rng, records)
    if rng.random() < 0.5 and len(records[name]):
        del records[name][pick(rng, records[name])]
    else:
        del records[name]


def another(records: RecordDict, rng: Rng) -> None:
    """A record of another kind, or one too many."""
    odd = [ConfigRecord({"a": 1}), MetricRecord({"a": 1}), ArrayRecord({"a": torch.ones(1)})]
    names = [*records, "weights.other", "weights.", LONG, "\x1b[1m"]
    records[pick(rng, names)] = pick(rng, odd)


def settings(records: RecordDict, rng: Rng) -> None:
    """Bytes of the run's config."""
    text = mutated(str(records["task"]["experiment"]).encode(), rng)
    records["task"]["experiment"] = text.decode(errors="replace")


def arrays(records: RecordDict, rng: Rng) -> None:
    """Bytes of a model: its headers, its numbers, its length."""
    header = pick(rng, HEADERS)
    change = pick(rng, [lambda data: mutated(data, rng), lambda data: header + data])
    with_array(records, rng, change)


def entries(records: RecordDict, rng: Rng) -> None:
    """Arrays as Flower's own, of any shape and type that they say."""
    models = [name for name in records if name.startswith("weights.")]
    if models:
        kind, shape = pick(rng, ["float32", "object", "", LONG]), pick(rng, [(), (-1,), (10**9,)])
        records[pick(rng, models)] = ArrayRecord({"a": Array(kind, shape, "numpy.ndarray", b"1")})


WAYS: list[Callable[[RecordDict, Rng], None]] = [
    *(odd_value, without, another, settings, arrays, entries)
]


@pytest.mark.parametrize("count", [120, pytest.param(4000, marks=pytest.mark.full)])
def test_no_message_brings_a_site_down(
    messages: dict[str, Message],
    count: int,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    rng, refused = np.random.default_rng(count), 0
    for number in range(count):
        message = as_sent(messages[pick(rng, sorted(messages))])
        way = pick(rng, WAYS)
        way(message.content, rng)
        said = answer(message, tmp_path / "run")
        log = capfd.readouterr().err
        # What is read well may still be no work that the method knows: that is contained too.
        working = "in make_visit" in log or "in make_assessment" in log
        assert working or not said.startswith("failed ("), (number, way.__name__, said, log)
        assert len(said) <= 2000
        assert said.isprintable()
        refused += bool(said)
    assert refused > count / 2
    assert answer(as_sent(messages["hello"]), tmp_path / "run") == ""
