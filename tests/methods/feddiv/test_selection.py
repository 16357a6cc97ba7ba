"""Filtering, relabelling and reselecting six samples of three classes."""

import numpy as np
import pytest
import torch

from feddiv.methods.feddiv.division import Division, RelabelOptions, divide, relabel
from feddiv.methods.feddiv.sampler import Reselection, SamplerOptions, debiased_labels, update_bias

GIVEN = np.array([0, 0, 1, 1, 2, 2])
P_CLEAN = np.array([0.9, 0.5, 0.499, 0.1, 0.2, 0.8])
GLOBAL = np.array(  # softmax of the received model
    [
        [0.8, 0.1, 0.1],
        [0.5, 0.1, 0.4],
        [0.8, 0.1, 0.1],  # noisy, sure of class 0: relabelled
        [0.7, 0.2, 0.1],  # noisy, not sure enough: sits this visit out
        [0.1, 0.1, 0.8],  # noisy, sure of its own label: "relabelled" as what it was
        [0.1, 0.2, 0.7],
    ]
)


def divided(p_clean: np.ndarray = P_CLEAN, below: float = 0.1, **relabelling: object) -> Division:
    return divide(
        p_clean >= 0.5,
        np.log(GLOBAL) if len(p_clean) == 6 else np.zeros((len(p_clean), 3)),
        GIVEN if len(p_clean) == 6 else np.zeros(len(p_clean), int),
        clean_client_below=below,
        relabelling=RelabelOptions(**{"confidence": 0.75, **relabelling}),
    )


def test_filter_and_relabel() -> None:
    division = divided()
    assert division.clean.tolist() == [True, True, False, False, False, True]  # at 1/2: clean
    assert division.noise_level == 0.5
    assert division.noisy_client
    assert division.relabelled.tolist() == [False, False, True, False, True, False]
    assert division.labels.tolist() == [0, 0, 0, 1, 2, 2]
    assert division.candidates.tolist() == [True, True, True, False, True, True]


def test_in_doubt_a_label_may_stay() -> None:
    division = divide(
        P_CLEAN >= 0.2,
        np.log(GLOBAL),
        GIVEN,
        clean_client_below=0.1,
        relabelling=RelabelOptions(confidence=0.6),
    )
    assert division.clean.tolist() == [True, True, True, False, True, True]  # 0.2 itself stays
    assert division.noise_level == pytest.approx(1 / 6)
    assert division.relabelled.tolist() == [False, False, False, True, False, False]


def test_pardoned_labels_train_but_do_not_make_a_clean_client() -> None:
    division = divide(
        P_CLEAN >= 0.5,
        np.log(GLOBAL),
        GIVEN,
        pardoned=np.array([True, False, True, True, True, False]),
        clean_client_below=0.1,
        relabelling=RelabelOptions(),
    )
    assert division.clean.all()
    assert division.pardoned.tolist() == [False, False, True, True, True, False]
    assert division.noise_level == 0.5
    assert division.noisy_client
    assert not division.relabelled.any()


def test_without_relabelling_only_the_clean_remain() -> None:
    division = divided(enabled=False)
    assert not division.relabelled.any()
    assert division.labels.tolist() == GIVEN.tolist()
    assert division.candidates.tolist() == division.clean.tolist()


def test_a_clean_client_trains_on_everything_as_given() -> None:
    division = divided(below=0.5)  # the level of 0.5 itself is still clean
    assert not division.noisy_client
    assert division.candidates.all()
    assert division.labels.tolist() == GIVEN.tolist()
    assert not division.relabelled.any()


@pytest.mark.parametrize(("noisy", "samples", "below"), [
    (1, 10, 0.1),
    (7, 70, 0.1),
    (3, 10, 0.3),
    (6, 10, 0.6),
    (2, 10, 0.2),
])  # fmt: skip
def test_clean_client_at_exactly_the_threshold(noisy: int, samples: int, below: float) -> None:
    p_clean = np.array([0.0] * noisy + [1.0] * (samples - noisy))
    at = divided(p_clean, below)
    assert at.noise_level == pytest.approx(below)
    assert not at.noisy_client
    p_clean[noisy] = 0.0
    assert divided(p_clean, below).noisy_client


def test_relabelling_includes_confidence_zeta_itself() -> None:
    sure = np.array([[0.75, 0.25], [np.nextafter(0.75, 0), 0.25], [0.1, 0.9], [0.9, 0.1]])
    noisy = np.array([True, True, True, False])
    assert relabel(sure, noisy, 0.75).tolist() == [True, False, True, False]
    assert relabel(sure, noisy, 0.0).tolist() == noisy.tolist()


# p-hat = (4, 4, 1) / 9: dividing by its square root doubles class 2 against the others.
BIAS = np.array([4, 4, 1]) / 9
LOCAL = np.array(  # softmax of the local model, and what remains of it up to a factor
    [
        [0.6, 0.2, 0.2],  # .6 .2 .4: class 0, agrees
        [0.5, 0.2, 0.3],  # .5 .2 .6: class 2, the global model says 0
        [0.7, 0.1, 0.2],  # .7 .1 .4: class 0, agrees
        [0.1, 0.8, 0.1],  # .1 .8 .2: class 1; not among the candidates anyway
        [0.5, 0.1, 0.4],  # .5 .1 .8: class 2, agrees only thanks to de-biasing
        [0.6, 0.2, 0.2],  # .6 .2 .4: class 0, the global model says 2
    ]
)


def test_sampler_keeps_candidates_on_which_both_models_agree() -> None:
    said = debiased_labels(np.log(LOCAL), BIAS, xi=0.5)
    assert said.tolist() == [0, 2, 0, 1, 2, 0]
    kept = divided().candidates & (said == GLOBAL.argmax(axis=1))
    assert np.flatnonzero(kept).tolist() == [0, 2, 4]


class Visit:
    """What the sampler chooses in the epochs of a visit, and what it asks the local model for."""

    def __init__(
        self,
        division: Division | None = None,
        *,
        visits: int = 0,
        relabelled_train: bool = True,
        stale: list[int] | None = None,
        **options: object,
    ) -> None:
        self.asked: list[list[int]] = []
        self.reselection = Reselection(
            SamplerOptions(**options),
            division or divided(),
            np.log(GLOBAL),
            BIAS,
            visits=visits,
            relabelled_train=relabelled_train,
            stale=None if stale is None else np.array(stale),
            local_logits=self.local_logits,
        )

    def local_logits(self, rows: torch.Tensor) -> np.ndarray:
        self.asked.append(rows.tolist())
        return np.log(LOCAL)[rows.numpy()]

    def epochs(self, count: int = 2) -> list[list[int]]:
        chosen = [self.reselection(epoch) for epoch in range(count)]
        assert [rows.tolist() for rows in self.reselection.kept] == [r.tolist() for r, _ in chosen]
        for rows, labels in chosen:
            assert labels.tolist() == self.reselection.labels[rows.numpy()].tolist()
        return [rows.tolist() for rows, _ in chosen]


def test_sampler_chooses_anew_before_every_epoch() -> None:
    visit = Visit()
    # First epoch: the global logits, known already; sample 1 is .5 .1 .8 after de-biasing.
    assert visit.epochs(3) == [[0, 2, 4, 5], [0, 2, 4], [0, 2, 4]]
    assert visit.asked == [[0, 1, 2, 4, 5]] * 2, "candidates only, and not in the first epoch"
    rows, labels = visit.reselection(1)
    assert (rows.tolist(), labels.tolist()) == ([0, 2, 4], [0, 0, 2])


def test_without_the_sampler_all_candidates_train() -> None:
    visit = Visit(enabled=False)
    assert visit.epochs() == [[0, 1, 2, 4, 5]] * 2
    assert visit.asked == []


def test_a_clean_client_trains_on_everything_and_asks_nothing() -> None:
    visit = Visit(divided(below=0.5))
    assert visit.epochs() == [[0, 1, 2, 3, 4, 5]] * 2
    assert visit.asked == []


def test_relabelled_samples_may_have_to_sit_out() -> None:
    assert Visit(enabled=False, relabelled_train=False).epochs() == [[0, 1, 5]] * 2
    assert Visit(relabelled_train=False).epochs() == [[0, 5], [0]]
    everything = Visit(divided(below=0.5), relabelled_train=False)
    assert everything.epochs() == [[0, 1, 2, 3, 4, 5]] * 2, "a clean client relabels nothing"


def test_the_first_visits_train_on_clean_samples_without_the_sampler() -> None:
    early = Visit(visits=4, after_visits=5, timing="visit", stale=[0] * 6)
    assert early.epochs() == [[0, 1, 5]] * 2
    # From the sixth visit on: candidates whose stale de-biased label is what the model says.
    later = Visit(visits=5, after_visits=5, timing="visit", stale=[0, 2, 0, 0, 2, 1])
    assert later.epochs() == [[0, 2, 4]] * 2
    assert early.asked == later.asked == []


def test_once_a_visit_needs_a_visit_before() -> None:
    assert Visit(timing="visit").epochs() == [[0, 1, 2, 4, 5]] * 2


def test_nothing_left_to_choose_from() -> None:
    visit = Visit(divided(np.zeros(6), enabled=False))
    assert visit.epochs() == [[], []]
    assert visit.asked == []


def test_without_bias_or_strength_the_sampler_asks_for_the_plain_prediction() -> None:
    plain = LOCAL.argmax(axis=1).tolist()
    assert debiased_labels(np.log(LOCAL), np.full(3, 1 / 3), xi=0.5).tolist() == plain
    assert debiased_labels(np.log(LOCAL), BIAS, xi=0.0).tolist() == plain


def test_a_class_never_predicted_is_clamped() -> None:
    # -log 1e-8 = 18.4: class 0 wins against any logit smaller by less than that.
    bias = np.array([0.0, 0.5, 0.5])
    logits = np.array([[0, 17.7, 0], [0, 17.8, 0]])  # 18.4207 - log 2 = 17.7275
    assert debiased_labels(logits, bias, xi=1.0).tolist() == [0, 1]


def test_bias_moves_towards_the_mean_softmax() -> None:
    # 0.2 · (.5, .3, .2) + 0.8 · (.7, .2, .1) = (.66, .22, .12)
    logits = np.log([[0.8, 0.1, 0.1], [0.6, 0.3, 0.1]])
    updated = update_bias(np.array([0.5, 0.3, 0.2]), logits, SamplerOptions())
    assert updated == pytest.approx([0.66, 0.22, 0.12])


def test_confident_only_counts_samples_sure_after_debiasing() -> None:
    options = SamplerOptions(xi=0.5, momentum=0.5, confident_only=0.75)
    # (.8 .1 .1) de-biased is .8 : .1 : .2, at most .73; (.1 .1 .8) is .1 : .1 : 1.6, .89.
    logits = np.log([[0.8, 0.1, 0.1], [0.1, 0.1, 0.8]])
    updated = update_bias(BIAS, logits, options)
    assert updated == pytest.approx(0.5 * BIAS + 0.5 * np.array([0.1, 0.1, 0.8]))
    assert update_bias(BIAS, logits[:1], options) is BIAS  # nobody is sure
