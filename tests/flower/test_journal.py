"""What a server writes down and says of sites that fall away, and which round it calls the best."""

import pytest

pytest.importorskip("flwr")

from tests.flower.own_data import sites_grid
from tests.flower.trial import lines, served

from feddiv.core.errors import TooFew
from feddiv.core.files import load_tensors, tensors_hash
from feddiv.flower.records import model_record, read_message
from feddiv.runs.evaluate import comparable


@pytest.mark.slow
def test_what_is_refused_is_told_by_name(deployment, capsys):
    grid, config = sites_grid(deployment)

    def broken(node, message, reply):
        task = message.content["task"]
        if node == 6 and task["kind"] == "train" and int(task["round"]) == 3:
            state = read_message(reply.content, "train").weights["net"]
            reply.content["weights.net"] = model_record({k: v / 0 for k, v in state.items()})
        return reply

    grid.meddle = broken
    run = served(grid, config)
    assert run.rounds[2]["missing"] == [1]
    out = capsys.readouterr().out
    assert "feddiv: b: refused: " in out
    assert "feddiv: round 3 (train), did not answer: b\n" in out
    told = [line["refused"] for line in lines(run.folder / "clients.jsonl") if "refused" in line]
    assert [each.split(":")[0] for each in told] == ["b"]


@pytest.mark.slow
def test_a_round_that_a_site_did_not_measure_is_not_the_best(deployment):
    grid, config = sites_grid(deployment, **{"evaluation-every": 1})
    asked = {2: 6, 3: 5}  # in round 2 site b is silent, in round 3 site a

    def silent(node, message, reply):
        task = message.content["task"]
        examined = str(task["kind"]).startswith("examin")
        return None if examined and asked.get(int(task["round"])) == node else reply

    grid.meddle = silent
    config["federation-round-timeout"] = 0.5
    run = served(grid, config)
    counts = [line["held_out_samples"] for line in run.rounds]
    assert counts[0] == counts[3] == counts[1] + counts[2]
    whole = {line["round"]: line["held_out_accuracy"] for line in (run.rounds[0], run.rounds[3])}
    assert run.summary["best_held_out_accuracy"] == max(whole.values())
    assert run.summary["best_round"] in whole
    last = run.summary["best_round"] == 4
    best, final = (load_tensors(run.folder / f"{n}.safetensors")[0] for n in ("best", "model"))
    assert (tensors_hash(best) == tensors_hash(final)) == last


def test_rounds_that_can_be_compared():
    def line(accuracy, samples):
        return {"held_out_accuracy": accuracy, "held_out_samples": samples}

    rounds = [line(0.9, 10), line(0.5, 30), line(None, None), line(0.7, 20), line(0.6, 30)]
    assert comparable(rounds, "held_out_accuracy") == [line(0.5, 30), line(0.6, 30)]
    central = [{"test_accuracy": 0.3}, {"test_accuracy": None}]
    assert comparable(central, "test_accuracy") == central[:1]


@pytest.mark.slow
def test_a_run_to_which_nobody_came_leaves_its_folder_free(deployment):
    grid, config = sites_grid(deployment, names=("a",))
    with pytest.raises(TooFew):
        served(grid, config)
    assert not (deployment / "run").exists()
    grid, config = sites_grid(deployment)
    assert len(served(grid, config).rounds) == 4
