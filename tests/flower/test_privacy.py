"""Private filters at sites: the steps over a Grid, what sites keep, and what they refuse."""

import copy
import re
import stat
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("flwr")

from flwr.app import Context, Message, RecordDict
from tests.flower.trial import lines, local, run_config, served, trial_grid

from feddiv.core.errors import TooFew, UserError
from feddiv.flower.clientapp import site_of
from feddiv.flower.site_privacy import Needed, site_secret
from feddiv.privacy.options import PrivacyOptions

pytestmark = pytest.mark.slow

SUM: dict[str, Any] = {"privacy__filter": "sum_only"}
SIX: dict[str, Any] = {"clients__count": 6, "data__images": 180, "federation__quorum": 0.6}


def test_sites_have_the_same_bits_as_this_machine(tmp_path: Path) -> None:
    config = run_config(tmp_path / "flower", **SUM)
    grid = trial_grid(config)
    there, here = served(grid, config), local(tmp_path / "local", **SUM)
    assert there.summary["model_hash"] == here.summary["model_hash"]
    assert there.summary["privacy"] == here.summary["privacy"]
    # Counts of flagged labels would tell how noisy each site is: none are sent.
    assert there.summary["flagged"] is None
    assert (tmp_path / "flower" / "sites" / "0" / "labels.csv").is_file()
    kinds = [kind for _, kind in grid.log if kind not in ("hello", "assess", "warmup")]
    # Of each exchange four messages to each of three sites.
    steps = ["privacy keys", "privacy letters", "bias", "privacy shares"]
    assert kinds[:12] == [kind for kind in steps for _ in range(3)]


def gone(nodes: set[int], kind: str):
    def meddle(node: int, message: Message, reply: Message) -> Message | None:
        lost = node in nodes and message.content["task"]["kind"] == kind
        return None if lost else reply

    return meddle


def test_two_sites_that_drop_out_in_every_round(tmp_path: Path) -> None:
    hashes = []
    for name, more in (("sum", SUM), ("plain", {"method__weigh_by_trust": "never"})):
        config = run_config(tmp_path / name, **SIX, **more, federation__round_timeout=0.1)
        grid = trial_grid(config, clients=6)
        grid.meddle = gone({69, 66}, "train")  # clients 1 and 4
        run = served(grid, config)
        assert sorted(set(run.rounds[-1]["missing"])) == [1, 4]
        hashes.append(run.summary["model_hash"])
    # The same models; the filter behind them is the same but for rounding below 1e-12.
    assert hashes[0] == hashes[1]


def test_a_sum_that_fails_is_tried_again_with_new_masks(tmp_path: Path) -> None:
    config = run_config(tmp_path / "run", **SIX, **SUM, federation__round_timeout=0.1)
    grid, times = trial_grid(config, clients=6), []

    def meddle(node: int, message: Message, reply: Message) -> Message | None:
        if message.content["task"]["kind"] != "privacy shares":
            return reply
        times.append(node)
        return reply if len(times) > 6 else None  # the first time nobody helps

    grid.meddle = meddle
    run = served(grid, config)
    noted = lines(run.folder / "clients.jsonl")
    failed = [line for line in noted if "no_sum" in line]
    assert [line["no_sum"] for line in failed] == ["0 of 4 clients helped to take the masks off"]
    assert sum("repeated" in line for line in noted) == 1
    assert run.summary["model_hash"]


def test_too_few_stay_again_and_again(tmp_path: Path) -> None:
    config = run_config(tmp_path / "run", **SUM, federation__round_timeout=0.1)
    grid = trial_grid(config)
    grid.meddle = gone({69}, "bias")  # of three sites all have to stay
    with pytest.raises(TooFew, match="too few sites answered"):
        served(grid, config)


def test_a_site_answers_one_question_about_an_exchange(tmp_path: Path) -> None:
    config = run_config(tmp_path / "run", **SUM)
    grid = trial_grid(config)
    asked: dict[str, Message] = {}

    def look(node: int, message: Message, reply: Message) -> Message:
        if node == 70:
            asked.setdefault(str(message.content["task"]["kind"]), copy.deepcopy(message))
        return reply

    grid.meddle = look
    served(grid, config)

    def ask(message: Message) -> RecordDict:
        context = Context(1, 70, {"partition-id": 0}, RecordDict(), dict(config))
        return grid.app(message, context).content

    def again(kind: str, name: str = "", entry: Any = None) -> str:
        message = copy.deepcopy(asked[kind])
        if name:
            message.content["payload"][name] = entry
        answer = ask(message)
        return str(answer["problem"]["text"]) if "problem" in answer else ""

    # The same message again has the same answer.
    first = ask(copy.deepcopy(asked["privacy shares"]))["payload"]
    assert first == ask(copy.deepcopy(asked["privacy shares"]))["payload"]
    # Who stayed is another story: with both the server could take off somebody's masks.
    assert "once more, and otherwise" in again(
        "privacy shares", "privacy.survivors", [1.0, 1.0, 0.0]
    )
    # Another model under the same masks, or other peers.
    assert "once more, and otherwise" in again("bias", "eta", [0.25])
    clients = [float(client) for client in (0, 1, 3)]
    assert "once more, and otherwise" in again("privacy letters", "privacy.clients", clients)
    assert again("bias") == ""


@pytest.mark.parametrize(("word", "measured"), [(0.5, True), (7.0, False)])
def test_one_site_does_not_end_a_run_by_its_held_out_counts(
    tmp_path: Path, word: float, measured: bool
) -> None:
    """What is no word is refused; a word that spoils the sum costs the measures, not the run."""
    held_out = {"evaluation__name": "held_out", "evaluation__every": 2, "rounds": 2}
    config = run_config(tmp_path / "run", clients__count=4, **SUM, **held_out)
    grid = trial_grid(config, clients=4)

    def spoil(node: int, message: Message, reply: Message) -> Message:
        if node == 69 and message.content["task"]["kind"] == "examine":
            words = list(reply.content["payload"]["right"])
            reply.content["payload"]["right"] = [word, *words[1:]]
        return reply

    grid.meddle = spoil
    run = served(grid, config)
    assert (run.rounds[-1]["held_out_accuracy"] is not None) == measured
    noted = lines(run.folder / "clients.jsonl")
    assert any("refused" in line for line in noted) == measured
    assert sum("no_sum" in line for line in noted) == (0 if measured else 3)
    assert run.summary["model_hash"]


@pytest.mark.parametrize(
    ("more", "says"),
    [
        ({}, "of 3 sites would be too large for a secure sum"),
        ({"federation__largest_site": 30}, r"at most 30 are allowed \(federation.largest_site\)"),
    ],
)
def test_a_site_that_says_it_is_huge_does_not_end_the_run(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], more: dict[str, Any], says: str
) -> None:
    draw = {"clients__count": 4, "data__images": 120, "rounds": 2, "federation__sites": 3}
    config = run_config(tmp_path / "run", **SUM, **draw, **more)
    grid = trial_grid(config, clients=4)

    def boast(node: int, message: Message, reply: Message) -> Message:
        if node == 67 and message.content["task"]["kind"] == "hello":
            reply.content["answer"]["samples"] = 10**9
        return reply

    grid.meddle = boast
    run = served(grid, config)
    assert run.summary["model_hash"]
    assert re.search(f"says it has 1,000,000,000 samples.*{says}", capsys.readouterr().out)


@pytest.mark.parametrize("filter", ["sum_only", "dp"])
def test_a_finished_run_goes_on_with_more_rounds(tmp_path: Path, filter: str) -> None:
    config = run_config(tmp_path / "run", rounds=2, privacy__filter=filter)
    served(trial_grid(config), config)
    longer = {"out": str(tmp_path / "run"), "resume": True, "rounds": 3}
    run = served(trial_grid(longer), longer)
    assert run.summary["rounds"] == 3
    assert not run.rounds[-1]["missing"]


def asked_again(
    tmp_path: Path, change: Callable[[Message], None], **settings: Any
) -> tuple[str, RecordDict]:
    """What a site says to its first train message, changed, right after it has answered it."""
    config = run_config(tmp_path / "run", **settings, rounds=2, federation__attempts=1)
    grid, found = trial_grid(config), []

    def ask(node: int, message: Message, reply: Message) -> Message:
        if node == 70 and message.content["task"]["kind"] == "train" and not found:
            other = copy.deepcopy(message)
            change(other)
            context = Context(1, 70, grid.nodes[70], RecordDict(), dict(config))
            found.append(grid.app(other, context).content)
        return reply

    grid.meddle = ask
    served(grid, config)
    answer = found[0]
    return str(answer["problem"]["text"]) if "problem" in answer else "", answer


def with_config(old: str, new: str) -> Callable[[Message], None]:
    def change(message: Message) -> None:
        text = str(message.content["task"]["experiment"])
        assert old in text
        message.content["task"]["experiment"] = text.replace(old, new)

    return change


def with_trust(message: Message) -> None:
    message.content["payload"]["by_trust:shape"] = ""
    message.content["payload"]["by_trust"] = [1.0]


@pytest.mark.parametrize(
    ("filter", "old", "new"),
    [
        # Under the same masks the difference of two answers is one client's doubted labels.
        ("sum_only", 'drop_below = "sure"', "drop_below = 0.5"),
        # The same noise at two scales: two equations for the total and the noise.
        ("dp", "epsilon = 8.0", "epsilon = 4.0"),
    ],
)
def test_a_second_config_gets_no_answer(tmp_path: Path, filter: str, old: str, new: str) -> None:
    problem, _ = asked_again(tmp_path, with_config(old, new), privacy__filter=filter)
    assert "as one client and under one config" in problem


def test_what_the_method_does_not_declare_is_not_asked_for(tmp_path: Path) -> None:
    # The trusted labels would come without noise.
    problem, answer = asked_again(tmp_path, with_trust, privacy__filter="dp")
    assert "payload" not in answer
    assert "by_trust" in problem


def test_a_site_has_a_secret_of_its_own(tmp_path: Path) -> None:
    first, again = site_secret(tmp_path / "a"), site_secret(tmp_path / "a")
    assert first == again != site_secret(tmp_path / "b")
    assert len(first) == 32
    assert stat.S_IMODE((tmp_path / "a" / "secret").stat().st_mode) == 0o600
    assert [file.name for file in (tmp_path / "a").iterdir()] == ["secret"]


def test_noise_is_the_sites_own_and_counted_there(tmp_path: Path) -> None:
    dp = {"privacy__filter": "dp", "privacy__uploads": 2}
    config = run_config(tmp_path / "flower", **dp)
    there, here = served(trial_grid(config), config), local(tmp_path / "local", **dp)
    assert there.summary["privacy"] == here.summary["privacy"]
    # A server knows the seed of the run, and still not the noise.
    assert there.rounds[-1]["bias"] != here.rounds[-1]["bias"]
    (kept,) = (tmp_path / "flower" / "sites" / "0" / "runs").glob("*/0/noisy-uploads")
    names = [line.split()[0] for line in kept.read_text().splitlines()]
    assert sorted(names) == ["histogram"] * 2 + ["softmax"] * 2  # of three that were asked for


def test_a_site_may_ask_for_privacy(tmp_path: Path) -> None:
    site = {"partition-id": 0, "site-path": str(tmp_path), "need-privacy": "sum_only,dp"}
    needed = site_of({**site, "largest-epsilon": 2.0}, {}).privacy
    assert needed == Needed(("sum_only", "dp"), 2.0)
    needed.check(PrivacyOptions(filter="sum_only"))
    needed.check(PrivacyOptions(filter="dp", epsilon=2.0))
    with pytest.raises(UserError, match="takes part only with sum_only or dp"):
        needed.check(PrivacyOptions())
    with pytest.raises(UserError, match=r"privacy.epsilon=8: this site allows 2 at most"):
        needed.check(PrivacyOptions(filter="dp"))
    Needed().check(PrivacyOptions())
    with pytest.raises(UserError, match="need-privacy='all'"):
        site_of({**site, "need-privacy": "all"}, {})
    with pytest.raises(UserError, match="largest-epsilon=-1"):
        site_of({**site, "largest-epsilon": -1}, {})


def test_a_run_without_privacy_is_refused_by_a_site_that_needs_it(tmp_path: Path) -> None:
    config = run_config(tmp_path / "run", federation__wait=0.1)
    grid = trial_grid(config)
    grid.nodes[70]["need-privacy"] = "sum_only"
    with pytest.raises(TooFew, match="this site takes part only with sum_only"):
        served(grid, config)
