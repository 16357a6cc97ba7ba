"""The end of a run in numbers."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from feddiv.config import Experiment, changed_options
from feddiv.data import Draw
from feddiv.learning.quality import filter_quality
from feddiv.methods.contract import Assessment


@dataclass(frozen=True)
class Closing:
    """The clients' assessments of their labels, side by side; in simulation only."""

    arrays: dict[str, npt.NDArray[Any]]

    @classmethod
    def of(cls, draw: Draw, assessments: Iterable[tuple[int, Assessment]]) -> "Closing":
        """Collect: one entry per sample of every client that answered."""
        columns: dict[str, list[npt.NDArray[Any]]] = {}
        for client, opinion in assessments:
            part = draw.parts[client]
            entry: dict[str, npt.NDArray[Any] | None] = {
                "client": np.full(len(part), client),
                "sample": part,
                "given_label": draw.given[part],
                "true_label": None if draw.truth is None else draw.truth[part],
                "predicted_label": opinion.predicted,
                "label_quality": opinion.p_clean,
                "score": opinion.scores,
            }
            for key, value in entry.items():
                if value is not None:
                    columns.setdefault(key, []).append(value)
        return cls({key: np.concatenate(values) for key, values in columns.items()})

    def measures(self) -> dict[str, Any]:
        """Filter quality, share flagged and memorisation over all samples of all clients."""
        given, predicted = self.arrays["given_label"], self.arrays["predicted_label"]
        quality = self.arrays.get("label_quality")
        flagged = None if quality is None else float((quality < 0.5).mean())
        result: dict[str, Any] = {"flagged": flagged, "filter": None}
        if "true_label" not in self.arrays:
            return result
        wrong = given != self.arrays["true_label"]
        memorised = float((predicted == given)[wrong].mean()) if wrong.any() else None
        result |= {"wrong": float(wrong.mean()), "memorisation": memorised}
        if quality is not None:
            result["filter"] = filter_quality(quality, wrong)
        return result


def summarise(
    experiment: Experiment,
    draw: Draw,
    rounds: Sequence[dict[str, Any]],
    closing: Closing,
    seconds: float,
    model: str,
) -> dict[str, Any]:
    """summary.json. `best` is chosen on the test set, as papers do: it is named so."""
    measured = [line for line in rounds if line["test_accuracy"] is not None]
    accuracy = np.array([line["test_accuracy"] for line in measured])
    last = measured[-1]
    return {
        "method": experiment.method.name,
        "variant": experiment.method.variant,
        "changed_options": changed_options(experiment),
        "dataset": experiment.data.source,
        "seed": experiment.seed,
        "rounds": experiment.rounds,
        "best_test_accuracy": float(accuracy.max()),
        "best_round": measured[int(accuracy.argmax())]["round"],
        "last_test_accuracy": float(accuracy[-1]),
        "mean_last10_test_accuracy": float(accuracy[-10:].mean()),
        "balanced_accuracy": last["balanced_accuracy"],
        "per_class_accuracy": last["per_class_accuracy"],
        **closing.measures(),
        "draw": draw.hash,
        "model_hash": model,
        "seconds": seconds,
        "bytes_up": sum(line["bytes_up"] for line in rounds),
        "bytes_down": sum(line["bytes_down"] for line in rounds),
    }
