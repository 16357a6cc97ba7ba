import json
from pathlib import Path

import numpy as np
import pytest

from feddiv.config.reading import load_experiment
from feddiv.core.errors import UserError
from feddiv.data import Draw
from feddiv.runs.run_folder import RunFolder, write_json


def test_a_folder_that_holds_a_run_is_refused(tmp_path: Path, small_draw: Draw) -> None:
    folder = RunFolder(tmp_path / "deep" / "run")
    assert not folder.path.exists(), "nothing is written before the run begins"
    folder.begin(load_experiment(), small_draw)
    with pytest.raises(UserError, match="already holds a run"):
        RunFolder(folder.path)


def test_a_file_is_refused(tmp_path: Path) -> None:
    (tmp_path / "taken").write_text("")
    with pytest.raises(UserError, match="is a file, not a folder"):
        RunFolder(tmp_path / "taken")


def test_an_empty_folder_will_do(tmp_path: Path) -> None:
    assert RunFolder(tmp_path).path == tmp_path


def test_beginning_writes_what_determines_the_run(tmp_path: Path, small_draw: Draw) -> None:
    experiment = load_experiment(None, ["seed=4", "method.variant=paper"])
    RunFolder(tmp_path).begin(experiment, small_draw)
    assert load_experiment(tmp_path / "config.toml") == experiment
    assert Draw.load(tmp_path / "draw.npz").hash == small_draw.hash
    environment = json.loads((tmp_path / "environment.json").read_text())
    assert {"python", "platform", "packages", "started"} <= environment.keys()
    assert environment["packages"]["torch"]


def test_lines_are_appended_as_json(tmp_path: Path) -> None:
    folder = RunFolder(tmp_path)
    folder.round({"round": 1, "filter": None})
    folder.round({"round": 2.5})
    folder.client({"client": 3})
    lines = (tmp_path / "rounds.jsonl").read_text().splitlines()
    assert [json.loads(line) for line in lines] == [{"round": 1, "filter": None}, {"round": 2.5}]
    assert json.loads((tmp_path / "clients.jsonl").read_text()) == {"client": 3}


def test_the_end_of_a_run(tmp_path: Path) -> None:
    RunFolder(tmp_path).finish({"best": 0.5}, {"label_quality": np.array([0.1, 0.9])})
    assert json.loads((tmp_path / "summary.json").read_text()) == {"best": 0.5}
    with np.load(tmp_path / "assessment.npz") as arrays:
        assert arrays["label_quality"].tolist() == [0.1, 0.9]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["assessment.npz", "summary.json"]


def test_write_json_replaces_the_whole_file(tmp_path: Path) -> None:
    write_json(tmp_path / "s.json", {"long": "x" * 1000})
    write_json(tmp_path / "s.json", {"a": 1})
    assert json.loads((tmp_path / "s.json").read_text()) == {"a": 1}


def test_new_folders_are_named_after_what_runs_and_never_collide(tmp_path: Path) -> None:
    first = RunFolder.new("quickstart", tmp_path)
    first.path.mkdir()
    second = RunFolder.new("quickstart", tmp_path)
    assert first.path.name.startswith("quickstart-2")
    assert second.path.parent == tmp_path
    assert second.path != first.path
