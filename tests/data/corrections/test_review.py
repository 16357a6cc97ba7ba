"""What rows come to: the last decision counts, undo takes back, conflicts are found and settled."""

from feddiv.data.corrections import Review

from .rows import decided


def test_the_last_decision_counts_and_undo_takes_it_back():
    rows = [
        decided("a.png", "confirm"),
        decided("a.png", "correct", "dog", second=1),
        decided("b.png", "skip", second=2),
    ]
    assert Review.of(rows).labels == {"a.png": "dog"}
    rows.append(decided("a.png", "undo", second=3))
    assert Review.of(rows).current == {"a.png": rows[0], "b.png": rows[2]}
    assert Review.of(rows).undone == {"ann": {"a.png": rows[1]}}
    rows.append(decided("a.png", "undo", second=4))
    rows.append(decided("a.png", "undo", second=5))  # nothing is left to undo
    assert Review.of(rows).labels == {}
    rows.append(decided("a.png", "redo", second=6))
    assert Review.of(rows).labels == {"a.png": "cat"}
    rows.append(decided("a.png", "redo", second=7))
    assert Review.of(rows).labels == {"a.png": "dog"}
    rows += [decided("a.png", "undo"), decided("a.png", "cannot_tell"), decided("a.png", "redo")]
    assert Review.of(rows).current["a.png"].decision == "cannot_tell", "a decision ends redo"


def test_an_undo_is_of_its_own_reviewer():
    rows = [decided("a.png", "confirm"), decided("a.png", "undo", reviewer="bob")]
    assert Review.of(rows).labels == {"a.png": "cat"}


def test_conflicts_are_listed_and_a_settling_decision_ends_them():
    rows = [
        decided("a.png", "confirm"),
        decided("a.png", "correct", "dog", reviewer="bob", second=1),
        decided("b.png", "cannot_tell", second=2),
        decided("b.png", "correct", "cat", reviewer="bob", second=3),
    ]
    review = Review.of(rows)
    [conflict] = review.conflicts
    assert conflict.sample == "a.png"
    assert conflict.decisions == {"ann": rows[0], "bob": rows[1]}
    assert review.labels == {"b.png": "cat"}, "who cannot tell contradicts nobody"
    settled = decided("a.png", "settle", "dog", reviewer="eve", second=4)
    review = Review.of([*rows, settled])
    assert review.conflicts == []
    assert review.labels == {"a.png": "dog", "b.png": "cat"}
    review = Review.of([*rows, settled, decided("a.png", "undo", reviewer="eve", second=5)])
    assert len(review.conflicts) == 1
    nobody = Review.of([*rows, decided("a.png", "settle", second=6)])
    assert nobody.conflicts == []
    assert nobody.labels == {"b.png": "cat"}


def test_who_comes_round_settles_it_too():
    rows = [
        decided("a.png", "confirm"),
        decided("a.png", "correct", "dog", reviewer="bob", second=1),
        decided("a.png", "correct", "dog", second=2),
    ]
    assert Review.of(rows).conflicts == []
    assert Review.of(rows).labels == {"a.png": "dog"}
