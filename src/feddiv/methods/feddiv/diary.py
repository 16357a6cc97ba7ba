"""What FedDiv notes about a visit; it stays at the client (in simulation: clients.jsonl)."""

import numpy as np

from feddiv.core.arrays import Array, Labels, Mask
from feddiv.data import Samples
from feddiv.learning.quality import Confusion, auroc, confusion_cells
from feddiv.methods.contract import Diary
from feddiv.methods.feddiv.division import Division
from feddiv.methods.feddiv.filter import NoiseFilter

SCORE_BINS = 32
UNBOUNDED = (0.0, 10.0)  # where cross-entropy is counted: it has no upper end


def visit_diary(
    samples: Samples,
    labels: Labels,
    scores: Array,
    p_clean: Array,
    logits: Array,
    division: Division,
    kept: list[Labels],
    noise_filter: NoiseFilter,
) -> Diary:
    """Sizes of the visit's sets and, where the truth is known, how good they are.

    `labels` are those that were judged: given, or corrected at an earlier visit, by these raw
    `scores`. `kept` has the rows of each epoch (D_resel, or what was trained on without the
    sampler).
    """
    truth = None if samples.truth is None else samples.truth.numpy()
    diary: Diary = {
        "noise_level": float((p_clean < 0.5).mean()),
        "dropped": division.noise_level,
        "clean": int(division.clean.sum()),
        "noisy": int((~division.clean).sum()),
        "pardoned": int(division.pardoned.sum()),
        "relabelled": int(division.relabelled.sum()),
        "reselected": [len(rows) for rows in kept],
        "scores": score_histogram(scores, None if truth is None else labels != truth, noise_filter),
    }
    given = samples.given.numpy()
    if corrected := int((labels != given).sum()):
        diary["corrected"] = corrected
    if truth is None:
        return diary
    wrong, given_wrong = labels != truth, given != truth
    predicted = logits.argmax(axis=1)
    candidates = np.flatnonzero(division.candidates)

    def cells(rows: Labels) -> list[list[int]]:
        return confusion_cells(truth[rows], division.labels[rows])

    return diary | {
        "true_noise_level": float(wrong.mean()),
        "filter": Confusion.of(p_clean < 0.5, wrong).as_dict(),
        "auroc": auroc(p_clean, wrong),
        "relabelled_right": int((division.labels == truth)[division.relabelled].sum()),
        "memorised": int((predicted == given)[given_wrong].sum()),
        "wrong": int(given_wrong.sum()),
        "labels_filtered": cells(candidates),
        "labels_reselected": confusion_cells(truth[kept[-1]], division.labels[kept[-1]])
        if kept
        else [],
    }


def score_histogram(scores: Array, wrong: Mask | None, noise_filter: NoiseFilter) -> Diary:
    """How many labels have which score as the filter sees it, in bins that all clients share."""
    options = noise_filter.options
    bounded = options.scale == "minmax" or options.score != "cross_entropy"
    low, high = noise_filter.bounds() if bounded else UNBOUNDED
    scaled = np.clip(noise_filter.scale(scores), low, high)

    def counts(chosen: Mask | slice) -> list[int]:
        found = np.histogram(scaled[chosen], bins=SCORE_BINS, range=(low, high))[0]
        return [int(count) for count in found]

    if wrong is None:
        return {"low": low, "high": high, "given": counts(slice(None))}
    return {"low": low, "high": high, "right": counts(~wrong), "wrong": counts(wrong)}
