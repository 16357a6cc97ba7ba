import numpy as np
import pytest

from feddiv.learning.gaussian_mixture import Mixture
from feddiv.methods.contract import Payload
from feddiv.methods.feddiv.exchanges import uploads
from feddiv.methods.feddiv.feddiv_options import FedDivOptions
from feddiv.methods.feddiv.filter import FilterOptions, NoiseFilter
from feddiv.methods.feddiv.filter_client import ClientFilter, FilterMemory

MEAN = {
    "score": "cross_entropy",
    "scale": "minmax",
    "debias": "none",
    "aggregate": "mean",
    "prior": "shared",
    "no_noise_rule": False,
    "second_opinion": False,
    "monotone": False,
    "starved_below": 0.0,
}
SCORES = np.array([-7.9, -7.9, 0.1, 7.9])
MOVED = np.array([-7.9, 0.1, 0.1, 7.9])
# Softmax (1/2, 1/4, 1/4) twice, given labels 0 and 1.
LOGITS, LABELS = np.log([[0.5, 0.25, 0.25]] * 2), np.array([0, 1])


def client(
    memory: FilterMemory | None = None, received: dict | None = None, **options: object
) -> ClientFilter:
    return ClientFilter(FilterOptions(**options), 3, memory or FilterMemory(), received or {})


def sent(of: ClientFilter, kind: str, *names: str, **known: np.ndarray) -> Payload:
    """Of what a reply of this kind carries, the entries of these names."""
    carried = uploads(FedDivOptions(filter=of.options), kind, by_trust=False)
    return of.upload([name for name in names if name in carried], **known)


def upload(of: ClientFilter, scores: np.ndarray) -> Payload:
    of.keep(scores)
    return sent(of, "filter", "mixture", "histogram", logits=LOGITS, labels=LABELS)


def upload_bias(of: ClientFilter, logits: np.ndarray) -> Payload:
    return sent(of, "bias", "softmax", logits=logits, labels=LABELS)


def upload_tally(
    of: ClientFilter, p_clean: np.ndarray, scores: np.ndarray, labels: np.ndarray
) -> Payload:
    known = {"logits": LOGITS, "labels": labels, "scores": scores, "p_clean": p_clean}
    return sent(of, "train", "tally", **known)


def bins(**counts: int) -> np.ndarray:
    histogram = np.zeros(64)
    for name, count in counts.items():
        histogram[int(name.removeprefix("bin"))] = count
    return histogram


# Scores


def test_scores_without_de_biasing() -> None:
    assert client(debias="none").scores(LOGITS, LABELS) == pytest.approx([0, np.log(3)])


def test_scores_with_the_received_bias() -> None:
    # Divided by (1/2, 1/8, 3/8): 1, 2, 2/3, that is 3/11, 6/11, 2/11; odds against 8/3 and 5/6
    bias = np.array([1 / 2, 1 / 8, 3 / 8])
    scores = client(received={"bias": bias}, debias="global").scores(LOGITS, LABELS)
    assert scores == pytest.approx([np.log(8 / 3), np.log(5 / 6)])


def test_scores_with_the_clients_own_bias() -> None:
    # Its mean softmax is (1/2, 1/4, 1/4) itself: even odds of the three classes remain.
    assert client(debias="local").scores(LOGITS, LABELS) == pytest.approx([np.log(2)] * 2)


# What is uploaded


def test_a_histogram_at_first_and_its_change_later() -> None:
    before = client()
    first = upload(before, SCORES)
    assert first.keys() == {"histogram"}
    assert np.array_equal(first["histogram"], bins(bin0=2, bin32=1, bin63=1))
    after = client(before.memory)
    later = upload(after, MOVED)
    assert np.array_equal(later["histogram"], bins(bin0=-1, bin32=1))
    assert after.memory.summary is not None
    assert np.array_equal(after.memory.summary, bins(bin0=1, bin32=2, bin63=1))


def test_with_members_round_the_whole_histogram_every_time() -> None:
    before = client(members="round")
    upload(before, SCORES)
    later = upload(client(before.memory, members="round"), MOVED)
    assert np.array_equal(later["histogram"], bins(bin0=1, bin32=2, bin63=1))


def test_six_numbers_fitted_from_the_received_filter() -> None:
    received = np.array([0.1, 0.7, 0.02, 0.05, 0.6, 0.4])
    once = {**MEAN, "em_steps": 1}
    six = upload(client(received={"mixture": received}, **once), SCORES)
    start = NoiseFilter(FilterOptions(**once), 3, Mixture.unpacked(received))
    expected = start.summarise(np.array([0, 0, 8 / 15.8, 1]))
    assert six.keys() == {"mixture"}
    assert six["mixture"] == pytest.approx(expected)
    afresh = upload(client(**once), SCORES)
    assert afresh["mixture"] != pytest.approx(expected)


@pytest.mark.parametrize("options", [{}, MEAN])
@pytest.mark.parametrize("scores", [[1.0], [1.0, 1.0]])
def test_nothing_to_learn_from_uploads_nothing(options: dict, scores: list[float]) -> None:
    memory = FilterMemory(summary=bins(bin3=2))
    silent = client(memory, **options)
    assert upload(silent, np.array(scores)) == {}
    assert silent.memory is memory


def test_the_summed_softmax_at_first_and_its_change_later() -> None:
    before = client()
    assert upload_bias(before, LOGITS)["softmax"] == pytest.approx([1, 0.5, 0.5])
    later = upload_bias(client(before.memory), np.log([[0.25, 0.5, 0.25]] * 2))
    assert later["softmax"] == pytest.approx([-0.5, 0.5, 0])


@pytest.mark.parametrize("debias", ["none", "local"])
def test_the_softmax_stays_at_home_where_nobody_needs_it(debias: str) -> None:
    silent = client(debias=debias)
    assert upload_bias(silent, LOGITS) == {}
    assert silent.memory == FilterMemory()


def test_the_tally_at_first_and_its_change_later() -> None:
    labels, scores = np.array([0, 0, 2]), np.array([-3.0, 1.0, 5.0])
    before = client()
    first = upload_tally(before, np.array([0.9, 0.5, 0.4]), scores, labels)
    assert first["tally"].tolist() == [[2, 0, 1], [2, 0, 0], [-2, 0, 5]]
    after = client(before.memory)
    later = upload_tally(after, np.array([0.9, 0.4, 0.6]), scores - 1, labels)
    assert later["tally"].tolist() == [[0, 0, 0], [-1, 0, 1], [-2, 0, -1]]
    assert after.memory.tally is not None
    assert after.memory.tally.tolist() == [[2, 0, 1], [1, 0, 1], [-4, 0, 4]]


@pytest.mark.parametrize(
    "options",
    [{"starved_below": 0.0, "drop_below": 0.5}, {"scope": "local"}, {"scope": "perfect"}],
)
def test_no_tally_where_nobody_asks_for_it(options: dict) -> None:
    silent = client(**options)
    assert upload_tally(silent, np.ones(2), np.zeros(2), LABELS) == {}
    assert silent.memory == FilterMemory()


def test_without_pardons_nobody_learns_the_scores() -> None:
    asked = client(starved_below=0.0)
    tally = upload_tally(asked, np.array([0.9, 0.4]), np.array([-3.0, 1.0]), LABELS)["tally"]
    assert tally.tolist() == [[1, 1, 0], [1, 0, 0], [0, 0, 0]]


def test_every_upload_moves_only_its_own_part_of_the_memory_on() -> None:
    speaks = client()
    upload(speaks, SCORES)
    upload_bias(speaks, LOGITS)
    upload_tally(speaks, np.ones(2), np.zeros(2), LABELS)
    memory = speaks.memory
    assert memory.summary is not None
    assert memory.summary.tolist() == bins(bin0=2, bin32=1, bin63=1).tolist()
    assert memory.softmax == pytest.approx([1, 0.5, 0.5])
    assert memory.tally is not None
    assert memory.tally.tolist() == [[1, 1, 0], [1, 1, 0], [0, 0, 0]]


def test_labels_of_starved_classes_are_pardoned_up_to_the_limit() -> None:
    scores, labels = np.array([2.0, 2.5, 2.6, -7.0]), np.array([0, 0, 0, 1])
    pardons = np.array([2.5, -np.inf, -np.inf])
    chosen = client(received={"pardons": pardons}).pardoned(scores, labels)
    assert chosen.tolist() == [True, True, False, False]
    assert not client().pardoned(scores, labels).any()


def test_federated_scope_decides_with_the_received_filter() -> None:
    received = {"mixture": np.array([-4.0, 4.0, 4.0, 4.0, 0.5, 0.5])}
    decides = client(received=received, prior="shared", second_opinion=False)
    # Means ∓4 and variances 4: odds of clean = exp(-2 s)
    p = decides.p_clean(np.array([-0.5, 0.5]), LABELS, None)
    assert p == pytest.approx([1 / (1 + np.exp(-1)), 1 / (1 + np.exp(1))])
    assert client().p_clean(np.array([-0.5, 8.0]), LABELS, None).tolist() == [1, 1], "no filter yet"


@pytest.mark.parametrize("options", [{"scope": "local"}, {**MEAN, "scope": "local"}])
def test_local_scope_uploads_nothing_and_decides_with_its_own_filter(options: dict) -> None:
    scores = np.array([-6.0, -5.0, -5.5, 5.0, 6.0])
    learns = client(**options)
    assert upload(learns, scores) == {}
    assert learns.memory.summary is not None
    alone = NoiseFilter(FilterOptions(**options), 3).fit([scores])
    # Whatever the others have learnt: this client ignores it.
    foreign = {"mixture": np.array([-9.0, -8.0, 0.1, 0.1, 0.5, 0.5])}
    decides = client(learns.memory, foreign, **options)
    assert decides.p_clean(scores, np.zeros(5, int), None) == pytest.approx(alone.p_clean(scores))
    assert (alone.p_clean(scores) >= 0.5).tolist() == [True, True, True, False, False]


def test_perfect_scope_knows_the_truth_and_sends_nothing() -> None:
    perfect = client(scope="perfect")
    truth = np.array([0, 2])
    assert perfect.p_clean(np.array([8.0, -8.0]), LABELS, truth).tolist() == [1.0, 0.0]
    assert upload(perfect, SCORES) == {}
    assert upload_bias(perfect, LOGITS) == {}
    assert perfect.memory == FilterMemory()
    with pytest.raises(ValueError, match="needs true labels"):
        perfect.p_clean(np.array([8.0, -8.0]), LABELS, None)


@pytest.mark.parametrize(
    ("options", "share", "trains"),
    [
        ({}, 0.0, [True, False, False, False]),
        ({}, 0.5, [True, True, False, False]),
        ({}, 1.0, [True, True, True, False]),
        ({}, None, [True, True, True, False]),  # nobody has reported yet: no class can be spared
        ({"drop_below": 0.5}, 0.0, [True, True, True, False]),
        ({"drop_below": 0.15}, 0.0, [True, True, True, True]),
    ],
)
def test_labels_that_are_not_sure_train_where_they_have_to(
    options: dict, share: float | None, trains: list[bool]
) -> None:
    p_clean, labels = np.array([1.0, 0.7, 0.5, 0.2]), np.array([0, 1, 1, 1])
    received = {} if share is None else {"must_train": np.full(3, share)}
    assert client(received=received, **options).trains(p_clean, labels).tolist() == trains


@pytest.mark.parametrize(
    ("share", "trains"), [(np.nan, 3), (np.inf, 3), (7.0, 3), (-0.5, 1), (-np.inf, 1)]
)
def test_a_share_that_is_none_is_taken_for_the_nearest(share: float, trains: int) -> None:
    p_clean, labels = np.array([1.0, 0.7, 0.5, 0.2]), np.array([0, 1, 1, 1])
    odd = client(received={"must_train": np.full(3, share)})
    assert odd.trains(p_clean, labels).sum() == trains
