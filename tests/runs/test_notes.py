"""Notes on a run reach whoever calls from Python, as warnings, unless they watch it."""

import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.data.pictures import Listener

import feddiv

QUICK = {"rounds": 1, "model.name": "mlp", "method.name": "fedavg", "against": []}


def sites(count: int = 2) -> list[tuple[np.ndarray, np.ndarray]]:
    labels = np.arange(10) % 2
    rng = np.random.default_rng(0)
    return [(rng.normal(labels[:, None], 0.1, (10, 3)), labels) for _ in range(count)]


def said(found: pytest.WarningsRecorder) -> list[str]:
    """The notes; each points at the line of this file that called."""
    notes = [each for each in found if issubclass(each.category, feddiv.Note)]
    assert {each.filename for each in notes} <= {__file__}
    return [str(each.message) for each in notes]


def test_notes_are_warnings_at_the_callers_line(tmp_path: Path) -> None:
    with pytest.warns(feddiv.Note) as found:
        feddiv.run(
            {}, {**QUICK, "clients.fraction": 0.5}, clients=sites(), out=tmp_path / "a", workers=0
        )
    notes = said(found)
    assert notes[0].startswith("clients.fraction=0.5 of 2 clients is one in a round")
    assert notes[1].startswith("no test samples: clients keep some of theirs out")
    assert len(notes) == 2

    rows = [f"{row % 2},{'north' if row < 10 else 'south'},{row % 2}.5" for row in range(40)]
    (tmp_path / "t.csv").write_text("\n".join(["label,client,a", *rows]) + "\n")
    table = {"data.source": "table", "data.path": str(tmp_path / "t.csv"), "partition.name": "iid"}
    with pytest.warns(feddiv.Note) as found:
        feddiv.run(
            {"data": {"source": "npz", "subset": 0.5, "augment": {"pad": 1}}},
            {**QUICK, **table},
            out=tmp_path / "b",
            workers=0,
        )
    notes = said(found)
    not_theirs = "partition.name=iid: clients are NOT the 2 that the data name (north, south)"
    assert [note for note in notes if note.startswith(not_theirs)]
    assert notes[-1].startswith("data.source=table leaves out data.subset=0.5, data.augment.pad=1,")


def test_an_experiment_whose_partition_is_not_used(tmp_path: Path) -> None:
    experiment = feddiv.load_experiment({}, {**QUICK, "partition.name": "iid"})
    with pytest.warns(feddiv.Note, match=r"^partition\.name=iid is left out: clients are those of"):
        run = feddiv.run(experiment, clients=sites(), test=sites()[0], out=tmp_path, workers=0)
    assert run.experiment.partition.name == "natural"


def test_whoever_watches_is_told_and_not_warned(tmp_path: Path) -> None:
    class Notes(feddiv.Watcher, Listener):
        """Both."""

    notes = Notes()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        feddiv.run({}, QUICK, clients=sites(), out=tmp_path, workers=0, watcher=notes)
    assert notes.said("no test samples")


def test_a_note_that_is_made_an_error_leaves_nothing(tmp_path: Path) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error", feddiv.Note)
        with pytest.raises(feddiv.Note, match="no test samples"):
            feddiv.run({}, QUICK, clients=sites(), out=tmp_path / "run", workers=0)
    assert not (tmp_path / "run").exists()


def test_a_checkpoint_that_is_passed_over(tmp_path: Path) -> None:
    class Stop(feddiv.Watcher):
        def round(self, line: dict[str, Any]) -> None:
            if line["turn"] == 3:
                raise KeyboardInterrupt

    settings = {**QUICK, "rounds": 4, "checkpoint.seconds": 0, "data.images": 100}
    with pytest.raises(KeyboardInterrupt):
        feddiv.run({}, settings, out=tmp_path / "run", workers=0, watcher=Stop())
    newest = max((tmp_path / "run" / "checkpoint").iterdir())
    newest.write_bytes(b"")
    with pytest.warns(feddiv.Note) as found:
        feddiv.resume(tmp_path / "run", workers=0)
    assert newest.name in said(found)[0]
