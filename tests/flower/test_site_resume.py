"""Servers that stop and go on, with the sites and the data that they had."""

import pytest

pytest.importorskip("flwr")

from tests.flower.own_data import site_folder, sites_grid
from tests.flower.trial import local, run_config, served, trial_grid

from feddiv.core.errors import TooFew, UserError

pytestmark = pytest.mark.slow


class Crash(BaseException):
    """The server is gone."""


@pytest.mark.parametrize("stop", [3, 6, 8, 11])
def test_a_server_that_stops_goes_on_bit_for_bit(deployment, stop):
    grid, config = sites_grid(deployment)
    whole = served(grid, config).summary["model_hash"]
    grid, config = sites_grid(deployment, out=str(deployment / "stopped"))
    stopped_after(grid, stop)
    with pytest.raises(Crash):
        served(grid, config)
    grid, config = sites_grid(deployment, ("b", "a"), out=str(deployment / "stopped"), resume=True)
    run = served(grid, config)  # other nodes, the same keys
    assert run.summary["model_hash"] == whole
    assert len(run.rounds) == 4


def test_a_finished_run_goes_on_with_more_rounds(tmp_path):
    config = run_config(tmp_path / "run")
    served(trial_grid(config), config)
    longer = {"out": str(tmp_path / "run"), "resume": True, "rounds": 5}
    there = served(trial_grid(longer), longer).summary
    assert there["rounds"] == 5
    assert there["model_hash"] == local(tmp_path / "here", rounds=5).summary["model_hash"]


def stopped_after(grid, answers):
    """The server is gone after so many answers."""
    seen = []

    def crash(node, message, reply):
        seen.append(reply)
        if len(seen) == answers:
            raise Crash
        return reply

    grid.meddle = crash


def test_the_checkpoint_before_the_last_can_be_used_after_a_resume_too(deployment):
    grid, config = sites_grid(deployment)
    whole = served(grid, config).summary["model_hash"]
    keys = {"out": str(deployment / "stopped")}
    for answers, resume in ((14, False), (4, True)):
        grid, config = sites_grid(deployment, resume=resume, **keys)
        stopped_after(grid, answers)
        with pytest.raises(Crash):
            served(grid, config)
    *_, newest = sorted((deployment / "stopped" / "checkpoint").glob("*.safetensors"))
    newest.write_bytes(newest.read_bytes()[:-9])
    grid, config = sites_grid(deployment, resume=True, **keys)
    assert served(grid, config).summary["model_hash"] == whole


def test_a_run_goes_on_only_with_sites_that_it_knows(deployment):
    site_folder(deployment / "c" / "images", range(110, 150))
    grid, config = sites_grid(deployment)
    stopped_after(grid, 6)
    with pytest.raises(Crash):
        served(grid, config)
    grid, config = sites_grid(deployment, ("c", "d"), resume=True)
    del grid.nodes[6]
    with pytest.raises(TooFew, match="0 of 1 sites are there"):
        served(grid, config)


def test_a_run_goes_on_as_it_was_begun_but_for_its_patience(deployment):
    grid, config = sites_grid(deployment, rounds=5)
    stopped_after(grid, 9)
    with pytest.raises(Crash):
        served(grid, config)
    grid, config = sites_grid(deployment, resume=True)  # with an experiment.toml of 4 rounds
    with pytest.raises(UserError, match=r"^rounds=4: the run in .* was begun with 5"):
        served(grid, config)
    patience = {"federation-wait": 0.7, "federation-attempts": 5, "checkpoint-seconds": 3.0}
    for given in ({**patience, "rounds": 5}, patience, {"rounds": 6}):
        grid, config = sites_grid(deployment, resume=True, config="", **given)
        # The second time it is finished, and the third time it gets another round.
        assert len(served(grid, config).rounds) == given.get("rounds", 5)


def test_a_site_that_changed_its_data_is_refused(deployment):
    grid, config = sites_grid(deployment)

    def crash(node, message, reply):
        if int(message.content["task"]["round"]) == 3:
            raise Crash
        return reply

    grid.meddle = crash
    with pytest.raises(Crash):
        served(grid, config)
    next((deployment / "b" / "images" / "one").iterdir()).unlink()
    grid, config = sites_grid(deployment, resume=True)
    run = served(grid, config)
    assert [1] in [line["missing"] for line in run.rounds]
