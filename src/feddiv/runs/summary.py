"""The end of a run in numbers."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from feddiv.config.experiment import Experiment, changed_options
from feddiv.config.sections import HeldOut
from feddiv.data import Draw
from feddiv.federation.federation import Totals
from feddiv.learning.quality import filter_quality
from feddiv.methods.contract import Assessment
from feddiv.runs.curve import after_warmup, mean_of_last
from feddiv.runs.evaluate import comparable

HELD_OUT = "held_out_"  # before the names of columns about samples that are kept out of training


@dataclass(frozen=True)
class Closing:
    """The clients' assessments of their labels, side by side; of real sites only the totals.

    Columns about samples that clients keep out of training have a name of their own and count for
    no measure.
    """

    arrays: dict[str, npt.NDArray[Any]]
    totals: tuple[Totals, ...] = ()

    @classmethod
    def of(cls, draw: Draw, assessments: Iterable[tuple[int, Assessment | Totals]]) -> "Closing":
        """Collect: one entry per sample of every client that answered."""
        columns: dict[str, list[npt.NDArray[Any]]] = {}
        kept_out: dict[str, list[npt.NDArray[Any]]] = {}
        totals: list[Totals] = []
        corrects = False
        for client, opinion in assessments:
            if isinstance(opinion, Totals):
                totals.append(opinion)
                continue
            entry = _entry(draw, client, draw.parts[client], opinion)
            entry["corrected_label"] = entry["given_label"]
            entry["corrected_label_quality"] = opinion.p_clean
            if opinion.corrected is not None:
                corrects = True
                entry["corrected_label"] = opinion.corrected.labels
                entry["corrected_label_quality"] = opinion.corrected.p_clean
            _add(columns, entry)
            if opinion.held_out is not None and draw.held_out is not None:
                _add(kept_out, _entry(draw, client, draw.held_out[client], opinion.held_out))
        arrays = {
            key: np.concatenate(values)
            for key, values in columns.items()
            if corrects or not key.startswith("corrected")
        }
        arrays |= {f"{HELD_OUT}{key}": np.concatenate(each) for key, each in kept_out.items()}
        return cls(arrays, tuple(totals))

    def measures(self) -> dict[str, Any]:
        """Filter quality, share flagged and memorisation over all samples of all clients.

        They judge labels as they were given; `corrected_labels` judges them as training has them
        now, where clients have corrected some for good.
        """
        if not self.arrays:
            return _counted(self.totals)
        given, predicted = self.arrays["given_label"], self.arrays["predicted_label"]
        quality = self.arrays.get("label_quality")
        flagged = None if quality is None else float((quality < 0.5).mean())
        result: dict[str, Any] = {"flagged": flagged, "filter": None}
        if "corrected_label" in self.arrays:
            result["corrected_labels"] = self._corrected()
        if "true_label" not in self.arrays:
            return result
        wrong = given != self.arrays["true_label"]
        memorised = float((predicted == given)[wrong].mean()) if wrong.any() else None
        result |= {"wrong": float(wrong.mean()), "memorisation": memorised}
        if quality is not None:
            result["filter"] = filter_quality(quality, wrong)
        return result

    def _corrected(self) -> dict[str, Any]:
        labels, quality = self.arrays["corrected_label"], self.arrays["corrected_label_quality"]
        result: dict[str, Any] = {
            "changed": float((labels != self.arrays["given_label"]).mean()),
            "flagged": float((quality < 0.5).mean()),
        }
        if "true_label" in self.arrays:
            wrong = labels != self.arrays["true_label"]
            result |= {"wrong": float(wrong.mean()), "filter": filter_quality(quality, wrong)}
        return result


def _entry(
    draw: Draw, client: int, part: npt.NDArray[np.int64], opinion: Assessment
) -> dict[str, npt.NDArray[Any] | None]:
    return {
        "client": np.full(len(part), client),
        "sample": part,
        "given_label": draw.given[part],
        "true_label": None if draw.truth is None else draw.truth[part],
        "predicted_label": opinion.predicted,
        "label_quality": opinion.p_clean,
        "score": opinion.scores,
        "second_opinion": opinion.second_opinion,
        "confidence": opinion.confidence,
    }


def _add(
    columns: dict[str, list[npt.NDArray[Any]]], entry: Mapping[str, npt.NDArray[Any] | None]
) -> None:
    for key, value in entry.items():
        if value is not None:
            columns.setdefault(key, []).append(value)


def _counted(totals: Sequence[Totals]) -> dict[str, Any]:
    """The same from totals, as far as counts tell."""
    samples = sum(each.samples for each in totals)
    flagged = [each.flagged for each in totals if each.flagged is not None]
    result: dict[str, Any] = {
        "assessed_clients": len(totals),
        "flagged": sum(flagged) / samples if samples and len(flagged) == len(totals) else None,
        "filter": None,
    }
    known = [each.confusion for each in totals if each.confusion is not None]
    if known and len(known) == len(totals):
        confusion = sum(known[1:], known[0])
        wrong = confusion.flagged_wrong + confusion.kept_wrong
        result |= {"wrong": wrong / samples, "filter": {**confusion.measures(), "auroc": None}}
    return result


def accuracies(key: str, measured: Sequence[dict[str, Any]]) -> dict[str, float | None]:
    """Best, last, and mean of the last ten after warm-up of a measure; None where there is none."""
    known = [line[key] for line in measured if line[key] is not None]
    return {
        f"best_{key}": max((line[key] for line in comparable(measured, key)), default=None),
        f"last_{key}": float(known[-1]) if known else None,
        f"mean_last10_{key}": mean_of_last(after_warmup(measured, key)),
    }


def _held_out(draw: Draw, measured: Sequence[dict[str, Any]]) -> dict[str, Any]:
    kept = None if draw.held_out is None else sum(map(len, draw.held_out))
    return {
        **accuracies("held_out_accuracy", measured),
        **accuracies("believed_accuracy", measured),
        "believed": measured[-1]["believed"],
        "held_out_samples": kept,  # None: they are at sites, and rounds tell of those who answered
        "last_held_out_true_accuracy": measured[-1]["held_out_true_accuracy"],
        "examination_bytes_up": sum(line["examination_bytes_up"] for line in measured),
        "examination_bytes_down": sum(line["examination_bytes_down"] for line in measured),
    }


def _doubtful(measured: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """What is measured beside the test accuracy where test labels are doubtful."""
    # Rounds before a resume may be of an earlier version, which did not.
    asked = [line for line in measured if "believed_accuracy" in line]
    if not asked:
        return {}
    return {
        "doubtful_test_labels": True,
        **accuracies("believed_accuracy", asked),
        "believed": asked[-1]["believed"],
    }


def corrections_summary(draw: Draw) -> dict[str, Any]:
    """What experts have changed of the clients' labels and, given the truth, how much it helped.

    `wrong_before` and `wrong_after` are shares of all labels, `wrong_trusted` counts those that the
    experts themselves got wrong.
    """
    assert draw.trusted is not None
    assert draw.uncorrected is not None
    held = np.concatenate([*draw.parts, *(draw.held_out or ())])
    trusted, given, before = draw.trusted[held], draw.given[held], draw.uncorrected[held]
    changed = int((given != before).sum())
    result: dict[str, Any] = {"confirmed": int(trusted.sum()) - changed, "corrected": changed}
    if draw.truth is None:
        return result
    truth = draw.truth[held]
    return result | {
        "wrong_before": float((before != truth).mean()),
        "wrong_after": float((given != truth).mean()),
        "wrong_trusted": int((given != truth)[trusted].sum()),
    }


def summarise(
    experiment: Experiment,
    classes: Sequence[str],
    draw: Draw,
    rounds: Sequence[dict[str, Any]],
    closing: Closing,
    seconds: float,
    model: str,
) -> dict[str, Any]:
    """summary.json. `best` is chosen on the test set, as papers do: it is named so.

    Without a test set the test accuracies are None; those on held-out samples are beside them.
    With doubtful test labels the accuracies on believed ones are.
    """
    measure = experiment.evaluation.measure
    measured = [line for line in rounds if line[measure] is not None]
    measured = measured or list(rounds[-1:])  # sums of counts that failed: nothing is known
    best = max(comparable(rounds, measure), key=lambda line: float(line[measure]), default=None)
    last = measured[-1]
    return {
        "method": experiment.method.name,
        "variant": experiment.method.variant,
        "changed_options": changed_options(experiment),
        "dataset": experiment.data.source,
        "seed": experiment.seed,
        "rounds": experiment.rounds,
        **accuracies("test_accuracy", measured),
        "best_round": None if best is None else best["round"],
        **(
            _held_out(draw, measured)
            if isinstance(experiment.evaluation, HeldOut)
            else _doubtful(measured)
        ),
        "balanced_accuracy": last["balanced_accuracy"],
        "classes": list(classes),
        "per_class_accuracy": last["per_class_accuracy"],
        **closing.measures(),
        **({} if draw.trusted is None else {"corrections": corrections_summary(draw)}),
        "draw": draw.hash,
        "model_hash": model,
        "seconds": seconds,
        "bytes_up": sum(line["bytes_up"] for line in rounds),
        "bytes_down": sum(line["bytes_down"] for line in rounds),
    }
