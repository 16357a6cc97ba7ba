"""What a method gets of replies, some of which lie; numbers can be checked by hand."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pytest
import torch

from feddiv.config.sections import RobustOptions
from feddiv.defence.defence import FAR_OUT, Defence, barred, standing_out
from feddiv.defence.directions import Directions
from feddiv.defence.replies import DefendedReplies
from feddiv.federation.accounts import Accounts
from feddiv.federation.update_norm import update_norm
from feddiv.learning.average import RunningMean
from feddiv.methods.contract import Declared, Exchange, Facts, Kind, Message, Reply

KIND = Kind({"counts": Declared((2,), pooled="change")})
SENT = Message("train", {"net": {"weight": torch.zeros(2)}})


@dataclass
class Lent:
    """Replies as a federation hands them on: all weights lie in one net."""

    replies: Sequence[Reply]
    accounts: Accounts
    missing: list[int] = field(default_factory=list)

    def __iter__(self) -> Iterator[Reply]:
        net = torch.zeros(2)
        for reply in self.replies:
            assert reply.weights is not None
            net.copy_(reply.weights["net"]["weight"])
            self.accounts.enter(reply, KIND)
            yield replace(reply, weights={"net": {"weight": net}})
        net.fill_(np.nan)
        self.missing = [9]


def reply(client: int, weight: Sequence[float], counts: Sequence[float], samples: int) -> Reply:
    weights = {"net": {"weight": torch.tensor(weight, dtype=torch.float32)}}
    return Reply(client, samples, weights, {"counts": np.array(counts, np.float64)})


def merged(
    replies: Sequence[Reply],
    *,
    accounts: Accounts | None = None,
    recent: tuple[float, ...] = (),
    sent: Message = SENT,
    largest_site: int | None = None,
    directions: Directions | None = None,
    introduced: bool = False,
    **robust: Any,
) -> tuple[list[float], list[float]]:
    """The mean of the models, and the sum of the counts, as a method takes them."""
    accounts = accounts or Accounts()
    defended = DefendedReplies(
        Lent(replies, accounts),
        Defence(RobustOptions(**robust), largest_site),
        Exchange(tuple(each.client for each in replies), sent),
        KIND,
        sizes={**SIZES, **{each.client: each.samples for each in replies}},
        norms={
            each.client: update_norm(each.weights, sent.weights)
            for each in replies
            if each.weights is not None
        },
        recent=recent,
        accounts=accounts,
        directions=directions or Directions(),
        introduced=introduced,
    )
    mean, total = RunningMean(), np.zeros(2)
    for each in defended:
        if each.weights is not None:
            mean.add(each.weights, each.samples)
        total += each.payload["counts"]
    assert defended.missing == [9]
    found = mean.mean()
    return [] if found is None else found["net"]["weight"].tolist(), total.tolist()


SIZES = dict.fromkeys(range(4), 10)
HONEST = [reply(k, [3, 4], [4, 6], 10) for k in range(3)]
LIAR = reply(3, [-300, -400], [10, 0], 10)


def test_without_a_defence_means_and_sums_are_plain() -> None:
    found, total = merged([*HONEST, LIAR])
    assert found == [(9 - 300) / 4, (12 - 400) / 4]
    assert total == [22, 18]


@pytest.mark.parametrize("rule", ["median", "trimmed_mean", "krum", "geometric_median"])
def test_the_mean_that_a_method_takes_is_the_robust_aggregate(rule: str) -> None:
    liar = replace(LIAR, samples=12)
    assert merged([*HONEST, liar], weights=rule)[0] == pytest.approx([3, 4], abs=1e-3)


def test_an_update_that_is_turned_round_does_not_count() -> None:
    turned = reply(3, [-3, -4], [4, 6], 10)
    found, total = merged([*HONEST, turned], weights="aligned")
    assert found == pytest.approx([3, 4])
    assert total == [16, 24]  # what it says of its scores is the business of robust.filter
    # The method weighs by its own rule: of clients with 10 and 30 samples the second counts most.
    uneven = [
        reply(0, [4, 0], [4, 6], 10),
        reply(1, [0, 4], [4, 6], 30),
        reply(2, [-3, -3], [4, 6], 5),
    ]
    assert merged(uneven, weights="aligned")[0] == pytest.approx([1, 3])


TURNED = reply(3, [-6, -8], [4, 6], 10)  # against the others, and twice as far as they go
BACK = {"weights": "aligned", "opposed": "turned_back"}


def test_an_update_that_is_turned_round_counts_turned_back() -> None:
    assert merged([*HONEST, TURNED], **BACK)[0] == pytest.approx([15 / 4, 20 / 4])
    # Clipped first, so that nothing is gained by a larger one.
    larger = reply(3, [-600, -800], [4, 6], 10)
    assert merged([*HONEST, larger], clip=1.0, **BACK)[0] == pytest.approx([3, 4])


def test_an_update_that_is_not_against_the_others_now_is_not_turned_back() -> None:
    known = Directions().met(range(4), np.outer([1, 1, 1, -1], [1, 1, 1, -1]) * 0.9)
    turns = reply(3, [3, 4], [4, 6], 10)  # turned back, it would be against them
    assert merged([*HONEST, turns], directions=known, **BACK)[0] == pytest.approx([3, 4])
    along = reply(3, [4, -3], [4, 6], 10)  # and so would half of what this one is made of
    assert merged([*HONEST, along], directions=known, **BACK)[0] == pytest.approx([3, 4])


def test_alone_an_update_is_turned_back_by_what_is_known_of_its_client() -> None:
    known = Directions().met(range(4), np.outer([1, 1, 1, -1], [1, 1, 1, -1]) * 0.9)
    assert merged([TURNED], directions=known, **BACK)[0] == pytest.approx([6, 8])
    assert merged([TURNED], directions=known, weights="aligned") == ([], [4, 6])
    assert merged([HONEST[0]], directions=known, **BACK)[0] == pytest.approx([3, 4])
    assert merged([TURNED], **BACK)[0] == pytest.approx([-6, -8])  # nobody knows


def test_who_was_not_introduced_has_no_say_in_a_hand_over() -> None:
    known = Directions().met([0, 1, 2], np.full((3, 3), 0.9))
    said = {"directions": known, "introduced": True, "weights": "aligned"}
    assert merged([TURNED], **said) == ([], [4, 6])
    assert merged([HONEST[0]], **said)[0] == pytest.approx([3, 4])
    # Elsewhere, or where nobody was: there is no reason to doubt it.
    assert merged([TURNED], directions=known, weights="aligned")[0] == pytest.approx([-6, -8])
    assert merged([TURNED], introduced=True, weights="aligned")[0] == pytest.approx([-6, -8])


def test_where_only_liars_answer_no_model_counts() -> None:
    known = Directions().met(range(6), np.outer([1, 1, 1, 1, -1, -1], [1, 1, 1, 1, -1, -1]) * 0.5)
    liars = [reply(k, [-3, -4], [4, 6], 10) for k in (4, 5)]
    assert merged(liars, weights="aligned", directions=known) == ([], [8, 12])


def test_of_two_models_nobody_can_say_which_is_turned_round() -> None:
    two = [HONEST[0], reply(1, [-3, -4], [4, 6], 10)]
    assert merged(two, weights="aligned")[0] == pytest.approx([0, 0])
    # A third that agreed with the first before decides.
    before = Directions().met([0, 2], np.full((2, 2), 0.5))
    assert merged(two, weights="aligned", directions=before)[0] == pytest.approx([3, 4])


def test_updates_are_clipped_to_the_median_norm_of_the_exchange() -> None:
    # Norms 5, 5, 5 and 500: the liar's is cut to twice the median, (-6, -8).
    assert merged([*HONEST, LIAR], weights="clip")[0] == pytest.approx([3 / 4, 4 / 4])
    assert merged([*HONEST, LIAR], weights="clip", clip=1.0)[0] == pytest.approx([6 / 4, 8 / 4])


@pytest.mark.parametrize("rule", ["clip", "median", "krum"])
def test_a_client_that_is_alone_is_compared_with_those_before_it(rule: str) -> None:
    assert merged([LIAR], weights=rule, recent=(5.0, 4.0, 6.0))[0] == pytest.approx([-6, -8])
    assert merged([LIAR], weights=rule)[0] == [-300, -400]  # the first of all, from nothing


def test_the_first_of_a_hand_over_move_a_model_by_no_more_than_its_own_norm() -> None:
    begun = Message("train", {"net": {"weight": torch.tensor([3.0, 4.0])}})
    liar = reply(3, [-297, -396], [10, 0], 10)  # 500 away from it, in the other direction
    assert merged([liar], weights="clip", sent=begun)[0] == pytest.approx([0, 0], abs=1e-6)


def test_a_round_in_which_most_lie_does_not_set_the_measure() -> None:
    most = [HONEST[0], *(replace(LIAR, client=k) for k in (1, 2, 3))]
    assert merged(most, weights="median")[0] == [-300, -400]  # nothing came before
    # Norm 5 is usual, 10 may be by now, and an update has at most twice that: (-12, -16).
    assert merged(most, weights="median", recent=(5.0,) * 9)[0] == pytest.approx([-12, -16])


def test_clients_that_did_not_move_do_not_erase_the_updates_of_others() -> None:
    still = [reply(k, [0, 0], [4, 6], 10) for k in (3, 4, 5)]
    # Three of six moved, by 5 each: none is cut, and the mean is half of theirs.
    assert merged([*HONEST, *still], weights="clip")[0] == pytest.approx([1.5, 2])
    # Nor do those that stood still before: of the last ones that moved, 5 is usual.
    before = (0.0,) * 9 + (5.0,) * 3
    assert merged([*HONEST, *still], weights="clip", recent=before)[0] == pytest.approx([1.5, 2])
    assert merged(HONEST[:1], weights="clip", recent=before)[0] == pytest.approx([3, 4])


@pytest.mark.parametrize("rule", ["median", "trimmed_mean"])
def test_who_says_nothing_but_zeros_has_no_say_in_a_robust_total(rule: str) -> None:
    accounts = Accounts()
    zeros = reply(3, [0, 0], [0, 0], 10)
    assert merged([zeros], accounts=accounts, filter=rule)[1] == [0, 0]
    # From rows that are all zeros; then 30 samples of which 40 % are in the first count.
    assert merged(HONEST, accounts=accounts, filter=rule)[1] == pytest.approx([12, 18])


@pytest.mark.parametrize("rule", ["median", "trimmed_mean"])
def test_sums_become_the_robust_total(rule: str) -> None:
    # 40 samples, of which 40 % are in the first count.
    assert merged([*HONEST, LIAR], filter=rule)[1] == pytest.approx([16, 24])


def test_a_robust_total_goes_on_from_what_was_handed_on_before() -> None:
    accounts = Accounts()
    before = merged(HONEST[:2], accounts=accounts, filter="median")[1]
    change = merged([HONEST[2], LIAR], accounts=accounts, filter="median")[1]
    assert np.add(before, change) == pytest.approx([16, 24])
    # Client 0 changes its mind: -1 and +1.
    change = merged([reply(0, [3, 4], [-1, 1], 10)], accounts=accounts, filter="median")[1]
    assert accounts.total("counts", 0, (2,)).tolist() == [3, 7]
    assert np.abs(change).max() <= 1


def test_no_client_counts_for_more_samples_than_the_largest_site() -> None:
    large = reply(3, [0, 0], [1000, 0], 1000)
    found, total = merged([*HONEST, large], largest_site=10)
    assert found == pytest.approx([9 / 4, 12 / 4])
    assert total == [22, 18]
    facts = Facts(("a", "b"), (2,), {0: 10, 3: 1000}, iid=True)
    assert Defence(largest_site=10).facts(facts).sizes == {0: 10, 3: 10}
    assert Defence().facts(facts) is facts


def test_who_is_blamed_for_a_broken_model() -> None:
    said = "its update has norm 21, the usual one is 2"
    assert standing_out({0: 1.0, 1: 2.0, 2: 21.0}) == {2: said}
    assert standing_out({0: 1.0, 1: 2.0, 2: 21.0}, times=11.0) == {}
    # Who had nothing to train on does not make others stand out; nor do two say what is usual.
    assert standing_out({0: 0.0, 1: 0.0, 2: 0.0, 3: 5.0}) == {}
    assert standing_out({0: 1.0, 1: 100.0}) == {}
    assert standing_out({}) == {}


def test_honest_updates_do_not_stand_out_from_those_that_hardly_move() -> None:
    norms = {0: 1e-3, 1: 1e-3, 2: 1e-3, 3: 1.0, 4: 1.1}  # liars are most of those who were asked
    assert list(standing_out(norms, FAR_OUT)) == [3, 4]
    assert standing_out(norms, FAR_OUT, before=1.0) == {}
    # Where updates have grown, what is usual now is the measure.
    assert list(standing_out({0: 1.0, 1: 1.0, 2: 30.0}, FAR_OUT, before=0.1)) == [2]


def test_who_is_far_out_is_not_asked_for_ten_turns() -> None:
    assert barred({}, {3: "why"}, turn=3) == {3: 13}
    assert barred({5: 2, 6: 3}, [3], turn=3) == {6: 3, 3: 13}  # 5 may be asked again


def test_the_last_norms_are_remembered() -> None:
    assert Defence().recent((1.0,), [2.0, 3.0]) == (1.0, 2.0, 3.0)
    last = Defence().recent(tuple(float(n) for n in range(30)), [7.0])
    assert len(last) == 30
    assert last[-2:] == (29.0, 7.0)
