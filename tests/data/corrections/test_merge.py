"""Two reviewers' files become one, with a κ that can be worked out by hand."""

import threading
from dataclasses import replace

import pytest
from sklearn.metrics import cohen_kappa_score

from feddiv.core.errors import UserError
from feddiv.core.files import write_bytes
from feddiv.data.corrections import (
    Decision,
    DecisionKind,
    Review,
    agreements,
    append,
    merge_files,
    read,
)

from .rows import decided


def _rows(reviewer, labels):
    return [
        Decision(
            f"{number}.png",
            "x",
            DecisionKind.CONFIRM
            if label == "x"
            else DecisionKind.CORRECT
            if label
            else DecisionKind.CANNOT_TELL,
            label,
            reviewer,
            f"2026-01-01T00:00:{number:02d}Z",
        )
        for number, label in enumerate(labels)
    ]


def test_kappa_is_agreement_beyond_chance():
    # Ten samples, eight alike; x and y five times each with both: chance makes half of them alike.
    one, other = list("xxxxxyyyyy"), list("xxxxyxyyyy")
    [found] = agreements(_rows("ann", one) + _rows("bob", other))
    assert found.reviewers == ("ann", "bob")
    assert (found.samples, found.same) == (10, 8)
    assert found.kappa == pytest.approx((0.8 - 0.5) / (1 - 0.5))


def test_kappa_is_that_of_scikit_learn_with_several_labels_and_cannot_tell():
    one, other = ["x", "y", "z", "", "x", "z", "z"], ["x", "z", "z", "", "y", "z", "", "x", "x"]
    [found] = agreements(_rows("ann", one) + _rows("bob", other))
    assert found.samples == 7
    assert found.kappa == pytest.approx(cohen_kappa_score(one, other[:7]))


def test_kappa_is_not_made_up_where_it_is_not_defined():
    [found] = agreements(_rows("ann", "xx") + _rows("bob", "xx"))
    assert (found.same, found.kappa) == (2, None)
    [found] = agreements([*_rows("ann", "x"), decided("a.png", "confirm", reviewer="bob")])
    assert (found.samples, found.kappa) == (0, None)


def test_of_a_crowd_those_who_judged_most_are_compared():
    rows = [row for number in range(80) for row in _rows(str(number), "x" * (1 + number // 40))]
    found = agreements(rows)
    assert len(found) == 50 * 49 // 2
    names = {name for each in found for name in each.reviewers}
    assert names == {*map(str, range(40, 80)), *map(str, range(10))}


def test_files_are_merged_and_settled_and_merged_again(tmp_path):
    ann, bob, out = (tmp_path / name for name in ("ann.csv", "bob.csv", "corrections.csv"))
    append(ann, [decided("a.png", "confirm"), decided("b.png", "correct", "cat", second=4)])
    append(bob, [decided("a.png", "correct", "dog", reviewer="bob", second=2)])
    found = merge_files([ann, bob], out)
    assert read(out).decisions == found.decisions
    assert [each.time[17:19] for each in found.decisions] == ["00", "02", "04"]
    review = Review.of(found.decisions)
    assert [each.sample for each in review.conflicts] == ["a.png"]
    assert review.labels == {"b.png": "cat"}
    settled = decided("a.png", "settle", "dog", reviewer="ann", second=9)
    append(out, [settled])
    append(bob, [decided("c.png", "confirm", reviewer="bob", second=8)])
    again = merge_files([ann, bob], out)
    assert len(again.decisions) == 5
    assert Review.of(again.decisions).labels == {"a.png": "dog", "b.png": "cat", "c.png": "cat"}
    assert agreements(again.decisions)[0].samples == 1, "what they said before it was settled"


def test_files_of_different_data_are_not_merged(tmp_path):
    one, other, out = (tmp_path / name for name in ("one.csv", "other.csv", "out.csv"))
    append(one, [decided("a.png", "confirm")])
    row = decided("a.png", "skip", reviewer="bob")
    append(other, [Decision("a.png", "dog", row.decision, "", "bob", row.time)])
    with pytest.raises(UserError, match="are of different data"):
        merge_files([one, other], out)
    assert not out.exists()


def test_one_name_in_two_files_is_said(tmp_path):
    one, other, out = (tmp_path / name for name in ("one.csv", "other.csv", "out.csv"))
    append(one, [decided("a.png", "confirm"), decided("b.png", "confirm", second=1)])
    append(other, [decided("a.png", "correct", "dog", second=2), decided("b.png", "confirm")])
    found = merge_files([one, other], out)
    assert found.notes == (
        f"{one}, {other}: 'ann' is taken for one reviewer, whose later decision counts "
        "(different labels: 1); if they are several people, change the column reviewer and merge "
        "into a new file",
    )
    assert Review.of(found.decisions).labels == {"a.png": "dog", "b.png": "dog"}
    assert len(found.decisions) == 4, "nothing is lost: the file still has what was said before"
    later = tmp_path / "later.csv"
    later.write_bytes(one.read_bytes())
    append(later, [decided("c.png", "confirm", second=9)])
    assert merge_files([one, later], tmp_path / "new.csv").notes == (), "one file, and its copy"


def _adding(out, started):
    started.set()
    append(out, [decided("c.png", "confirm", reviewer="eve", second=30)])


@pytest.mark.parametrize("there", [True, False])
def test_a_decision_that_is_added_while_files_are_merged_is_kept(tmp_path, monkeypatch, there):
    ann, out = tmp_path / "ann.csv", tmp_path / "corrections.csv"
    append(ann, [decided("a.png", "confirm")])
    if there:
        append(out, [decided("b.png", "confirm", reviewer="bob", second=1)])
    started = threading.Event()
    eve = threading.Thread(target=_adding, args=(out, started))

    def replaced(path, content):  # all is read, nothing is written yet
        eve.start()
        started.wait()
        eve.join(0.3)
        write_bytes(path, content)

    monkeypatch.setattr("feddiv.data.corrections.merge.write_bytes", replaced)
    merge_files([ann], out)
    eve.join()
    expected = ["a.png", "b.png", "c.png"] if there else ["a.png", "c.png"]
    assert [each.sample for each in read(out).decisions] == expected
    assert sorted(each.name for each in tmp_path.iterdir()) == ["ann.csv", "corrections.csv"]


def test_a_settlement_that_is_undone_takes_nothing_else_back():
    rows = [
        decided("a.png", "confirm"),
        decided("a.png", "correct", "dog", reviewer="bob", second=1),
        decided("b.png", "confirm", second=2),
        decided("b.png", "confirm", reviewer="bob", second=3),
        decided("a.png", "settle", "dog", second=4),
        decided("a.png", "undo", second=5),
    ]
    [before], [after] = agreements(rows[:4]), agreements(rows)
    assert (after.samples, after.same) == (2, 1)
    assert after == before
    carol = decided("a.png", "settle", "dog", reviewer="carol", second=6)
    undone = decided("a.png", "undo", reviewer="carol", second=7)
    assert agreements([*rows, carol]) == agreements([*rows, carol, undone]) == [before]
    redone = decided("a.png", "redo", second=8)
    assert agreements([*rows, redone]) == [before]


def test_a_time_in_whole_seconds_comes_before_the_fractions_after_it(tmp_path):
    """By hand people write no microseconds."""
    first = decided("a.png", "correct", "dog", "ann", 1)
    first = replace(first, time="2026-01-02T03:00:01Z")
    later = replace(decided("a.png", "confirm", reviewer="ann"), time="2026-01-02T03:00:01.5Z")
    append(tmp_path / "one.csv", [later])
    append(tmp_path / "other.csv", [first])
    found = merge_files([tmp_path / "one.csv", tmp_path / "other.csv"], tmp_path / "all.csv")
    assert found.decisions == (first, later)
    assert Review.of(found.decisions).labels == {"a.png": "cat"}


def test_the_same_decision_twice_within_a_second_is_twice_there(tmp_path):
    """Confirmed, undone and confirmed again: the last one counts, also in a merge."""
    confirmed = Decision("a.png", "x", DecisionKind.CONFIRM, "x", "anna", "2026-01-01T00:00:00Z")
    undone = replace(confirmed, decision=DecisionKind.UNDO, label="")
    mine, copy, other = (tmp_path / f"{name}.csv" for name in ("mine", "copy", "other"))
    for file in (mine, copy):
        append(file, [confirmed, undone, confirmed])
    append(other, [replace(confirmed, sample="b.png", reviewer="ben")])
    rows = merge_files([mine, copy, other], tmp_path / "out.csv").decisions
    assert [row.decision.value for row in rows if row.reviewer == "anna"] == [
        "confirm",
        "undo",
        "confirm",
    ]
    assert set(Review.of(rows).own["anna"]) == {"a.png"}
