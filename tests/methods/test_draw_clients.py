"""Who is asked in the place of whom."""

from feddiv.core.randomness import Streams
from feddiv.methods.draw_clients import SECOND_CHANCE, choose_clients, with_substitutes


def substituted(round: int, passed_over: set[int], count: int = 4) -> tuple[int, ...]:
    rng = Streams(0).at(round=round)
    chosen = choose_clients(range(10), count, rng)
    return with_substitutes(chosen, range(10), passed_over, rng)


def test_others_take_the_places_of_those_who_are_passed_over() -> None:
    liars = {0, 1, 2}
    for round in range(50):
        drawn = choose_clients(range(10), 4, Streams(0).at(round=round))
        asked = substituted(round, liars)
        assert len(set(asked)) == 4
        for before, after in zip(drawn, asked, strict=True):
            assert after == before or (before in liars and after not in liars)
    drawn_liars = sum(len(liars & set(substituted(round, set()))) for round in range(400))
    asked_liars = sum(len(liars & set(substituted(round, liars))) for round in range(400))
    assert 0.05 < asked_liars / drawn_liars < 0.15  # SECOND_CHANCE of them
    assert SECOND_CHANCE == 0.1


def test_nobody_passed_over_is_the_plain_draw_and_the_same_draw_comes_out_twice() -> None:
    plain = choose_clients(range(10), 4, Streams(0).at(round=3))
    assert substituted(3, set()) == plain
    assert substituted(3, {0, 1, 2}) == substituted(3, {0, 1, 2})


def test_where_nobody_else_is_left_they_keep_their_places() -> None:
    assert sorted(substituted(1, {0, 1, 2}, count=10)) == list(range(10))
    for round in range(20):
        asked = substituted(round, {0, 1, 2, 3, 4, 5, 6, 7})  # two are left to step in
        assert len(set(asked)) == 4
