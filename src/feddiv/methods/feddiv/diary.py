"""What FedDiv notes about a visit; it stays at the client (in simulation: clients.jsonl)."""

import numpy as np

from feddiv.core.arrays import Array, Labels
from feddiv.data import Samples
from feddiv.learning.quality import Confusion, auroc
from feddiv.methods.contract import Diary
from feddiv.methods.feddiv.division import Division


def visit_diary(
    samples: Samples,
    labels: Labels,
    p_clean: Array,
    logits: Array,
    division: Division,
    kept: list[Labels],
) -> Diary:
    """Sizes of the visit's sets and, where the truth is known, how good they are.

    `labels` are those that were judged: given, or corrected at an earlier visit. `kept` has the
    rows of each epoch (D_resel, or what was trained on without the sampler).
    """
    diary: Diary = {
        "noise_level": float((p_clean < 0.5).mean()),
        "dropped": division.noise_level,
        "clean": int(division.clean.sum()),
        "noisy": int((~division.clean).sum()),
        "pardoned": int(division.pardoned.sum()),
        "relabelled": int(division.relabelled.sum()),
        "reselected": [len(rows) for rows in kept],
    }
    given = samples.given.numpy()
    if corrected := int((labels != given).sum()):
        diary["corrected"] = corrected
    if samples.truth is None:
        return diary
    truth = samples.truth.numpy()
    wrong, given_wrong = labels != truth, given != truth
    predicted = logits.argmax(axis=1)
    candidates = np.flatnonzero(division.candidates)
    return diary | {
        "true_noise_level": float(wrong.mean()),
        "filter": Confusion.of(p_clean < 0.5, wrong).as_dict(),
        "auroc": auroc(p_clean, wrong),
        "relabelled_right": int((division.labels == truth)[division.relabelled].sum()),
        "memorised": int((predicted == given)[given_wrong].sum()),
        "wrong": int(given_wrong.sum()),
        "labels_filtered": _counts(truth[candidates], division.labels[candidates]),
        "labels_reselected": _counts(truth[kept[-1]], division.labels[kept[-1]]) if kept else [],
    }


def _counts(truth: Labels, labels: Labels) -> list[list[int]]:
    """The non-empty cells of the confusion matrix, as [true class, label, count]."""
    pairs, counts = np.unique(np.stack([truth, labels], axis=1), axis=0, return_counts=True)
    return [[int(a), int(b), int(n)] for (a, b), n in zip(pairs, counts, strict=True)]
