"""Sites that fail, answer badly, go away, come back or join later."""

import math

import pytest

pytest.importorskip("flwr")

from flwr.app import ConfigRecord, Error, Message, MetricRecord
from tests.flower.trial import lines, run_config, served, trial_grid

from feddiv.core.errors import TooFew
from feddiv.flower.records import model_record, read_message

pytestmark = pytest.mark.slow

BAD = 69  # the node of client 1


def meddled(change, *, kind="train"):
    """A reply of the bad node to messages of this kind, changed."""

    def meddle(node, message, reply):
        if node != BAD or message.content["task"]["kind"] != kind:
            return reply
        return change(message, reply)

    return meddle


def no_answer(message, reply):
    return None


def wrong_round(message, reply):
    reply.content["answer"]["round"] = int(reply.content["answer"]["round"]) - 1
    return reply


def wrong_run(message, reply):
    reply.content["answer"]["run"] = "0" * 32
    return reply


def wrong_client(message, reply):
    reply.content["answer"]["client"] = 0
    return reply


def not_finite(message, reply):
    state = read_message(reply.content, "train").weights["net"]
    name = next(iter(state))
    state[name] = state[name] * math.nan
    reply.content["weights.net"] = model_record(state)
    return reply


def other_shape(message, reply):
    state = read_message(reply.content, "train").weights["net"]
    name = next(iter(state))
    state[name] = state[name][:1]
    reply.content["weights.net"] = model_record(state)
    return reply


def no_weights(message, reply):
    del reply.content["weights.net"]
    return reply


def out_of_bounds(message, reply):
    reply.content["payload"]["softmax"] = [1e9] * 10
    return reply


def undeclared(message, reply):
    reply.content["payload"]["secret"] = [1.0]
    reply.content["payload"]["secret:shape"] = "1"
    return reply


def bad_shape(message, reply):
    reply.content["payload"]["softmax:shape"] = "-1xhuge"
    return reply


def infinite_metric(message, reply):
    reply.content["metrics"] = MetricRecord({"divergence": math.inf})
    return reply


def more_samples(message, reply):
    reply.content["answer"]["samples"] = 10**6
    return reply


def another_kind_of_record(message, reply):
    reply.content["weights.net"] = ConfigRecord({"net": "weights"})
    return reply


def nothing_in_it(message, reply):
    return Message(type(reply.content)(), reply_to=message)


BAD_REPLIES = {
    no_answer: "did not answer",
    wrong_round: "answers for round",
    wrong_run: "answers for run",
    wrong_client: "answers for client",
    not_finite: "not finite",
    other_shape: "has shape",
    no_weights: "holds the models",
    out_of_bounds: "outside",
    undeclared: "not declared",
    bad_shape: "no array of shape",
    infinite_metric: "not finite",
    more_samples: "said",
    another_kind_of_record: "holds no arrays",
    nothing_in_it: "is missing",
}


@pytest.fixture(scope="module")
def without_client_1(tmp_path_factory):
    """The model of a run in whose filtered rounds client 1 says nothing."""
    config = run_config(tmp_path_factory.mktemp("silent") / "run", federation__round_timeout=0.3)
    grid = trial_grid(config)
    grid.meddle = meddled(no_answer)
    return served(grid, config).summary["model_hash"]


@pytest.mark.parametrize("change", BAD_REPLIES, ids=lambda change: change.__name__)
def test_a_bad_reply_is_recorded_and_left_out(change, without_client_1, tmp_path):
    timeout = {"federation__round_timeout": 0.3} if change is no_answer else {}
    config = run_config(tmp_path / "bad", **timeout)
    grid = trial_grid(config)
    grid.meddle = meddled(change)
    bad = served(grid, config)
    visits = lines(tmp_path / "bad" / "clients.jsonl")
    reasons = [
        str(line.get("missing", line.get("refused")))
        for line in visits
        if line.get("client") == 1
        and line["kind"] == "train"
        and ("missing" in line or "refused" in line)
    ]
    assert len(reasons) == 2  # of two filtered rounds
    assert all(BAD_REPLIES[change] in reason for reason in reasons)
    rounds = lines(tmp_path / "bad" / "rounds.jsonl")
    assert [line["missing"] for line in rounds] == [[], [1], [1]]
    assert bad.summary["model_hash"] == without_client_1


def test_a_site_that_raises_is_named_with_its_reason(tmp_path, monkeypatch):
    config = run_config(tmp_path / "run")
    grid = trial_grid(config)
    app, calls = grid.app, []

    def fails(message, context):
        calls.append(context.node_id)
        if context.node_id == BAD and len(calls) > 8:
            raise RuntimeError("disk on fire")
        return app(message, context)

    grid.app = fails
    served(grid, config)
    visits = lines(tmp_path / "run" / "clients.jsonl")
    assert any("RuntimeError: disk on fire" in str(line.get("missing")) for line in visits)


def test_an_answer_that_comes_twice_counts_once(tmp_path):
    config = run_config(tmp_path / "twice")
    grid = trial_grid(config)
    pull = grid.pull_messages
    grid.pull_messages = lambda ids: [m for reply in pull(ids) for m in (reply, reply)]
    once = run_config(tmp_path / "once")
    expected = served(trial_grid(once), once).summary["model_hash"]
    assert served(grid, config).summary["model_hash"] == expected


def test_a_round_in_which_too_few_answered_is_repeated(tmp_path):
    config = run_config(tmp_path / "run", federation__quorum=1.0, federation__round_timeout=0.3)
    grid = trial_grid(config)
    failures = []

    def fails_once(message, reply):
        failures.append(message)
        return None if len(failures) == 1 else reply

    grid.meddle = meddled(fails_once)
    run = served(grid, config)
    assert [line["missing"] for line in run.rounds] == [[]] * 3
    notes = [line for line in lines(tmp_path / "run" / "clients.jsonl") if "repeated" in line]
    assert [(note["turn"], note["repeated"], note["missing"]) for note in notes] == [(2, 1, [1])]


def test_what_sites_learnt_in_a_round_that_is_repeated_is_forgotten(tmp_path):
    """The bits are those of a run in which the failed attempt drew the same and went well."""
    config = run_config(tmp_path / "run", federation__quorum=1.0, federation__round_timeout=0.3)
    grid = trial_grid(config)
    starts = []

    def fails_in_round_3(message, reply):
        task = message.content["task"]
        starts.append((int(task["round"]), str(task["part"]), str(task["start"])))
        return None if (task["round"], task["part"]) == (3, "") else reply

    grid.meddle = meddled(fails_in_round_3)
    served(grid, config)
    third = [start for round, _, start in starts if round == 3]
    assert len(third) == 2
    assert third[0] == third[1]  # the second attempt starts where the first one did


def test_a_run_in_which_nobody_answers_ends_with_an_error(tmp_path):
    config = run_config(tmp_path / "run", federation__round_timeout=0.2, federation__attempts=2)
    grid = trial_grid(config)
    grid.meddle = lambda node, message, reply: (
        reply if message.content["task"]["kind"] == "hello" else None
    )
    with pytest.raises(TooFew, match="2 times in a row"):
        served(grid, config)
    assert not (tmp_path / "run" / "summary.json").exists()
    assert lines(tmp_path / "run" / "clients.jsonl")
    assert not (tmp_path / "run" / "rounds.jsonl").exists()  # no round counts as trained


@pytest.mark.parametrize(("sites", "said"), [(1, "1 site\n"), (4, "4 sites\n")])
def test_how_many_sites_are_waited_for(sites, said, tmp_path, capfd):
    config = run_config(tmp_path / "run", federation__sites=sites, federation__wait=0.1)
    with pytest.raises(TooFew):
        served(trial_grid(config, clients=0), config)
    assert f"waiting for {said}" in "".join(capfd.readouterr())


def test_waiting_for_sites_has_a_limit_and_a_message(tmp_path):
    config = run_config(tmp_path / "run", federation__wait=0.2)
    with pytest.raises(TooFew, match=r"2 of 3 sites are there after federation.wait=0.2 seconds"):
        served(trial_grid(config, clients=2), config)
    assert not (tmp_path / "run" / "summary.json").exists()


def test_a_site_that_goes_away_and_comes_back_takes_part_again(tmp_path):
    config = run_config(tmp_path / "run", rounds=6, federation__round_timeout=0.3)
    grid = trial_grid(config)
    away = grid.nodes[BAD]

    def meddle(node, message, reply):
        round = int(message.content["task"]["round"])
        if round == 3:
            grid.nodes.pop(BAD, None)
        if round == 4:
            grid.nodes[99] = away  # the same site by another node
        return reply

    grid.meddle = meddle
    run = served(grid, config)
    missing = [line["missing"] for line in run.rounds]
    assert [1] in missing
    assert missing[-1] == []
    assert any(node == 99 and kind == "train" for node, kind in grid.log)


def test_a_site_may_join_later(tmp_path):
    config = run_config(tmp_path / "run", federation__sites=2, rounds=6)
    grid = trial_grid(config, clients=2)

    def meddle(node, message, reply):
        if int(message.content["task"]["round"]) == 3:
            grid.nodes[50] = {"partition-id": 2}
        return reply

    grid.meddle = meddle
    run = served(grid, config)
    assert any(node == 50 and kind == "train" for node, kind in grid.log)
    assert run.rounds[-1]["visits"] == 3
    assert run.summary["assessed_clients"] == 3


@pytest.mark.parametrize("method", ["fedcorr", "arfl_auto", "fedrn", "feddiv-paper", "rofl"])
def test_every_method_takes_in_sites_that_join_later(method, tmp_path):
    config = run_config(tmp_path / "run", federation__sites=2, rounds=6, method__name=method)
    grid = trial_grid(config, clients=2)

    def meddle(node, message, reply):
        if int(message.content["task"]["round"]) == 1:
            grid.nodes[50] = {"partition-id": 2}
        return reply

    grid.meddle = meddle
    served(grid, config)
    assert any(node == 50 and kind not in ("hello", "assess") for node, kind in grid.log)


def test_two_nodes_for_one_client_are_one_too_many(tmp_path):
    config = run_config(tmp_path / "run", federation__wait=0.3)
    grid = trial_grid(config, clients=2)
    grid.nodes[80] = {"partition-id": 0}
    with pytest.raises(TooFew, match=r"2 of 3 sites .* another node acts for client 0 already"):
        served(grid, config)


def test_a_run_that_ended_for_want_of_sites_goes_on_when_they_are_back(tmp_path):
    settings = {"federation__quorum": 1.0, "federation__round_timeout": 0.2}
    config = run_config(tmp_path / "run", **settings, federation__attempts=2)
    grid = trial_grid(config)
    grid.meddle = meddled(no_answer)
    with pytest.raises(TooFew):
        served(grid, config)
    again = {**config, "resume": True}
    with pytest.raises(TooFew):  # not yet
        served_away(again)
    run = served(trial_grid(again), again)
    assert [line["missing"] for line in run.rounds] == [[]] * 3
    assert run.summary["assessed_clients"] == 3


def served_away(config):
    """The same with client 1 still silent."""
    grid = trial_grid(config)
    grid.meddle = meddled(no_answer)
    return served(grid, config)


@pytest.mark.parametrize("place", [3.0, -1.0, 0.5, math.nan, math.inf])
def test_a_place_that_is_not_in_the_draw_is_refused(tmp_path, place):
    config = run_config(tmp_path / "run", federation__wait=0.01)
    grid = trial_grid(config)
    grid.meddle = meddled(lambda message, reply: claimed(reply, place), kind="hello")
    with pytest.raises(TooFew, match=r"says that its place in the draw is .*; there are 3"):
        served(grid, config)


def claimed(reply, place):
    reply.content["metrics"]["place"] = place
    return reply


def test_a_straggler_does_not_cost_the_answers_of_others(tmp_path, capsys):
    config = run_config(tmp_path / "run", federation__round_timeout=0.3)
    grid = trial_grid(config)
    first = 70  # client 0, who comes first in every plan of all clients
    lifetimes = []

    def hangs(node, message, reply):
        lifetimes.append(message.metadata.ttl)
        return None if node == first and message.content["task"]["kind"] == "train" else reply

    grid.meddle = hangs
    run = served(grid, config)
    assert [line["missing"] for line in run.rounds] == [[], [0], [0]]
    assert "feddiv: round 2 (train), did not answer: client 0\n" in capsys.readouterr().out
    # A reply expires with its message, which has to outlive the wait.
    assert min(lifetimes) > 2 * 0.3


def test_a_site_that_joined_before_a_stop_takes_part_after_it(tmp_path):
    settings = {"federation__sites": 2, "rounds": 6, "checkpoint__seconds": 1000.0}
    config = run_config(tmp_path / "run", **settings)
    grid = trial_grid(config, clients=2)

    def meddle(node, message, reply):
        if int(message.content["task"]["round"]) == 2:
            grid.nodes[50] = {"partition-id": 2}
        if int(message.content["task"]["round"]) == 4:
            raise KeyboardInterrupt
        return reply

    grid.meddle = meddle
    with pytest.raises(KeyboardInterrupt):
        served(grid, config)
    again = {**config, "resume": True}
    run = served(trial_grid(again), again)
    assert run.rounds[-1]["visits"] == 3


def test_a_site_back_under_another_node_is_met_while_a_round_waits(tmp_path):
    settings = {"federation__quorum": 1.0, "federation__round_timeout": 0.3, "rounds": 5}
    config = run_config(tmp_path / "run", **settings)
    grid = trial_grid(config)
    away = grid.nodes[BAD]

    def meddle(node, message, reply):
        task = message.content["task"]
        if int(task["round"]) == 3 and not task["part"] and BAD in grid.nodes:
            del grid.nodes[BAD]
            grid.nodes[99] = away
            return None if node == BAD else reply
        return reply

    grid.meddle = meddle
    run = served(grid, config)
    assert [line["missing"] for line in run.rounds] == [[]] * 5
    assert any(node == 99 and kind == "train" for node, kind in grid.log)


def test_a_time_out_at_hello_is_no_refusal_for_good(tmp_path):
    config = run_config(tmp_path / "run")
    grid = trial_grid(config)
    hellos = []

    def slow(node, message, reply):
        if node == BAD and message.content["task"]["kind"] == "hello":
            hellos.append(node)
            if len(hellos) == 1:
                return Message(Error(5, "unavailable"), reply_to=message)
        return reply

    grid.meddle = slow
    assert served(grid, config).summary["assessed_clients"] == 3
