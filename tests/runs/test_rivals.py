"""Which methods of `against` are run, and with which options."""

from pathlib import Path

import feddiv
from feddiv.runs.start_and_resume import Watcher, rivals_of

TINY = {
    "rounds": 2,
    "warmup.iterations": 0,
    "data.images": 60,
    "clients.count": 2,
    "train.epochs": 1,
}


class Notes(Watcher):
    def __init__(self) -> None:
        self.lines: list[str] = []

    def note(self, line: str) -> None:
        self.lines.append(line)


def test_the_runs_own_variant_is_the_run_itself_whatever_its_options(tmp_path: Path) -> None:
    notes = Notes()
    settings = {**TINY, "method.filter.drop_below": 0.15, "against": ["feddiv"]}
    run = feddiv.run("quickstart", settings, out=tmp_path / "run", workers=0, watcher=notes)
    assert run.against == {}
    assert not (tmp_path / "run" / "against").exists()
    assert notes.lines == [
        "against: 'feddiv' is the run itself, with method.filter.drop_below=0.15; it is run once"
    ]


def test_another_variant_of_the_same_method_is_a_rival_without_the_runs_options() -> None:
    settings = ["method.filter.drop_below=0.15", "against=feddiv-plus,feddiv-paper,fedavg"]
    rivals = rivals_of(feddiv.load_experiment("quickstart", settings))
    assert list(rivals) == ["feddiv-paper", "fedavg"]
    plain = feddiv.load_experiment("quickstart", ["method.name=feddiv-paper"])
    assert rivals["feddiv-paper"].method == plain.method


def test_a_rival_that_was_begun_by_an_earlier_version_goes_on(tmp_path: Path) -> None:
    settings = ["method.filter.drop_below=0.15", "against=feddiv"]
    experiment = feddiv.load_experiment("quickstart", settings)
    assert rivals_of(experiment, tmp_path) == {}
    (tmp_path / "feddiv").mkdir()
    (tmp_path / "feddiv" / "config.toml").write_text("")
    plain = feddiv.load_experiment("quickstart")
    assert rivals_of(experiment, tmp_path)["feddiv"].method == plain.method
