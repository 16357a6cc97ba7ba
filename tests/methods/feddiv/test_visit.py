"""FedDiv's client: what it sends, what it keeps, and what it trains on."""

from typing import Any

import numpy as np
import pytest
import torch
from tests.methods.visits import (
    UNIFORM,
    arrays,
    checked,
    kept,
    message,
    method,
    mixed_client,
    softmax,
    unchanged,
)

from feddiv.federation.reply_check import Refused
from feddiv.learning.score import debias, label_scores
from feddiv.methods.feddiv.exchanges import openings
from feddiv.methods.feddiv.feddiv import FedDivMemory
from feddiv.methods.feddiv.feddiv_options import VARIANTS
from feddiv.methods.feddiv.filter import NoiseFilter

# What is sent

TRAINED = [name for name in VARIANTS if name != "audit"]
SENT = {
    "plus": {
        "histogram": (64,),
        "softmax": (3,),
        "tally": (3, 3),
        "likelihood": (8,),
        "trusted": (),
    },
    "local-filter": {},
    "perfect-filter": {"trusted": ()},
}
PAPERS = {"mixture": (6,)}


@pytest.mark.parametrize("variant", TRAINED)
@pytest.mark.parametrize("samples", [20, 200])
def test_a_training_visit_sends_totals_and_nothing_per_sample(
    bench: Any, variant: str, samples: int
) -> None:
    chosen, client = method(bench, variant), mixed_client(bench, samples - 6, 6)
    sent = message(bench, chosen)
    outcome = chosen.visit(client, None, sent, bench.rng)
    checked(chosen, outcome, sent, client)
    shapes = {name: value.shape for name, value in outcome.reply.payload.items()}
    assert shapes == SENT.get(variant, PAPERS)
    assert outcome.reply.metrics.keys() == {"divergence"}
    assert outcome.reply.metrics["divergence"] > 0
    assert (outcome.reply.client, outcome.reply.samples) == (0, samples)


@pytest.mark.parametrize("variant", TRAINED)
def test_openings_and_warm_up_send_what_they_are_for(bench: Any, variant: str) -> None:
    chosen, client = method(bench, variant), mixed_client(bench)
    names: dict[str, set[str]] = {"bias": set(), "filter": set()}
    for kind in ("warmup", *openings(chosen.options)):
        sent = message(bench, chosen, kind)
        outcome = chosen.visit(client, None, sent, bench.rng)
        checked(chosen, outcome, sent, client)
        names[kind] = set(outcome.reply.payload)
        assert (outcome.reply.weights is not None) == (kind == "warmup")
        assert outcome.memory.visits == 0
    expected = set(SENT.get(variant, PAPERS)) - {"tally", "trusted"}
    assert names["warmup"] == set()
    assert names["bias"] == expected & {"softmax", "likelihood"}
    assert names["filter"] == expected - {"softmax", "likelihood"}


@pytest.mark.parametrize("scope", ["local", "perfect"])
def test_other_scopes_upload_nothing_of_the_filter(bench: Any, scope: str) -> None:
    chosen = method(bench, method__filter__scope=scope)
    outcome = chosen.visit(mixed_client(bench), None, message(bench, chosen), bench.rng)
    shared = {"softmax", "trusted"}
    assert outcome.reply.payload.keys() <= shared, "p-bar may be shared, scores are not"
    assert (outcome.memory.filter.summary is not None) == (scope == "local")


def test_raw_losses_stay_within_what_is_declared(bench: Any) -> None:
    # Cross-entropy has no upper end: 40 for each of three labels of class 1.
    settings = {
        "score": "cross_entropy",
        "aggregate": "mean",
        "no_noise_rule": False,
        "second_opinion": False,
        "starved_below": 0.0,
    }
    chosen = method(bench, **{f"method__filter__{key}": value for key, value in settings.items()})
    client = bench.sure([0, 1, 2, 0], [1, 1, 1, 1], size=40.0)
    sent = message(bench, chosen)
    checked(chosen, chosen.visit(client, None, sent, bench.rng), sent, client)


@pytest.mark.parametrize("variant", TRAINED)
def test_a_training_that_explodes_gives_a_reply_that_is_refused(bench: Any, variant: str) -> None:
    chosen = method(bench, variant, train__lr=1e38, train__epochs=4)
    client = mixed_client(bench, spread=1.0)
    sent = message(bench, chosen)
    outcome = chosen.visit(client, None, sent, bench.rng)
    with pytest.raises(Refused, match="is not finite"):
        checked(chosen, outcome, sent, client)


def test_trusted_are_the_labels_expected_to_be_right_among_those_trained_on(bench: Any) -> None:
    chosen, client = method(bench, "perfect-filter"), mixed_client(bench)  # 14 right, 6 wrong
    sent = message(bench, chosen, gain=9.0)  # so sure that all six are relabelled
    outcome = chosen.visit(client, None, sent, bench.rng)
    assert float(outcome.reply.payload["trusted"]) == 20
    sent = message(bench, chosen, gain=0.05)  # sure of nothing
    outcome = chosen.visit(client, None, sent, bench.rng)
    assert float(outcome.reply.payload["trusted"]) == 14


# What is kept


@pytest.mark.parametrize("fit", ["global", "local"])
@pytest.mark.parametrize("score", ["log_odds", "bounded"])
def test_changes_of_two_visits_sum_to_the_current_totals(bench: Any, fit: str, score: str) -> None:
    filters = {"fit": fit, "score": score, "no_noise_rule": False, "second_opinion": False}
    chosen = method(bench, **{f"method__filter__{key}": value for key, value in filters.items()})
    client = mixed_client(bench)
    given = client.samples.given.numpy()
    memory, totals = None, {}
    for gain in (1.0, 0.4):
        sent = message(bench, chosen, gain=gain)
        outcome = kept(chosen.visit(client, memory, sent, bench.rng))
        memory = outcome.memory
        for name, change in outcome.reply.payload.items():
            totals[name] = totals.get(name, 0) + change

    bias = sent.payload["bias"]
    received = bench.logits(sent.weights["net"], client)
    fitted = bench.logits(outcome.reply.weights["net"], client) if fit == "local" else received
    scores = label_scores(debias(fitted, bias), given, score)
    options = chosen.options.filter
    assert np.array_equal(totals["histogram"], NoiseFilter(options, 3).summarise(scores))
    assert np.array_equal(memory.filter.summary, totals["histogram"])
    assert totals["softmax"] == pytest.approx(softmax(received).sum(axis=0))
    # The tally is about the received model in any case.
    scores = label_scores(debias(received, bias), given, score)
    assert totals["tally"][0].tolist() == np.bincount(given).tolist()
    assert totals["tally"][2] == pytest.approx(np.bincount(given, weights=scores))


@pytest.mark.parametrize(("variant", "momentum"), [("paper", 0.2), ("release", 0.5)])
def test_p_hat_moves_to_the_trained_models_mean_prediction(
    bench: Any, variant: str, momentum: float
) -> None:
    chosen, client = method(bench, variant), mixed_client(bench)
    before = np.array([0.5, 0.3, 0.2])
    outcome = chosen.visit(
        client, FedDivMemory(before, visits=3), message(bench, chosen), bench.rng
    )
    # All predictions are surer than .85: the released code averages them all as well.
    mean = softmax(bench.logits(outcome.reply.weights["net"], client)).mean(axis=0)
    assert outcome.memory.bias == pytest.approx(momentum * before + (1 - momentum) * mean)
    assert outcome.memory.visits == 4


def test_p_hat_starts_uniform_and_rests_without_the_sampler(bench: Any) -> None:
    chosen = method(bench, method__sampler__enabled=False)
    outcome = chosen.visit(mixed_client(bench), None, message(bench, chosen), bench.rng)
    assert outcome.memory.bias == pytest.approx(UNIFORM)
    assert outcome.memory.visits == 1


def test_warm_up_leaves_the_memory_blank(bench: Any) -> None:
    chosen = method(bench, "paper")
    outcome = chosen.visit(mixed_client(bench), None, message(bench, chosen, "warmup"), bench.rng)
    memory = outcome.memory
    assert memory.bias == pytest.approx(UNIFORM)
    assert (memory.visits, memory.labels, memory.debiased) == (0, None, None)
    assert memory.filter.summary is None


@pytest.mark.parametrize("variant", ["plus", "release"])
def test_a_visit_changes_nothing_but_what_it_returns(bench: Any, variant: str) -> None:
    chosen, client = method(bench, variant), mixed_client(bench)
    sent = message(bench, chosen)
    memory = chosen.visit(client, None, sent, bench.rng).memory
    before = [array.copy() for array in arrays(memory)]
    given = client.samples.given.clone()
    assert len(before) > 2
    first = kept(chosen.visit(client, memory, sent, bench.rng))
    again = kept(chosen.visit(client, memory, sent, bench.rng))
    assert all(np.array_equal(a, b) for a, b in zip(arrays(memory), before, strict=True))
    assert torch.equal(client.samples.given, given)
    assert unchanged(first, type(sent)("train", again.reply.weights)), "twice the same"


# What is trained on


def test_the_regulariser_is_switched_by_eta(bench: Any) -> None:
    chosen, client = method(bench), mixed_client(bench)
    for kind in ("train", "warmup"):
        off, on = (
            kept(chosen.visit(client, None, message(bench, chosen, kind, eta=eta), bench.rng))
            for eta in (0.0, 1.0)
        )
        assert not unchanged(on, type(message(bench, chosen))(kind, off.reply.weights))


def test_pardoned_labels_train(bench: Any) -> None:
    chosen, client = method(bench, method__sampler__enabled=False), mixed_client(bench)
    outcome = chosen.visit(client, None, message(bench, chosen), bench.rng)
    assert outcome.diary["clean"] == 14
    # The wrong labels, 2 of each class, all have scores of about 4 (less or more by p-bar).
    pardons = [-np.inf, 6.0, -np.inf]
    rescued = chosen.visit(client, None, message(bench, chosen, pardons=pardons), bench.rng)
    assert rescued.diary["clean"] == 16
    assert rescued.diary["filter"] == outcome.diary["filter"], "the filter's own opinion"
    kept = [visit.reply.payload["tally"][1] for visit in (outcome, rescued)]
    assert np.array_equal(kept[0], kept[1])


def test_corrected_labels_are_kept_for_good_by_the_released_code(bench: Any) -> None:
    chosen, client = method(bench, "release"), mixed_client(bench)
    sent = message(bench, chosen)
    first = chosen.visit(client, None, sent, bench.rng)
    assert (first.diary["noisy"], first.diary["relabelled"]) == (6, 6)
    assert first.memory.labels.tolist() == client.samples.truth.tolist()
    second = chosen.visit(client, first.memory, sent, bench.rng)
    assert second.diary["noisy"] == 0
    assert second.diary["reselected"] == [20, 20]
    # An opinion of labels is one of the labels as they were given.
    opinion = chosen.assess(client, second.memory, message(bench, chosen, "assess"))
    given = client.samples.given.numpy()
    assert opinion.scores == pytest.approx(
        label_scores(bench.logits(bench.identity(), client), given, "bounded")
    )
    assert (opinion.p_clean < 0.5).tolist() == [False] * 14 + [True] * 6
    assert opinion.predicted.tolist() == client.samples.truth.tolist()


def test_what_the_sampler_doubts_is_not_corrected_for_good(bench: Any) -> None:
    chosen, client = method(bench, "release"), mixed_client(bench)
    stale = client.samples.truth.numpy().copy()
    stale[-1] = (stale[-1] + 1) % 3
    memory = FedDivMemory(UNIFORM, visits=1, debiased=stale)
    labels = chosen.visit(client, memory, message(bench, chosen), bench.rng).memory.labels
    expected = client.samples.truth.numpy().copy()
    expected[-1] = client.samples.given[-1]
    assert labels.tolist() == expected.tolist()


def test_the_paper_forgets_new_labels_after_the_visit(bench: Any) -> None:
    chosen, client = method(bench, "paper"), mixed_client(bench)
    memory = None
    for _ in range(2):
        outcome = chosen.visit(client, memory, message(bench, chosen), bench.rng)
        memory = outcome.memory
        assert memory.labels is None
        assert outcome.diary["relabelled"] == 6


@pytest.mark.parametrize(
    ("variant", "wrong", "kept"),
    [
        ("paper", 2, 20),  # noise level 0.1: a clean client, all labels as given
        ("paper", 3, 20),
        ("release", 2, 20),
        ("release", 3, 17),  # up to 0.2 the released code relabels, but trains without them
        ("release", 4, 16),
        ("release", 5, 20),
    ],
)
def test_relabelled_samples_train_above_a_noise_level(
    bench: Any, variant: str, wrong: int, kept: int
) -> None:
    chosen, client = method(bench, variant), mixed_client(bench, 20 - wrong, wrong)
    memory = FedDivMemory(UNIFORM, visits=5, debiased=client.samples.truth.numpy())
    diary = chosen.visit(client, memory, message(bench, chosen), bench.rng).diary
    assert diary["noise_level"] == pytest.approx(wrong / 20)
    assert diary["relabelled"] == (wrong if wrong > 2 else 0)
    assert diary["reselected"][0] == kept


@pytest.mark.parametrize(("visits", "kept"), [(0, 14), (4, 14), (5, 18), (9, 18)])
def test_the_released_sampler_starts_with_a_clients_sixth_visit(
    bench: Any, visits: int, kept: int
) -> None:
    chosen, client = method(bench, "release"), mixed_client(bench)
    stale = client.samples.truth.numpy().copy()
    stale[[0, 19]] = (stale[[0, 19]] + 1) % 3  # doubts about a clean and a relabelled sample
    memory = FedDivMemory(UNIFORM, visits, debiased=stale)
    diary = chosen.visit(client, memory, message(bench, chosen), bench.rng).diary
    assert diary["reselected"] == [kept, kept]
