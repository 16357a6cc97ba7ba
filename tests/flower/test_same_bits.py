"""What ran on one machine runs over Flower, and gives the same bits."""

import pytest

pytest.importorskip("flwr")

from tests.flower.trial import lines, local, run_config, served, trial_grid

from feddiv.methods.registry import METHODS

pytestmark = pytest.mark.slow


@pytest.mark.parametrize("method", [*METHODS, "feddiv-paper", "feddiv-release"])
def test_every_method_gives_the_bits_of_the_local_engine(method, tmp_path):
    config = run_config(tmp_path / "grid", method__name=method)
    ours = served(trial_grid(config), config)
    theirs = local(tmp_path / "local", method__name=method)
    assert ours.summary["model_hash"] == theirs.summary["model_hash"]
    for key in ("bytes_up", "bytes_down", "last_test_accuracy", "flagged"):
        assert ours.summary[key] == theirs.summary[key]


@pytest.mark.parametrize("method", ["feddiv", "fedcorr"])
def test_a_look_at_all_updates_before_a_hand_over_leaves_the_same_bits(method, tmp_path):
    settings = {
        "method__name": method,
        "warmup__iterations": 2,
        "robust__weights": "aligned",
        "robust__introductions": 1,
    }
    if method == "feddiv":
        settings["rounds"] = 4
    config = run_config(tmp_path / "grid", **settings)
    ours = served(trial_grid(config), config)
    theirs = local(tmp_path / "local", **settings)
    journal = lines(tmp_path / "grid" / "clients.jsonl")
    introduced = [(line["turn"], line["client"]) for line in journal if "introduced" in line]
    assert introduced == [(turn, client) for turn in (1, 2) for client in range(3)]
    for key in ("model_hash", "bytes_up", "bytes_down", "last_test_accuracy"):
        assert ours.summary[key] == theirs.summary[key]


def test_a_method_of_ones_own_gives_the_bits_of_the_local_engine(tmp_path):
    method = "examples.own_method.small_loss:SmallLoss"
    config = run_config(tmp_path / "grid", method__name=f"{method}-half")
    grid = trial_grid(config)
    for node in grid.nodes.values():
        node["allow-method"] = method
    ours = served(grid, config)
    theirs = local(tmp_path / "local", method__name=f"{method}-half")
    for key in ("model_hash", "bytes_up", "bytes_down", "last_test_accuracy", "flagged"):
        assert ours.summary[key] == theirs.summary[key]


def test_counts_of_a_trial_give_the_quality_of_the_filter(tmp_path):
    config = run_config(tmp_path / "grid")
    ours = served(trial_grid(config), config).summary["filter"]
    theirs = local(tmp_path / "local").summary["filter"]
    assert ours.pop("auroc") is None  # counts cannot tell
    assert ours == {key: theirs[key] for key in ours}


def test_held_out_samples_are_the_same_and_stay_where_they_are(tmp_path):
    settings = {"evaluation__name": "held_out", "evaluation__every": 2}
    config = run_config(tmp_path / "grid", **settings)
    ours = served(trial_grid(config), config).summary
    theirs = local(tmp_path / "local", **settings).summary
    assert ours["model_hash"] == theirs["model_hash"]
    assert ours["last_held_out_accuracy"] == theirs["last_held_out_accuracy"]
    assert ours["examination_bytes_up"] == theirs["examination_bytes_up"]


def test_nothing_about_single_samples_reaches_the_server(tmp_path):
    """No list in any reply is as long as a client's samples, but for weights and the filter's."""
    config = run_config(tmp_path / "run")
    grid = trial_grid(config)
    seen = []
    grid.meddle = lambda node, message, reply: seen.append(reply) or reply
    served(grid, config)
    assert len(seen) == len(grid.log)
    names = {
        (record, key.removesuffix(":shape"))
        for reply in seen
        for record in ("payload", "metrics")
        for key in reply.content[record]
    }
    assert names == {
        ("payload", "histogram"),
        ("payload", "softmax"),
        ("payload", "tally"),
        ("payload", "likelihood"),
        ("payload", "trusted"),
        ("metrics", "divergence"),
        ("metrics", "flagged"),
        ("metrics", "wrong"),
        ("metrics", "caught"),
        ("metrics", "place"),
    }
    visits = lines(tmp_path / "run" / "clients.jsonl")
    assert visits
    assert all("filter" not in visit and "noise_level" not in visit for visit in visits)
