"""Where updates point, over several exchanges."""

import numpy as np

from feddiv.config.sections import RobustOptions
from feddiv.defence.defence import Defence
from feddiv.defence.directions import Directions, coherence

SIZES = dict.fromkeys(range(10), 10)


def exchange(directions: Directions, sides: dict[int, int], cosine: float = 0.2) -> Directions:
    """One with clients that are honest (1) or turned round (-1)."""
    signs = np.array(list(sides.values()))
    own = (1 - cosine) * np.eye(len(signs))
    return directions.met(list(sides), cosine * np.outer(signs, signs) + own)


def opposed(directions: Directions) -> set[int]:
    found = directions.agreements(SIZES, Defence())
    return {client for client, agreement in found.items() if agreement < 0}


def test_who_is_turned_round_is_found_also_where_liars_were_most() -> None:
    first = exchange(Directions(), {0: -1, 1: -1, 2: -1, 3: 1, 4: 1})
    assert opposed(first) == {3, 4}  # three of five: nobody can know
    second = exchange(first, {0: -1, 5: 1, 6: 1, 7: 1, 3: 1})
    assert opposed(second) == {0, 1, 2}
    third = exchange(second, {0: -1, 1: -1, 2: -1, 8: 1, 9: 1})
    assert opposed(third) == {0, 1, 2}


def test_one_step_against_the_others_is_forgiven() -> None:
    good = exchange(Directions(), dict.fromkeys(range(5), 1))
    once = exchange(good, {0: -1, 1: 1, 2: 1, 3: 1, 4: 1})
    assert opposed(once) == set()  # .8 of .2, less .2 of .2
    turned = once
    for _ in range(3):
        turned = exchange(turned, {0: -1, 1: 1, 2: 1, 3: 1, 4: 1})
    assert opposed(turned) == {0}


def test_what_is_said_when_updates_cancel_each_other_counts_for_little() -> None:
    sides = {0: -1, 1: 1, 2: 1, 3: 1, 4: 1}
    early = exchange(Directions(), sides, cosine=0.4)
    late = early
    for _ in range(6):  # honest updates sum to nothing: a liar's agrees with all of them
        late = exchange(late, sides, cosine=-0.25 / 3)
    assert opposed(late) == opposed(early) == {0}


def test_coherence_is_the_cosine_that_all_share() -> None:
    signs = np.array([1, 1, -1, 1])
    for cosine in (0.0, 0.3, 1.0):
        cosines = cosine * np.outer(signs, signs) + (1 - cosine) * np.eye(4)
        assert abs(coherence(cosines) - cosine) < 1e-12
    assert coherence(np.ones((1, 1))) == 0.0


def test_a_client_that_says_it_is_huge_is_no_majority() -> None:
    sides = exchange(Directions(), {0: -1, 1: 1, 2: 1, 3: 1, 4: 1, 5: 1})
    found = sides.agreements({**SIZES, 0: 10**9}, Defence())
    assert [client for client, agreement in found.items() if agreement < 0] == [0]


def test_only_who_disagrees_as_clearly_as_the_others_agree_is_turned_round() -> None:
    # Of five, the fourth is against the others by .05 and the fifth by .2, as they agree with it.
    cosines = np.full((5, 5), 0.2)
    cosines[3, :], cosines[:, 3] = -0.05, -0.05
    cosines[4, :], cosines[:, 4] = -0.2, -0.2
    np.fill_diagonal(cosines, 1)
    found = Directions().met(range(5), cosines)
    sizes, defence = dict.fromkeys(range(5), 10), Defence(RobustOptions(opposed="turned_back"))
    assert found.opposed(sizes, defence).keys() == {3, 4}
    assert found.turned_round(sizes, defence) == {4}
    assert found.useless(sizes, defence) == {3}  # only of this one the model does not count
    assert found.useless(sizes, Defence()) == {3, 4}
    two = Directions().met([0, 1], -np.ones((2, 2)))
    assert two.turned_round(sizes, defence) == set()


def test_of_nobody_nothing_is_known() -> None:
    assert Directions().agreements({}, Defence()) == {}
    assert Directions().strangers([1]) == []
    known = Directions().met([0, 1, 2], np.full((3, 3), 0.9))
    assert known.strangers([1, 4]) == [4]
