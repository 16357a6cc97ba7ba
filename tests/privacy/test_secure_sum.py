"""The secure sum by its steps: right sums, dropouts, what the server sees, what clients refuse."""

import numpy as np
import pytest
from scipy import stats
from tests.privacy.sums import LAYOUT, Exchange, member, roster_of

from feddiv.core.errors import UserError
from feddiv.privacy.roster import Roster
from feddiv.privacy.sum_client import mask
from feddiv.privacy.sum_server import NoSum
from feddiv.privacy.words import Layout, as_bytes, as_words, bits_for, halves, joined, not_words

HISTOGRAMS = [np.array([3.0, 0, 1, 2]), np.array([0.0, 5, -1, 0]), np.array([1.0, 1, 1, 1])]


def payload(place: int) -> dict:
    rng = np.random.default_rng(place)
    return {"histogram": HISTOGRAMS[place % 3] + place, "softmax": rng.random(3) - 0.3}


def total(places: list[int]) -> dict:
    return {name: sum(payload(place)[name] for place in places) for name in LAYOUT.shapes}


def test_the_sum_is_exact_and_nothing_else_is_left() -> None:
    exchange = Exchange([member(client) for client in (4, 7, 9)])
    for place in range(3):
        exchange.add(place, payload(place))
    found = exchange.unmasked()
    assert found["histogram"].tolist() == [7.0, 9.0, 4.0, 6.0]
    assert np.abs(found["softmax"] - total([0, 1, 2])["softmax"]).max() < 1e-12


def test_two_dropouts_after_their_shares() -> None:
    exchange = Exchange([member(client) for client in range(6)])
    stay = [0, 2, 3, 5]
    for place in stay:
        exchange.add(place, payload(place))
    # Four of six is the threshold: all who stayed are needed, and they are enough.
    found = exchange.unmasked()
    assert np.abs(found["histogram"] - total(stay)["histogram"]).max() < 1e-12
    assert np.abs(found["softmax"] - total(stay)["softmax"]).max() < 1e-12


def test_a_survivor_may_be_lost_before_the_last_step() -> None:
    exchange = Exchange([member(client) for client in range(6)])
    for place in range(5):
        exchange.add(place, payload(place))
    found = exchange.unmasked(helpers=[0, 1, 3, 4])
    assert np.abs(found["histogram"] - total([0, 1, 2, 3, 4])["histogram"]).max() < 1e-12
    with pytest.raises(NoSum, match="3 of 4 clients helped"):
        exchange.unmasked(helpers=[0, 1, 3])


def test_an_absent_entry_adds_nothing() -> None:
    exchange = Exchange([member(client) for client in range(3)])
    exchange.add(0, payload(0))
    exchange.add(1, {"softmax": payload(1)["softmax"]})
    exchange.add(2, payload(2))
    assert exchange.unmasked()["histogram"].tolist() == total([0, 2])["histogram"].tolist()


def test_shares_that_lie_are_found_out() -> None:
    exchange = Exchange([member(client) for client in range(4)])
    for place in (0, 1, 2):
        exchange.add(place, payload(place))
    said = {place: exchange.shares(place, [0, 1, 2]) for place in (0, 1, 2)}
    for victim, what in ((1, "mask"), (3, "key")):  # one that answered, and one that did not
        lied = {place: rows.copy() for place, rows in said.items()}
        lied[2][victim, -1] += 1
        with pytest.raises(NoSum, match=f"client {victim}'s {what} do not fit together"):
            exchange.sum.unmasked(lied)


# What the server stores of a single client


def stored(run: int, value: dict, layout: Layout) -> np.ndarray:
    """The masked upload of one client under keys of their own, as bytes."""
    exchange = Exchange([member(client, run) for client in range(3)], layout)
    return np.frombuffer(as_bytes(np.concatenate([*exchange.upload(1, value).values()])), np.uint8)


def test_an_upload_cannot_be_told_from_noise() -> None:
    layout = Layout({"histogram": (64,)}, {"histogram": 50})
    empty = {"histogram": np.zeros(64)}  # the most telling thing one could send
    full = {"histogram": np.full(64, 180.0)}
    runs = 60
    zeros = np.stack([stored(run, empty, layout) for run in range(runs)])
    others = np.stack([stored(1000 + run, full, layout) for run in range(runs)])
    for seen in (zeros, others):
        counts = np.bincount(seen.reshape(-1), minlength=256)
        assert stats.chisquare(counts).pvalue > 1e-4  # every byte as often as any other
        bits = np.unpackbits(seen.reshape(-1)).mean()
        assert abs(bits - 0.5) < 4 * 0.5 / np.sqrt(seen.size * 8)
        # No position is special: of each, bytes over all keys have the mean of uniform ones.
        mean, spread = seen.mean(axis=0), 255 / np.sqrt(12 * runs)
        assert np.abs(mean - 127.5).max() < 5 * spread
    # Empty and full histograms cannot be told apart.
    assert stats.ks_2samp(zeros.reshape(-1), others.reshape(-1)).pvalue > 1e-4
    # The same input under two keys has nothing in common.
    pairs = np.corrcoef(zeros[0::2].reshape(-1), zeros[1::2].reshape(-1))[0, 1]
    assert abs(pairs) < 5 / np.sqrt(zeros.size / 2)


def test_without_masks_these_tests_see_the_difference() -> None:
    layout = Layout({"histogram": (64,)}, {"histogram": 50})
    plain = layout.masked(layout.encoded({"histogram": np.full(64, 180.0)}))
    seen = np.frombuffer(as_bytes(plain["histogram"].reshape(-1)), np.uint8)
    assert stats.chisquare(np.bincount(seen, minlength=256)).pvalue < 1e-10


def test_partial_sums_stay_masked() -> None:
    # Two of three uploads. Even without the masks of their own, whose seeds a server may come to
    # know, the mask that each shares with the third is still in.
    exchange = Exchange([member(client) for client in range(3)])
    exchange.add(0, payload(0))
    exchange.add(1, payload(1))
    row = exchange.sum.row
    for place in (0, 1):
        row = row - mask(exchange.members[place].seed(exchange.roster), exchange.layout.size)
    for left in (exchange.sum.row, row):
        assert np.abs(exchange.layout.decoded(left)["histogram"]).max() > 100


# What a client refuses


def test_a_client_gives_out_a_seed_or_a_key_but_never_both() -> None:
    exchange = Exchange([member(client) for client in range(4)])
    answered = exchange.shares(0, [0, 1, 2])
    other = exchange.shares(0, [0, 1, 3])
    # Of each other client one row, which is another one where it is said to have gone.
    assert (answered[1] == other[1]).all()
    assert (answered[2] != other[2]).any()


@pytest.mark.parametrize(
    ("survivors", "why"),
    [([0, 1], "2 clients are too few to tell"), ([1, 2, 3], "3 clients are too few to tell")],
)
def test_no_shares_for_too_few_or_without_itself(survivors: list[int], why: str) -> None:
    exchange = Exchange([member(client) for client in range(4)])
    with pytest.raises(UserError, match=why):
        exchange.members[0].shares(exchange.roster, [0, 1, 2, 3], survivors, exchange.for_place(0))


def test_no_upload_among_too_few() -> None:
    exchange = Exchange([member(client) for client in range(4)])
    with pytest.raises(UserError, match="2 clients are too few to hide among"):
        exchange.members[0].masked(exchange.roster, [0, 1], LAYOUT, payload(0))


def test_a_list_of_two_clients_or_of_one_twice_is_refused() -> None:
    for clients in ((0, 1), (0, 1, 1)):
        full = roster_of([member(client) for client in clients]).payload()
        with pytest.raises(UserError, match="3 clients at least, each once"):
            Roster.read(full)


def test_other_keys_than_its_own_are_refused() -> None:
    members = [member(client) for client in range(3)]
    forged = roster_of([members[0], members[1], member(2, run=5)])
    with pytest.raises(UserError, match="other keys than this client's"):
        members[2].letters(forged)


def test_a_letter_that_was_changed_or_sent_for_another_roster_is_refused() -> None:
    exchange = Exchange([member(client) for client in range(4)])
    letters = exchange.for_place(0)
    letters[2, 3] = (letters[2, 3] + 1) % 2**32
    with pytest.raises(UserError, match="letter of client 2: a letter was changed"):
        exchange.members[0].shares(exchange.roster, [0, 1, 2, 3], [0, 1, 2], letters)
    smaller = roster_of(exchange.members[:3])
    with pytest.raises(UserError, match="letter of client 1"):
        exchange.members[0].shares(smaller, [0, 1, 2], [0, 1, 2], exchange.for_place(0)[:3])


# Numbers


def test_words_hold_bytes_and_numbers() -> None:
    data = bytes(range(8))
    assert as_words(data).tolist() == [0x00010203, 0x04050607]
    assert as_bytes(as_words(data)) == data
    numbers = np.array([0, 1, 2**32, 2**64 - 1], np.uint64)
    assert (joined(halves(numbers)) == numbers).all()
    assert all(not_words(np.array([number])) for number in (0.5, -1.0, 2.0**32))


def test_fixed_point_leaves_room_for_the_sum() -> None:
    assert bits_for(180, 10) == 51  # 1800 < 2^11, and 11 + 51 = 62
    assert bits_for(1.0, 1) == 52
    layout = Layout({"a": (2,)}, {"a": 51})
    value = np.array([-180.0, 179.123456789])
    assert np.abs(layout.decoded(layout.encoded({"a": value}))["a"] - value).max() < 1e-14
    with pytest.raises(ValueError, match="does not fit"):
        layout.encoded({"a": np.array([2.0**12, 0])})


def test_a_client_helps_to_tell_no_sum_of_two() -> None:
    exchange = Exchange([member(client) for client in range(3)])
    # Two thirds of three are two: the sum of two tells each of them what the other said.
    assert exchange.roster.threshold(2 / 3) == 3
    with pytest.raises(UserError, match="2 clients are too few to tell their sum"):
        exchange.shares(0, [0, 1])
    with pytest.raises(UserError, match="2 clients are too few to hide among"):
        exchange.members[0].masked(exchange.roster, [0, 1], exchange.layout, {})
