"""What is decided is on the disk, can be undone, and is in step with the file."""

import pytest
from tests.review.sites import audited

from feddiv.core.errors import UserError
from feddiv.data.corrections import Decision, DecisionKind, Review, Subject, append, now, read
from feddiv.review.decisions import Decisions
from feddiv.review.opening import reviewable


@pytest.fixture
def labels(tmp_path):
    """Twelve labels, cat, dog, eel in turn; the first six are doubted for the next class."""
    [site] = reviewable(audited(tmp_path / "site", [f"{row}.png" for row in range(12)]))
    return site.open()


@pytest.fixture
def anna(labels):
    return Decisions(labels, "anna")


def rows(decisions):
    return [(each.sample, each.decision, each.label) for each in read(decisions.path).decisions]


def states(decisions):
    return decisions.news()["states"]


def test_every_choice_is_a_row(anna):
    anna.decide([0], "confirm")
    anna.decide([1], "suggested")
    anna.decide([2], "label", 1)
    anna.decide([3], "cannot_tell")
    anna.decide([4], "skip")
    anna.decide([5], "label", 2)  # the given label, set by hand
    assert rows(anna) == [
        ("0.png", DecisionKind.CONFIRM, "cat"),
        ("1.png", DecisionKind.CORRECT, "eel"),
        ("2.png", DecisionKind.CORRECT, "dog"),
        ("3.png", DecisionKind.CANNOT_TELL, ""),
        ("4.png", DecisionKind.SKIP, ""),
        ("5.png", DecisionKind.CONFIRM, "eel"),
    ]
    assert states(anna) == {
        0: ("confirm", 0),
        1: ("correct", 2),
        2: ("correct", 1),
        3: ("cannot_tell", -1),
        4: ("skip", -1),
        5: ("confirm", 2),
    }


def test_a_decision_that_changes_nothing_is_no_row(anna):
    anna.decide([0], "confirm")
    anna.decide([0], "confirm")
    anna.decide([0], "skip")  # moving on takes nothing back
    assert len(rows(anna)) == 1


def test_undo_and_redo_outlive_a_restart(anna, labels):
    anna.decide([0, 1, 2], "suggested")
    anna.decide([1], "confirm")
    again = Decisions(labels, "anna")
    assert again.news()["undo"] == {"count": 1, "place": 1, "actions": 2}
    again.undo()
    assert states(again)[1] == ("correct", 2)
    again = Decisions(labels, "anna")
    again.undo()
    assert states(again) == {0: None, 1: None, 2: None}
    assert again.news()["undo"] is None
    again = Decisions(labels, "anna")
    again.redo()
    again.redo()
    assert states(again) == {0: ("correct", 1), 1: ("confirm", 1), 2: ("correct", 0)}
    assert again.news()["redo"] is None
    again.undo()
    again.decide([7], "confirm")  # what was undone is gone then
    assert Decisions(labels, "anna").news()["redo"] is None
    assert Review.of(read(again.path).decisions).labels["1.png"] == "eel"


def test_undo_of_nothing_is_nothing(anna):
    anna.undo()
    anna.redo()
    assert not anna.path.exists()


def test_news_are_what_others_did_since(anna, labels):
    other = Decisions(labels, "anna")  # another process on the same file
    anna.decide([0], "confirm")
    first = other.news()
    assert first["states"] == {0: ("confirm", 0)}
    anna.decide([1], "confirm")
    other.decide([2], "confirm")
    seen = anna.news()
    assert set(seen["states"]) == {0, 1, 2}
    assert anna.news(seen["version"], seen["epoch"])["states"] == {}
    anna.decide([3], "confirm")
    news = anna.news(seen["version"], seen["epoch"])
    assert (news["whole"], set(news["states"])) == (False, {3})
    assert anna.news(99, seen["epoch"])["whole"]
    assert len(rows(anna)) == 4


def test_conflicts_are_settled_in_the_same_file(anna, labels):
    for who, label in (("anna", "dog"), ("ben", "eel")):
        append(anna.path, [Decision("0.png", "cat", DecisionKind.CORRECT, label, who, now())])
    assert states(anna) == {0: ("conflict", -1)}
    assert anna.said(0) == [("anna", "correct", "dog"), ("ben", "correct", "eel")]
    anna.decide([0], "skip")
    assert states(anna) == {0: ("conflict", -1)}
    anna.decide([0], "label", 2)
    assert states(anna) == {0: ("settle", 2)}
    assert Review.of(read(anna.path).decisions).labels == {"0.png": "eel"}
    anna.decide([0], "confirm")  # on second thoughts
    assert Review.of(read(anna.path).decisions).labels == {"0.png": "cat"}
    anna.undo()
    anna.undo()
    assert states(anna) == {0: ("conflict", -1)}


def test_a_second_reviewer_agrees_or_disagrees(anna, labels):
    anna.decide([0, 1], "suggested")
    ben = Decisions(labels, "ben")
    ben.decide([0], "suggested")
    ben.decide([1], "confirm")
    assert len(rows(ben)) == 4
    assert states(ben) == {0: ("correct", 1), 1: ("conflict", -1)}
    assert ben.news()["undo"]["count"] == 1
    ben.undo()
    ben.undo()
    ben.undo()  # anna's are hers
    assert states(ben) == {0: ("correct", 1), 1: ("correct", 2)}


def test_a_half_written_last_line_costs_nothing_else(anna, labels):
    anna.decide([0], "confirm")
    anna.decide([1], "confirm")
    whole = anna.path.read_bytes()
    anna.path.write_bytes(whole + b"2.png,eel,corr")
    again = Decisions(labels, "anna")
    assert set(states(again)) == {0, 1}
    [note] = again.notes
    assert "corrections.csv: its last line is written by half" in note
    again.decide([3], "confirm")
    assert again.notes == ()
    assert [row[0] for row in rows(again)] == ["0.png", "1.png", "3.png"]


@pytest.mark.parametrize(
    ("row", "said"),
    [
        ("other.png,cat,confirm,cat,anna,2026-01-01T00:00:00Z", "no such sample"),
        ("0.png,dog,confirm,dog,anna,2026-01-01T00:00:00Z", "other data"),
        ("0.png,cat,correct,cow,anna,2026-01-01T00:00:00Z", "no class"),
    ],
)
def test_a_file_for_other_data_is_refused_and_kept(labels, row, said):
    content = f"sample,given_label,decision,label,reviewer,time\n{row}\n"
    labels.corrections.write_text(content)
    with pytest.raises(UserError, match=said):
        Decisions(labels, "anna")
    assert labels.corrections.read_text() == content


def test_what_cannot_be_written_is_not_shown_as_decided(anna):
    anna.path.mkdir()
    with pytest.raises(UserError, match="corrections"):
        anna.decide([0], "confirm")
    anna.path.rmdir()
    assert states(anna) == {}
    anna.decide([0], "confirm")
    assert states(anna) == {0: ("confirm", 0)}


def test_what_a_corrected_run_lists_is_reviewed_again(tmp_path):
    """A run that used the decisions writes the list anew, with the labels that they made."""
    names = [f"{row}.png" for row in range(12)]
    folder = audited(tmp_path / "site", names)
    [site] = reviewable(folder)
    first = Decisions(site.open(), "anna")
    first.decide([0], "suggested")  # cat to dog
    given = [row % 3 for row in range(12)]
    given[0] = 1
    audited(folder, names, given=given)
    [site] = reviewable(folder)
    second = Decisions(site.open(), "anna")
    assert states(second) == {0: ("correct", 1)}
    second.decide([0], "label", 2)
    second.undo()
    assert Decisions(site.open(), "anna").news()["states"] == {0: ("correct", 1)}
    second.redo()
    in_data = Subject.of(names, ["cat", "dog", "eel"] * 4, ("cat", "dog", "eel"))
    assert Review.of(read(second.path, in_data).decisions).labels == {"0.png": "eel"}


def test_a_label_that_no_decision_made_is_of_other_data(tmp_path):
    names = [f"{row}.png" for row in range(12)]
    folder = audited(tmp_path / "site", names)
    [site] = reviewable(folder)
    Decisions(site.open(), "anna").decide([0], "suggested")  # cat to dog
    audited(folder, names, given=[2] + [row % 3 for row in range(1, 12)])
    [site] = reviewable(folder)
    with pytest.raises(UserError, match="has label 'eel' in the data and 'cat' here"):
        Decisions(site.open(), "anna")


@pytest.mark.parametrize(
    ("newest", "then"),
    [
        ("2999-12-31T23:59:59.999999Z", "3000-01-01T00:00:00.00000"),
        ("2999-12-31T23:59:59Z", "2999-12-31T23:59:59.00000"),
        ("2999-12-31T23:59:59.5Z", "2999-12-31T23:59:59.50000"),
    ],
)
def test_a_row_of_the_future_holds_nothing_up(labels, newest, then):
    row = Decision("0.png", "cat", DecisionKind.CONFIRM, "cat", "anna", newest)
    append(labels.corrections, [row])
    ticks = iter(range(1000))
    with pytest.MonkeyPatch.context() as patch:  # a loop that waits for that year ends here
        patch.setattr("feddiv.review.decisions.now", lambda: [now(), next(ticks)][0])
        Decisions(labels, "anna").decide([1], "confirm")
        Decisions(labels, "anna").decide([2], "confirm")
        again = Decisions(labels, "anna")
        again.undo()
    times = [each.time[:-2] for each in read(again.path).decisions[1:]]
    assert len({each.time for each in read(again.path).decisions}) == 4, "actions are apart"
    assert times == [then] * 3
    assert states(again) == {0: ("confirm", 0), 1: ("confirm", 1), 2: None}


def test_a_row_at_the_end_of_the_calendar_is_said(labels):
    last = "9999-12-31T23:59:59.999999Z"
    append(labels.corrections, [Decision("0.png", "cat", DecisionKind.SKIP, "", "anna", last)])
    with pytest.raises(UserError, match="no time is later than that of its newest row"):
        Decisions(labels, "anna").decide([1], "confirm")
