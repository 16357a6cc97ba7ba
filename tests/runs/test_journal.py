"""Accuracy, a round's line, a run's summary: numbers by hand."""

import json
from dataclasses import replace

import numpy as np
import pytest

from feddiv.config.reading import load_experiment
from feddiv.data import Draw
from feddiv.methods.contract import Assessment, Corrected, Reply, Visit
from feddiv.runs.evaluate import CentralEvaluation
from feddiv.runs.journal import client_line, round_line
from feddiv.runs.summary import Closing, summarise


def test_accuracy_overall_balanced_and_per_class() -> None:
    # Class 0: 2 of 3 right; class 1: 0 of 1; class 2: 1 of 1; class 3 does not occur.
    sure = np.log(np.array([0.4, 0.2, 0.2, 0.2], np.float32))
    logits = np.stack([np.roll(sure, said) for said in (0, 0, 3, 0, 2)])
    measures = CentralEvaluation(labels=np.array([0, 0, 0, 1, 2]), classes=4).of(logits)
    assert measures["test_accuracy"] == pytest.approx(3 / 5)
    assert measures["per_class_accuracy"] == [pytest.approx(2 / 3), 0.0, 1.0, None]
    assert measures["balanced_accuracy"] == pytest.approx((2 / 3 + 0 + 1) / 3)
    assert measures["test_loss"] == pytest.approx(-(3 * np.log(0.4) + 2 * np.log(0.2)) / 5)
    json.dumps(measures)


def visit(divergence: float | None, **diary: object) -> Visit[None]:
    metrics = {} if divergence is None else {"divergence": divergence}
    return Visit(Reply(0, 10, metrics=metrics), None, diary)


def counts(flagged_wrong: int, flagged_right: int, kept_wrong: int, kept_right: int) -> dict:
    return {
        "flagged_wrong": flagged_wrong,
        "flagged_right": flagged_right,
        "kept_wrong": kept_wrong,
        "kept_right": kept_right,
    }


def test_line_of_a_visit() -> None:
    reply = Reply(3, 12, payload={"secret": np.zeros(2)}, metrics={"divergence": 0.5})
    assert client_line("train", reply, {"clean": 4}) == {
        "client": 3,
        "kind": "train",
        "samples": 12,
        "divergence": 0.5,
        "clean": 4,
    }


def test_line_of_a_round_pools_its_visits() -> None:
    line = round_line(
        [
            visit(
                2.0,
                filter=counts(3, 1, 1, 5),
                noise_level=0.4,
                true_noise_level=0.4,
                wrong=4,
                memorised=1,
                clean=6,
                noisy=4,
                relabelled=2,
            ),
            visit(
                4.0,
                filter=counts(1, 0, 1, 8),
                noise_level=0.1,
                true_noise_level=0.2,
                wrong=2,
                memorised=2,
                clean=9,
                noisy=1,
                relabelled=0,
            ),
            visit(None),  # an exchange that trains nothing
        ]
    )
    # Pooled counts 4, 1, 2, 13: f1 = 8 / (5 + 6); the mean |error| of the levels is 0.05.
    assert line["visits"] == 3
    assert line["divergence"] == 3.0
    assert line["filter"] == pytest.approx(
        {
            "accuracy": 17 / 20,
            "precision": 4 / 5,
            "recall": 4 / 6,
            "f1": 8 / 11,
            "noise_level_error": 0.05,
        }
    )
    assert line["memorisation"] == 3 / 6
    assert (line["clean"], line["noisy"], line["relabelled"]) == (15, 5, 2)


def test_line_of_a_round_adds_up_scores_and_what_was_trained_on() -> None:
    def scores(right: list[int], wrong: list[int], high: float = 1.0) -> dict:
        return {"low": 0.0, "high": high, "right": right, "wrong": wrong}

    first = visit(1.0, reselected=[9, 7], scores=scores([3, 1], [0, 2]))
    second = visit(1.0, reselected=[], scores=scores([1, 1], [1, 0]))  # had too little to train
    line = round_line([first, second, visit(None)])
    assert line["reselected"] == 7  # in the last epoch
    assert line["scores"] == {"low": 0.0, "high": 1.0, "right": [4, 2], "wrong": [1, 2]}
    other = visit(1.0, scores=scores([1, 1], [1, 0], high=2.0))
    assert round_line([first, other])["scores"] is None


def test_line_of_a_round_without_anything_to_tell() -> None:
    assert round_line([visit(None)]) == {
        "visits": 1,
        "divergence": None,
        "filter": None,
        "memorisation": None,
    }
    assert round_line([])["visits"] == 0


def draw(truth: list[int] | None) -> Draw:
    return Draw(
        dataset="toy",
        parts=(np.array([0, 2]), np.array([1, 3, 4])),
        given=np.array([0, 1, 1, 0, 1]),
        truth=None if truth is None else np.array(truth),
        levels=None,
        fingerprint="",
    )


# In the order of the clients the samples are 0, 2, 1, 3, 4.
OPINIONS = [
    (0, Assessment(np.array([0, 1]), np.array([0.9, 0.3]), np.array([-3.0, 1.0]))),
    (1, Assessment(np.array([1, 1, 0]), np.array([0.8, 0.2, 0.6]), np.array([-2.0, 2.0, 0.0]))),
]
TRUTH = [0, 1, 0, 1, 0]  # samples 2, 3 and 4 have wrong labels


def test_closing_puts_the_clients_side_by_side() -> None:
    arrays = Closing.of(draw(TRUTH), OPINIONS).arrays
    assert {key: value.tolist() for key, value in arrays.items()} == {
        "client": [0, 0, 1, 1, 1],
        "sample": [0, 2, 1, 3, 4],
        "given_label": [0, 1, 1, 0, 1],
        "true_label": [0, 0, 1, 1, 0],
        "predicted_label": [0, 1, 1, 1, 0],
        "label_quality": [0.9, 0.3, 0.8, 0.2, 0.6],
        "score": [-3.0, 1.0, -2.0, 2.0, 0.0],
    }


def test_closing_measures() -> None:
    # Flagged: samples 2 and 3, both wrong; 4 is wrong and kept. Predicted as given: only 2.
    measures = Closing.of(draw(TRUTH), OPINIONS).measures()
    assert measures["flagged"] == 2 / 5
    assert measures["wrong"] == 3 / 5
    assert measures["memorisation"] == pytest.approx(1 / 3)
    assert measures["filter"] == pytest.approx(
        {"accuracy": 4 / 5, "precision": 1.0, "recall": 2 / 3, "f1": 4 / 5, "auroc": 1.0}
    )


def test_closing_without_truth_or_without_opinion() -> None:
    unknown = Closing.of(draw(None), OPINIONS)
    assert "true_label" not in unknown.arrays
    assert unknown.measures() == {"flagged": 2 / 5, "filter": None}
    silent = [(client, Assessment(opinion.predicted)) for client, opinion in OPINIONS]
    measures = Closing.of(draw(TRUTH), silent).measures()
    assert measures["flagged"] is None
    assert measures["filter"] is None
    assert measures["memorisation"] == pytest.approx(1 / 3)


def test_closing_judges_labels_as_given_and_as_they_were_corrected() -> None:
    # Client 1 has corrected sample 3 (0 to 1, rightly) and 4 (1 to 0); client 0 has corrected none.
    corrected = Corrected(np.array([1, 1, 0]), np.array([0.8, 0.9, 0.4]))
    opinions = [OPINIONS[0], (1, replace(OPINIONS[1][1], corrected=corrected))]
    closing, plain = Closing.of(draw(TRUTH), opinions), Closing.of(draw(TRUTH), OPINIONS)
    assert closing.arrays["corrected_label"].tolist() == [0, 1, 1, 1, 0]
    assert closing.arrays["corrected_label_quality"].tolist() == [0.9, 0.3, 0.8, 0.9, 0.4]
    measures = closing.measures()
    judged = measures.pop("corrected_labels")
    assert measures == plain.measures()  # of the given labels, as ever
    # Only sample 2 is still wrong, and flagged; so is 4, which is right now.
    assert (judged["changed"], judged["flagged"], judged["wrong"]) == (2 / 5, 2 / 5, 1 / 5)
    assert judged["filter"] == pytest.approx(
        {"accuracy": 4 / 5, "precision": 0.5, "recall": 1.0, "f1": 2 / 3, "auroc": 1.0}
    )
    assert Closing.of(draw(None), opinions).measures()["corrected_labels"] == {
        "changed": 2 / 5,
        "flagged": 2 / 5,
    }


def test_closing_where_no_label_is_wrong() -> None:
    measures = Closing.of(draw([0, 1, 1, 0, 1]), OPINIONS).measures()
    assert measures["wrong"] == 0
    assert measures["memorisation"] is None


def test_summary() -> None:
    accuracies = [0.1, 0.9, *[0.5, 0.7] * 5]
    rounds = [
        {
            "round": 2 * (i + 1),
            "stage": "train",
            "test_accuracy": accuracy,
            "balanced_accuracy": accuracy / 2,
            "per_class_accuracy": [accuracy, None],
            "bytes_up": 3,
            "bytes_down": 5,
        }
        for i, accuracy in enumerate(accuracies)
    ]
    experiment = load_experiment(None, ["seed=6", "rounds=24", "method.variant=paper"])
    summary = summarise(
        experiment,
        ("cat", "dog"),
        draw(TRUTH),
        rounds,
        Closing.of(draw(TRUTH), OPINIONS),
        1.5,
        "ab",
    )
    expected = {
        "method": "feddiv",
        "variant": "paper",
        "dataset": "digits",
        "seed": 6,
        "rounds": 24,
        "best_test_accuracy": 0.9,
        "best_round": 4,
        "last_test_accuracy": 0.7,
        "mean_last10_test_accuracy": pytest.approx(0.6),
        "balanced_accuracy": 0.35,
        "classes": ["cat", "dog"],
        "per_class_accuracy": [0.7, None],
        "flagged": 0.4,
        "draw": draw(TRUTH).hash,
        "seconds": 1.5,
        "bytes_up": 36,
        "bytes_down": 60,
    }
    assert {key: summary[key] for key in expected} == expected
    json.dumps(summary)


def test_the_first_of_equally_good_rounds_is_the_best() -> None:
    line = {"balanced_accuracy": 0, "per_class_accuracy": [], "bytes_up": 0, "bytes_down": 0}
    rounds = [{**line, "round": r, "test_accuracy": a} for r, a in [(1, 0.2), (2, 0.8), (3, 0.8)]]
    closing = Closing.of(draw(TRUTH), OPINIONS)
    summary = summarise(load_experiment(), ("cat",), draw(TRUTH), rounds, closing, 0.0, "ab")
    assert summary["best_round"] == 2
    assert summary["mean_last10_test_accuracy"] == pytest.approx(0.6)  # of the three there are


def test_the_last_ten_are_none_of_warm_up() -> None:
    line = {"balanced_accuracy": 0, "per_class_accuracy": [], "bytes_up": 0, "bytes_down": 0}
    stages = ["warmup", "warmup", "train", "train"]
    rounds = [
        {**line, "round": number, "stage": stage, "test_accuracy": accuracy}
        for number, (stage, accuracy) in enumerate(zip(stages, (0.2, 0.9, 0.5, 0.7), strict=True))
    ]
    closing = Closing.of(draw(TRUTH), OPINIONS)
    summaries = [
        summarise(load_experiment(), ("cat",), draw(TRUTH), some, closing, 0.0, "ab")
        for some in (rounds, rounds[:2])
    ]
    assert summaries[0]["mean_last10_test_accuracy"] == pytest.approx(0.6)
    assert summaries[1]["mean_last10_test_accuracy"] is None
    assert [summary["last_test_accuracy"] for summary in summaries] == [0.7, 0.9]
    assert [summary["best_test_accuracy"] for summary in summaries] == [0.9, 0.9]
