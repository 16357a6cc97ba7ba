"""What a site remembers of a run: late, repeated and lost visits."""

import pytest

pytest.importorskip("flwr")

from tests.flower.own_data import sites_grid
from tests.flower.trial import lines, served

from feddiv.flower.site import SiteMemory

pytestmark = pytest.mark.slow


def test_a_late_visit_does_not_forget_what_came_after_it(tmp_path):
    memory = SiteMemory(tmp_path, type(None))
    first, late, newer, newest = (f"00000{n}-0000-0" for n in (1, 2, 3, 4))
    record = memory.records.write(None, "visit")
    memory.write(first, record, "", ())
    memory.write(newer, record, first, (first,))
    memory.write(late, record, first, (first,))
    assert memory.read(newer) == record
    memory.write(newest, record, newer, (newer,))
    assert sorted(file.stem for file in tmp_path.glob("*.memory")) == [newer, newest]


def test_a_repeated_message_gives_the_same_reply(deployment):
    grid, config = sites_grid(deployment)
    kept = []
    grid.meddle = lambda node, message, reply: kept.append((node, message, reply)) or reply
    served(grid, config)
    from flwr.app import Context, RecordDict

    node, message, reply = kept[-3]  # the last visits are the assessment
    context = Context(
        run_id=1, node_id=node, node_config=grid.nodes[node], state=RecordDict(), run_config=config
    )
    again = grid.app(message, context)
    assert again.content == reply.content


def test_a_site_forgets_what_the_server_will_not_come_back_to(deployment):
    grid, config = sites_grid(deployment)
    served(grid, config)
    versions = list((deployment / "a" / "state" / "runs").glob("*/*/*.memory"))
    assert 1 <= len(versions) <= 5


def test_a_lost_state_is_named(deployment):
    grid, config = sites_grid(deployment)

    def lose(node, message, reply):
        if node == 5 and int(message.content["task"]["round"]) == 3:
            for file in (deployment / "a" / "state" / "runs").glob("*/*/*.memory"):
                file.unlink()
        return reply

    grid.meddle = lose
    served(grid, config)
    told = [str(line.get("missing")) for line in lines(deployment / "run" / "clients.jsonl")]
    assert any("the memory that the server wants to start from is gone" in text for text in told)
