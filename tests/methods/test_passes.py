"""What a visit costs: samples forward and backward, counted on the net itself."""

from typing import Any

import numpy as np
import pytest

from feddiv.methods.feddiv.feddiv import FedDivMemory

EPOCHS, BATCH = 4, 5
# The means of each variant's scores for samples that the identity is sure of and right or wrong on.
FILTERS = {
    "plus": [-3.3, 4.0, 4.0, 4.0, 0.5, 0.5],
    "paper": [0.0, 0.6, 0.02, 0.02, 0.5, 0.5],
    "release": [0.0, 1.0, 0.05, 0.05, 0.5, 0.5],
}
# p-hat of a client that has seen class 0 too often: y-tilde is 0 only above 0.5 log 98 = 2.29.
MEMORY = FedDivMemory(np.array([0.98, 0.01, 0.01]), visits=6)


def method(bench: Any, variant: str = "plus", **settings: object) -> Any:
    training = {"train__epochs": EPOCHS, "train__batch": BATCH, "train__lr": 0.05}
    return bench.method(method__variant=variant, **training, **settings)


def noisy_client(bench: Any) -> Any:
    """24 samples, 12 right; of 12 wrong ones 6 are sure enough to be relabelled."""
    says = np.arange(24) % 3
    sizes = np.full(24, 4.0)
    sizes[says == 0] = np.linspace(2.1, 2.5, 8)  # the sampler changes its mind as they train
    sizes[18:] = 1.0  # not sure enough to be relabelled
    given = np.where(np.arange(24) < 12, says, (says + 1) % 3)
    return bench.client(np.eye(3)[says] * sizes[:, None], given, says)


def clean_client(bench: Any, samples: int = 17) -> Any:
    says = np.arange(samples) % 3
    return bench.sure(says, says)


def visit(bench: Any, method: Any, client: Any, memory: Any = MEMORY, kind: str = "train") -> Any:
    """The outcome; `bench.passes` has the count of this visit alone."""
    mixture = FILTERS.get(method.options.variant, FILTERS["plus"])
    bench.passes.clear()
    return method.visit(client, memory, bench.message(kind, mixture=mixture), bench.rng)


@pytest.mark.parametrize("variant", ["plus", "paper"])
def test_a_noisy_client_with_the_sampler(bench: Any, variant: str) -> None:
    client = noisy_client(bench)
    settings = {"method__sampler__enabled": True, "method__relabel__confidence": 0.75}
    diary = visit(bench, method(bench, variant, **settings), client).diary
    candidates, kept = diary["clean"] + diary["relabelled"], diary["reselected"]
    # The case says something: some samples sit out, and the sampler chooses anew by epoch.
    assert 0 < diary["relabelled"] < diary["noisy"]
    assert len(kept) == EPOCHS
    assert min(kept) >= 2
    assert len(set(kept)) > 1
    assert min(kept) < candidates
    assert bench.passes == {
        "plain": 24 + (EPOCHS - 1) * candidates + 24,
        "learn": sum(kept),
        "backward": sum(kept),
    }


@pytest.mark.parametrize("variant", ["plus", "paper"])
def test_a_clean_client(bench: Any, variant: str) -> None:
    client = clean_client(bench)
    diary = visit(bench, method(bench, variant, method__sampler__enabled=True), client).diary
    assert diary["reselected"] == [17] * EPOCHS
    assert bench.passes == {"plain": 17 + 17, "learn": EPOCHS * 17, "backward": EPOCHS * 17}


@pytest.mark.parametrize(
    ("settings", "passes"),
    [
        ({"sampler__enabled": False, "filter__fit": "global"}, 1),
        ({"sampler__enabled": False, "filter__fit": "local"}, 2),
        ({"sampler__enabled": True, "sampler__timing": "visit", "filter__fit": "global"}, 2),
        # The perfect filter has no scores to fit: nothing is left that needs the last pass.
        ({"sampler__enabled": False, "filter__scope": "perfect", "filter__fit": "local"}, 1),
        ({"sampler__enabled": False, "filter__scope": "perfect"}, 1),
    ],
)
@pytest.mark.parametrize("make", [noisy_client, clean_client])
def test_the_last_pass_is_for_p_hat_and_local_scores(
    bench: Any, make: Any, settings: dict, passes: int
) -> None:
    chosen = method(bench, **{f"method__{key}": value for key, value in settings.items()})
    client = make(bench)
    diary = visit(bench, chosen, client).diary
    trained = sum(diary["reselected"])
    assert trained > 0
    assert bench.passes == {"plain": passes * len(client), "learn": trained, "backward": trained}


def test_a_visit_that_cannot_train_learns_nothing(bench: Any) -> None:
    client = bench.sure([0, 1, 2], [1, 2, 0], size=0.9)  # all wrong, and never sure of it
    found = method(
        bench,
        "plus",
        method__filter__prior="shared",
        method__relabel__confidence=0.75,
        method__sampler__enabled=True,
    )
    bench.passes.clear()
    sharp = bench.message(mixture=[-4.0, 1.0, 0.3, 0.3, 0.5, 0.5])
    diary = found.visit(client, MEMORY, sharp, bench.rng).diary
    assert (diary["clean"], diary["relabelled"]) == (0, 0)
    assert bench.passes == {"plain": 3 + 3}


def test_warm_up_trains_and_does_nothing_else(bench: Any) -> None:
    for variant in ("plus", "paper"):
        visit(bench, method(bench, variant), noisy_client(bench), None, "warmup")
        assert bench.passes == {"learn": EPOCHS * 24, "backward": EPOCHS * 24}


@pytest.mark.parametrize("kind", ["bias", "filter"])
def test_openings_cost_one_pass(bench: Any, kind: str) -> None:
    visit(bench, method(bench), noisy_client(bench), None, kind)
    assert bench.passes == {"plain": 24}


def test_assessment_costs_one_pass(bench: Any) -> None:
    chosen, client = method(bench), noisy_client(bench)
    bench.passes.clear()
    chosen.assess(client, MEMORY, bench.message("assess", mixture=FILTERS["plus"]))
    assert bench.passes == {"plain": 24}


@pytest.mark.parametrize("variant", ["default", "mixup"])
def test_fedavg(bench: Any, variant: str) -> None:
    settings = {"train__epochs": EPOCHS, "train__batch": BATCH, "method__variant": variant}
    chosen = bench.method("fedavg", **settings)
    chosen.visit(noisy_client(bench), None, bench.message(), bench.rng)
    assert bench.passes == {"learn": EPOCHS * 24, "backward": EPOCHS * 24}


@pytest.mark.parametrize("visits", [0, 6])
def test_release_forwards_every_batch_twice_and_samples_without_passes(
    bench: Any, visits: int
) -> None:
    client = noisy_client(bench)
    stale = client.samples.truth.numpy().copy()
    stale[:2] = 2 - stale[:2]  # the sampler disagrees on sample 0
    memory = FedDivMemory(np.full(3, 1 / 3), visits, debiased=stale)
    diary = visit(bench, method(bench, "release"), client, memory).diary
    kept = diary["reselected"]
    first_visits = [diary["clean"]] * EPOCHS
    later = [diary["clean"] + diary["relabelled"] - 1] * EPOCHS
    assert diary["relabelled"] > 0
    assert kept == (later if visits else first_visits)
    assert bench.passes == {
        "plain": 24 + 24,
        "raw": sum(kept),
        "learn": sum(kept),
        "backward": sum(kept),
    }


def test_release_warms_up_with_the_raw_batches_too(bench: Any) -> None:
    visit(bench, method(bench, "release"), noisy_client(bench), None, "warmup")
    trained = EPOCHS * 24
    assert bench.passes == {"raw": trained, "learn": trained, "backward": trained}
