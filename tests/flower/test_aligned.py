"""Updates that are turned round, over Flower: who is left out, and that nothing else changes."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("flwr")

from flwr.app import Message
from tests.flower.grids import LocalGrid
from tests.flower.trial import lines, run_config, served, trial_grid

from feddiv.core.files import load_tensors
from feddiv.flower.records import model_record, read_message
from feddiv.runs.checkpoint import FOLDER

pytestmark = pytest.mark.slow

LIAR = 1
NODE = 70 - LIAR
SETTINGS: dict[str, Any] = {
    "robust__weights": "aligned",
    "robust__clip": 1000.0,  # no update is cut by what others sent
    "clients__count": 4,
    "federation__sites": 4,
    "federation__round_timeout": 0.3,
    "data__images": 400,
    "noise__name": "none",  # honest updates agree from the first round on
}


def turned_round(message: Message, reply: Message) -> Message:
    """The reply with every update the other way round."""
    task = str(message.content["task"]["kind"])
    sent = read_message(message.content, task).weights
    trained = read_message(reply.content, task).weights
    for name, net in trained.items():
        turned = {
            key: 2 * sent[name][key] - value if value.is_floating_point() else value
            for key, value in net.items()
        }
        reply.content[f"weights.{name}"] = model_record(turned)
    return reply


def sends_models(message: Message, reply: Message) -> bool:
    """Whether this is a visit in which a model is trained."""
    return any(name.startswith("weights.") for name in reply.content)


def lying(config: Mapping[str, Any], clients: int = 4) -> LocalGrid:
    grid = trial_grid(config, clients)
    grid.meddle = lambda node, message, reply: (
        turned_round(message, reply) if node == NODE and sends_models(message, reply) else reply
    )
    return grid


def silent(config: Mapping[str, Any], clients: int = 4) -> LocalGrid:
    grid = trial_grid(config, clients)
    grid.meddle = lambda node, message, reply: (
        None if node == NODE and sends_models(message, reply) else reply
    )
    return grid


def left_out(folder: Path) -> list[tuple[int, int]]:
    return [
        (line["turn"], line["client"])
        for line in lines(folder / "clients.jsonl")
        if "left_out" in line
    ]


@pytest.mark.parametrize("method", ["fedavg", "dividemix"])
def test_a_liar_that_is_left_out_is_as_good_as_silent(method: str, tmp_path: Path) -> None:
    # DivideMix trains two nets on one another's division: both updates count in its direction.
    settings = {**SETTINGS, "method__name": method}
    config = run_config(tmp_path / "lied", **settings)
    lied = served(lying(config), config)
    assert left_out(tmp_path / "lied") == [(turn, LIAR) for turn in (1, 2, 3)]
    config = run_config(tmp_path / "silent", **settings)
    assert served(silent(config), config).summary["model_hash"] == lied.summary["model_hash"]
    config = run_config(tmp_path / "mean", **{**settings, "robust__weights": "mean"})
    assert served(lying(config), config).summary["model_hash"] != lied.summary["model_hash"]


def test_a_site_that_joins_later_is_compared_with_those_that_are_known(tmp_path: Path) -> None:
    settings = {**SETTINGS, "method__name": "fedavg", "rounds": 6, "federation__sites": 3}
    config = run_config(tmp_path / "run", **settings)
    grid = lying(config, clients=4)
    joins = grid.nodes.pop(NODE)
    lie = grid.meddle

    def meddle(node: int, message: Message, reply: Message) -> Message | None:
        if int(message.content["task"]["round"]) == 3:
            grid.nodes[NODE] = joins
        return lie(node, message, reply)

    grid.meddle = meddle
    run = served(grid, config)
    turns = [turn for turn, client in left_out(tmp_path / "run") if client == LIAR]
    assert turns
    assert turns == list(range(turns[0], 7))  # from its first visit to the end
    assert [client for _, client in left_out(tmp_path / "run")] == [LIAR] * len(turns)
    assert run.rounds[-1]["visits"] == 4


def test_an_attempt_that_is_given_up_says_nothing_of_directions(tmp_path: Path) -> None:
    settings = {**SETTINGS, "method__name": "fedavg", "federation__quorum": 1.0}

    def run(name: str, turned: int) -> tuple[str, list[list[float]]]:
        """One client says nothing in the second round, and another turns its update round there."""
        config = run_config(tmp_path / name, **settings)
        grid = trial_grid(config, 4)

        def meddle(node: int, message: Message, reply: Message) -> Message | None:
            task = message.content["task"]
            if task["round"] == 2 and task["part"] == "" and sends_models(message, reply):
                return {70: None, turned: turned_round(message, reply)}.get(node, reply)
            return reply

        grid.meddle = meddle
        ended = served(grid, config)
        (given_up,) = [line for line in lines(ended.folder / "clients.jsonl") if "repeated" in line]
        assert (given_up["turn"], given_up["missing"]) == (2, [0])
        newest = max((ended.folder / FOLDER).glob("*.safetensors"))
        (cosines,) = [
            tensor.tolist()
            for key, tensor in load_tensors(newest)[0].items()
            if key.startswith("directions") and tensor.ndim == 2
        ]
        return ended.summary["model_hash"], cosines

    one, other = run("one", turned=NODE), run("other", turned=NODE - 1)
    assert len(one[1]) == 4
    assert one == other


def test_a_secret_sum_goes_on_with_the_statistics_of_who_was_left_out(tmp_path: Path) -> None:
    settings = {
        **SETTINGS,
        "privacy__filter": "sum_only",
        "method__warmup__mode": "average",
        "method__weigh_by_trust": "never",
    }
    config = run_config(tmp_path / "secret", **settings)
    secret = served(lying(config), config)
    assert {client for _, client in left_out(tmp_path / "secret")} == {LIAR}
    # Its model does not count, its histogram does: the filter is that of everybody's sum.
    config = run_config(tmp_path / "open", **{**settings, "privacy__filter": "none"})
    plain = served(lying(config), config)
    assert secret.rounds[-1]["mixture"] == pytest.approx(plain.rounds[-1]["mixture"], abs=1e-6)


def test_who_says_nothing_when_introduced_has_no_say_until_it_is(tmp_path: Path) -> None:
    settings = {**SETTINGS, "warmup__iterations": 3, "rounds": 5, "robust__introductions": 2}
    config = run_config(tmp_path / "run", **settings)
    grid = trial_grid(config, 4)

    def meddle(node: int, message: Message, reply: Message) -> Message | None:
        task = message.content["task"]
        unknown = node == NODE and task["part"] == "introduction/" and task["round"] == 1
        return None if unknown else reply

    grid.meddle = meddle
    run = served(grid, config)
    journal = lines(tmp_path / "run" / "clients.jsonl")
    missing = [(x["turn"], x["client"], x["introduction"]) for x in journal if "missing" in x]
    assert missing == [(1, LIAR, True)]
    assert left_out(tmp_path / "run") == [(1, LIAR), (2, LIAR)]  # it is introduced in the third
    assert "compared" in next(x["left_out"] for x in journal if "left_out" in x)
    assert len([x for x in journal if "introduced" in x]) == 3 + 4
    assert all(line["missing"] == [] for line in run.rounds)
