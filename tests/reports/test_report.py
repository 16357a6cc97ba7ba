"""`feddiv report`: pages of odd runs, names that are markup, what is refused."""

import json
import re
import time
from pathlib import Path

import pytest
from tests.cli.conftest import command, refused
from tests.reports.folders import Shape, made_run

import feddiv
from feddiv.core.errors import UserError
from feddiv.reports.record import read_runs
from feddiv.reports.report import save_report

__all__ = ["command", "refused"]
EVIL = "<script>alert('x')</script>"


def text_of(file: Path) -> str:
    """The page without tags, scripts and styles."""
    page = file.read_text("utf-8")
    page = re.sub(r"<(script|style)\b.*?</\1>", " ", page, flags=re.S)
    return re.sub(r"\s+", " ", re.sub(r"<[^>]+>", " ", page))


def data_of(file: Path) -> dict:
    """What its charts are drawn from."""
    found = re.search(r'id="data">(.*?)</script>', file.read_text("utf-8"), flags=re.S)
    assert found is not None
    return json.loads(found[1])


def test_the_page_of_a_run_and_its_rival(command, tmp_path: Path) -> None:
    made_run(tmp_path / "a", Shape(), "against=[fedavg]")
    rival = tmp_path / "a" / "against" / "fedavg"
    made_run(rival, Shape(), "method.name=fedavg", opinion=False)
    outcome = command("report", "a")
    assert (outcome.code, outcome.out) == (0, "Report     a/report.html\n")
    file = tmp_path / "a" / "report.html"
    said = text_of(file)
    assert "feddiv against fedavg on digits" in said
    assert "6 clients, 8 rounds, seed 0" in said
    data = data_of(file)
    assert [run["label"] for run in data["runs"]] == ["feddiv", "fedavg"]
    assert data["runs"][0]["series"]["test_accuracy"][-1] == 0.825
    assert data["runs"][1]["clients"] == {}
    assert file.stat().st_size < 200_000
    before = file.read_bytes()
    feddiv.report(tmp_path / "a")
    assert file.read_bytes() == before


@pytest.mark.slow
def test_several_runs_on_one_page_and_figures(command, tmp_path: Path) -> None:
    made_run(tmp_path / "a", Shape(rounds=3), "seed=1")
    made_run(tmp_path / "b", Shape(rounds=3, clients=4), "seed=2")
    outcome = command("report", "a", "b", "--figures", "figures")
    assert outcome.out.splitlines() == ["Report     report.html", "Figures    figures"]
    data = data_of(tmp_path / "report.html")
    assert [run["draw"] for run in data["runs"]] == [0, 1]
    assert [len(draw["clients"]) for draw in data["draws"]] == [6, 4]
    assert (tmp_path / "figures" / "accuracy.pdf").is_file()
    assert command("report", "a", "b", "--out", "both.html").code == 0
    assert (tmp_path / "both.html").is_file()


def test_what_is_no_run_is_refused(refused, tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    made_run(tmp_path / "a", Shape(rounds=2))
    (tmp_path / "file").write_text("x")
    assert "empty: holds no run" in refused("report", "empty")
    assert "none: there is no such folder" in refused("report", "none")
    assert "empty: holds no run" in refused("report", "a", "empty")
    assert "is a folder" in refused("report", "a", "--out", "empty")
    assert "there is no folder" in refused("report", "a", "--out", "none/a.html")
    assert "is a file, not a folder" in refused("report", "a", "--figures", "file")
    assert "Missing argument" in refused("report")


ODD = {
    "half": (Shape(), (), {"ended": False}, "The run has not ended: 8 of 8 rounds"),
    "blind": (Shape(truth=False), (), {}, "the true ones are not known"),
    "one round": (Shape(rounds=1), ("warmup.iterations=0",), {}, "1 round, seed"),
    "few rounds": (Shape(rounds=4), (), {}, ", the mean of the last 3 rounds."),
    "nothing wrong": (Shape(noisy=False), (), {}, "No label is wrong; the filter flags"),
    "no opinion": (
        Shape(),
        ("method.name=fedavg",),
        {"opinion": False},
        "No method here has an opinion on single labels",
    ),
    "one client": (Shape(clients=1), (), {}, "1 client, 8 rounds"),
    "rofl": (Shape(), ("method.name=rofl",), {"opinion": False, "ended": False}, "rofl on digits"),
}


@pytest.mark.parametrize("kind", ODD)
def test_odd_runs_have_a_page_that_says_what_is_missing(tmp_path: Path, kind: str) -> None:
    shape, settings, how, said = ODD[kind]
    file = save_report([made_run(tmp_path / "a", shape, *settings, **how)])
    assert said in text_of(file)
    data_of(file)


def test_a_run_that_has_just_begun(tmp_path: Path) -> None:
    folder = made_run(tmp_path / "a", ended=False)
    for name in ("rounds.jsonl", "clients.jsonl", "environment.json"):
        (folder / name).unlink()
    assert "No round is over yet; 8 are asked for." in text_of(save_report([folder]))


def test_a_run_whose_draw_is_at_its_sites(tmp_path: Path) -> None:
    folder = made_run(tmp_path / "a", opinion=False)
    (folder / "draw.npz").unlink()
    (folder / "assessment.npz").unlink()
    summary = json.loads((folder / "summary.json").read_text())
    (folder / "summary.json").write_text(json.dumps({**summary, "assessed_clients": 6}))
    assert "opinions on their labels stayed with them" in text_of(save_report([folder]))


def test_names_are_text_wherever_they_come_from(tmp_path: Path) -> None:
    names = (EVIL, "</title><img src=x>", "a & b", "\u202eesrever")
    shape = Shape(rounds=2, names=names, sites=(EVIL, "b", "c", "d", "e", "f"))
    folder = made_run(tmp_path / "<script>alert(1)<", shape, "description=<b>bold</b>")
    (folder / "environment.json").write_text(json.dumps({"python": EVIL}))
    with (folder / "clients.jsonl").open("a") as file:
        file.write(json.dumps({"round": EVIL, "client": 1, "refused": EVIL}) + "\n")
    config = folder / "config.toml"
    config.write_text(config.read_text().replace('name = "feddiv"', f'name = "x:{EVIL}"'))
    page = save_report([folder]).read_text("utf-8")
    assert "<script>alert" not in page
    assert "<b>bold" not in page
    assert "\u202e" not in page
    assert page.count("<script") == 4  # the page's own three, and its data
    half = made_run(tmp_path / "half", shape, ended=False)
    (half / "clients.jsonl").write_text(json.dumps({"client": 1, "refused": EVIL}) + "\n")
    assert "&lt;script&gt;alert" in save_report([half]).read_text("utf-8")


@pytest.mark.slow
def test_lines_that_are_not_what_they_should_be(tmp_path: Path) -> None:
    folder = made_run(tmp_path / "a", Shape(rounds=2))
    summary = json.loads((folder / "summary.json").read_text())
    odd = {key: {"a": [EVIL]} for key in summary if key != "rounds"}
    (folder / "summary.json").write_text(json.dumps({**summary, **odd}))
    rounds = json.loads((folder / "rounds.jsonl").read_text().splitlines()[-1])
    with (folder / "rounds.jsonl").open("a") as file:
        for value in (EVIL, [EVIL], {"low": EVIL}, -1e308, True, None, 10**30):
            file.write(json.dumps(dict.fromkeys(rounds, value)) + "\n")
    with (folder / "clients.jsonl").open("a") as file:
        for value in (EVIL, [[1, 2]], {"flagged_wrong": -1}, -3, 1e300):
            line = dict.fromkeys(("noise_level", "filter", "labels_filtered", "round"), value)
            file.write(json.dumps({"client": 1, **line}) + "\n")
    data_of(save_report([folder], figures=tmp_path / "figures"))


def test_a_link_in_the_folder_is_not_written_through(tmp_path: Path) -> None:
    folder = made_run(tmp_path / "a", Shape(rounds=2))
    precious = tmp_path / "precious"
    precious.write_text("mine")
    (folder / "report.html").symlink_to(precious)
    save_report([folder])
    assert precious.read_text() == "mine"
    assert not (folder / "report.html").is_symlink()


def test_one_folder_at_least() -> None:
    with pytest.raises(UserError, match="name the folder of a run"):
        feddiv.report()


@pytest.mark.slow
def test_a_large_run_in_time_and_size(tmp_path: Path) -> None:
    shape = Shape(clients=100, samples=500, classes=100, rounds=1000, visits=10)
    folder = made_run(tmp_path / "large", shape)
    started = time.perf_counter()
    file = save_report([folder])
    assert time.perf_counter() - started < 10
    assert file.stat().st_size < 8_000_000
    assert len(read_runs([folder])[0].rounds) == 1000
