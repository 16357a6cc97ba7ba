"""What sites and servers tell each other about failures, and how it is shown."""

import pytest

pytest.importorskip("flwr")

from flwr.app import Error
from flwr.app import Message as FlowerMessage
from tests.flower.own_data import audit, sites_grid
from tests.flower.trial import lines, served

from feddiv.core.errors import TooFew
from feddiv.flower.grid_federation import HELLO, NOBODY
from feddiv.flower.records import SiteTask, VisitAddress, message_records
from feddiv.flower.site import Site
from feddiv.flower.site_data import Part
from feddiv.methods.contract import Message

pytestmark = pytest.mark.slow


def test_another_version_is_refused_in_one_line(deployment, monkeypatch):
    monkeypatch.setattr("feddiv.flower.site.SOFTWARE", "0.0.9")
    grid, config = sites_grid(deployment)
    with pytest.raises(TooFew, match=r"has feddiv 0.0.9, the server .*: install the same"):
        served(grid, config)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"data-path": "nowhere"}, "its data cannot be used: its log says why"),
        ({"site-path": None}, "site-path"),
        ({"data-path": None}, "give data-path"),
        ({"disk": "big"}, "node config disk: is unknown; allowed: data-path"),
    ],
)
def test_a_bad_node_config_is_told_to_the_server(deployment, change, said):
    grid, config = sites_grid(deployment)
    node = grid.nodes[6]
    grid.nodes[6] = {k: v for k, v in {**node, **change}.items() if v is not None}
    with pytest.raises(TooFew, match=said):
        served(grid, config)


def test_what_is_wrong_with_a_sites_data_stays_with_it(deployment, capsys):
    table = deployment / "b" / "table.csv"
    table.write_text("image,label\nsecret-4711.png,zero\nsecret-4712.png,one\n")
    grid, config = sites_grid(deployment)
    grid.nodes[6]["data-path"] = str(table)
    with pytest.raises(TooFew, match="its data cannot be used: its log says why") as told:
        served(grid, config)
    assert "secret" not in str(told.value)
    assert "secret-4711" in capsys.readouterr().out


def test_an_unexpected_failure_is_told_by_its_kind_only(deployment, monkeypatch, capsys):
    def fails(*given, **more):
        raise RuntimeError("row 7: Jane Doe")

    monkeypatch.setattr("feddiv.flower.site.make_visit", fails)
    grid, config = sites_grid(deployment)
    with pytest.raises(TooFew):
        served(grid, config)
    journal = (deployment / "run" / "clients.jsonl").read_text()
    assert "failed (RuntimeError): its log says why" in journal
    assert "Jane" not in journal
    assert "row 7: Jane Doe" in capsys.readouterr().err


def test_classes_that_the_server_names_like_formulas_are_text_in_the_audit(deployment):
    """A spreadsheet that opens the audit runs nothing."""
    experiment = deployment / "experiment.toml"
    experiment.write_text(experiment.read_text().replace("'zero'", "'=HYPERLINK(1)'"))
    for name in ("a", "b"):
        (deployment / name / "images" / "zero").rename(
            deployment / name / "images" / "=HYPERLINK(1)"
        )
    grid, config = sites_grid(deployment)
    served(grid, config)
    rows = audit(deployment, "a")
    cells = {row[key] for row in rows for key in ("sample", "given_label", "predicted_label")}
    assert "'=HYPERLINK(1)" in cells
    assert not any(cell.startswith("=") for cell in cells)


def test_names_of_nodes_and_what_sites_say_do_nothing_to_the_log(deployment, capsys):
    grid, config = sites_grid(deployment)
    grid.names[5] = "\x1b[2Jnorth\nfeddiv: round 9 (train): fine" + "x" * 10_000
    reasons = []

    def spoil(node, message, reply):
        if node == 6 and message.content["task"]["kind"] == "train" and not reasons:
            reasons.append(node)
            forged = "no\x1b[31m\nfeddiv: finished" + "x" * 10**6
            return FlowerMessage(Error(7, forged), reply_to=message)
        return reply

    grid.meddle = spoil
    served(grid, config)
    said = capsys.readouterr().out
    assert reasons
    assert "\x1b" not in said
    assert max(map(len, said.splitlines())) < 500
    assert not any(line.startswith("feddiv: round 9") for line in said.splitlines())
    journal = lines(deployment / "run" / "clients.jsonl")
    assert max(len(str(line.get("missing", ""))) for line in journal) < 500


def test_what_a_server_names_does_nothing_to_a_sites_log(tmp_path, capsys):
    address = VisitAddress("ab" * 16, 0, 0, "", NOBODY)
    task = SiteTask(address, HELLO, "seed = 1", software="\x1b[2J9\nfeddiv: all is well" * 10**5)
    Site(tmp_path, Part(0)).answer(message_records(task, Message(HELLO)))
    said = capsys.readouterr().out
    assert "\x1b" not in said
    assert len(said.splitlines()) == 1
    assert len(said) < 2100
