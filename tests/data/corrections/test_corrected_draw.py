"""A draw under the labels that experts gave: what they said, and nothing else, is changed."""

from dataclasses import replace

import numpy as np
import pytest

from feddiv.config.reading import load_experiment
from feddiv.core.errors import UserError
from feddiv.data import DataWatcher, Draw
from feddiv.data.corrections import Decision, DecisionKind, append
from feddiv.data.draw.corrected import (
    correction_files,
    files_digest,
    note_changes,
    with_corrections,
)
from feddiv.runs.prepare import drawn

TIME = "2026-01-02T03:04:05Z"


@pytest.fixture(scope="module")
def digits():
    settings = {"data.images": 100, "clients.count": 4, "evaluation.name": "held_out"}
    return drawn(load_experiment("quickstart", settings))


class Told(DataWatcher):
    def __init__(self):
        self.lines = []

    def note(self, line):
        self.lines.append(line)


def row(digits, number, kind, label="", reviewer="ann", given=None):
    """A decision on training sample `number`."""
    dataset, draw = digits
    own = given or dataset.classes[draw.given[number]]
    label = own if kind == "confirm" else label
    return Decision(dataset.name_of(number), own, DecisionKind(kind), label, reviewer, TIME)


def another(digits, number, step=1):
    dataset, draw = digits
    return dataset.classes[(draw.given[number] + step) % 10]


def corrected(digits, *paths):
    dataset, draw = digits
    told = Told()
    return with_corrections(draw, dataset, paths, told), told.lines


def test_confirmed_and_corrected_labels_are_trusted_and_others_stay(digits, tmp_path):
    file, (_, draw) = tmp_path / "c.csv", digits
    held = int(draw.held_out[0][0])
    rows = [
        row(digits, 0, "confirm"),
        row(digits, 1, "correct", another(digits, 1)),
        row(digits, 2, "cannot_tell"),
        row(digits, 3, "skip"),
        row(digits, held, "correct", another(digits, held)),
    ]
    append(file, rows)
    new, lines = corrected(digits, file)
    assert set(np.flatnonzero(new.trusted)) == {0, 1, held}
    assert set(np.flatnonzero(new.given != draw.given)) == {1, held}
    assert (new.uncorrected == draw.given).all()
    assert lines == [
        "data.corrections: 1 labels confirmed and 2 corrected by experts: every method trusts them"
    ]
    new.save(tmp_path / "draw.npz")
    again = Draw.load(tmp_path / "draw.npz")
    assert again.hash == new.hash != draw.hash
    assert (again.trusted == new.trusted).all()
    assert again.corrections == new.corrections == files_digest([file])
    same, _ = corrected((digits[0], again), file)
    assert same.hash == new.hash, "from the labels before, not on top of them"


def test_a_half_written_line_and_conflicts_are_told(digits, tmp_path):
    file = tmp_path / "c.csv"
    bob = row(digits, 5, "correct", another(digits, 5), "bob")
    append(file, [row(digits, 5, "confirm"), bob, row(digits, 6, "confirm")])
    with file.open("ab") as opened:
        opened.write(b"7,3,corr")
    new, lines = corrected(digits, file)
    assert np.flatnonzero(new.trusted).tolist() == [6]
    assert "its last line is written by half and not used: '7,3,corr'" in lines[0]
    assert "reviewers disagree about 1 samples, which stay as they are" in lines[2]
    append(file, [row(digits, 5, "settle", another(digits, 5, 2), "eve")])
    new, lines = corrected(digits, file)
    assert len(lines) == 1
    assert np.flatnonzero(new.trusted).tolist() == [5, 6]
    assert digits[0].classes[new.given[5]] == another(digits, 5, 2)


def test_folders_and_later_files(digits, tmp_path):
    first, later = tmp_path / "clients" / "0000", tmp_path / "clients" / "0002"
    for folder in (first, later):
        folder.mkdir(parents=True)
    new = another(digits, 1)
    append(first / "corrections.csv", [row(digits, 1, "correct", new)])
    newer = another(digits, 1, 2)
    append(later / "corrections.csv", [row(digits, 1, "correct", newer, given=new)])
    assert [each.parent.name for each in correction_files([tmp_path])] == ["0000", "0002"]
    found, _ = corrected(digits, tmp_path)
    assert digits[0].classes[found.given[1]] == newer
    with pytest.raises(UserError, match="a corrections file for other data"):
        corrected(digits, later)


def test_labels_and_samples_of_other_data_are_refused(digits, tmp_path):
    file = tmp_path / "c.csv"
    append(file, [row(digits, 1, "correct", "eleven")])
    with pytest.raises(UserError, match=r"c\.csv, line 2: label 'eleven': is no class of the data"):
        corrected(digits, file)
    other = tmp_path / "other.csv"
    append(other, [row(digits, 1, "skip", given=another(digits, 1))])
    with pytest.raises(UserError, match=r"in the data and .* here: a corrections file for other"):
        corrected(digits, other)


def test_a_change_after_the_beginning_is_noted_and_a_loss_is_not(digits, tmp_path):
    file, told = tmp_path / "c.csv", Told()
    append(file, [row(digits, 1, "confirm")])
    draw, _ = corrected(digits, file)
    note_changes(draw, [file], told)
    assert told.lines == []
    append(file, [row(digits, 2, "confirm")])
    note_changes(draw, [file], told)
    assert len(told.lines) == 1
    assert "goes on with the labels that it was begun with" in told.lines[0]
    file.unlink()
    note_changes(draw, [file], told)
    assert len(told.lines) == 1


def test_a_damaged_draw_is_refused(digits, tmp_path):
    _, draw = digits
    short = replace(draw, trusted=np.zeros(3, np.bool_), uncorrected=draw.given)
    short.save(tmp_path / "draw.npz")
    with pytest.raises(UserError, match="'trusted' and 'uncorrected' are not of the given labels"):
        Draw.load(tmp_path / "draw.npz")
