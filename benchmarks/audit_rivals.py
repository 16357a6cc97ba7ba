"""What a site would use instead: cleanlab, with cross-validated probabilities of the same net.

Each net is trained from the start on four fifths of the samples, with the preset's batch, learning
rate and augmentation and plain cross-entropy, and predicts the fifth that it has not seen.
"""

import warnings
from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np
import torch
from audit_measures import Verdict
from cleanlab.filter import find_label_issues
from cleanlab.rank import get_label_quality_scores

from feddiv.core.arrays import Array, Labels, Rows
from feddiv.core.randomness import Streams
from feddiv.data import Draw, Samples
from feddiv.data.samples import client_samples
from feddiv.federation.workspace import Workspace
from feddiv.learning.predict import predict_array
from feddiv.learning.train import TrainOptions, cross_entropy, sgd, train

FOLDS = 5
FEW = "May not flag all label issues in class"  # said of every class with a label or two


def alone(draw: Draw) -> list[list[int]]:
    """Every client by itself."""
    return [[client] for client in range(len(draw.parts))]


def pooled(draw: Draw) -> list[list[int]]:
    """All clients' data in one place."""
    return [list(range(len(draw.parts)))]


def predictions(
    workspace: Workspace,
    groups: Sequence[Sequence[int]],
    options: TrainOptions,
    seed: int,
    epochs: Sequence[int],
) -> list[list[Array]]:
    """Probabilities of each group's samples after each of these numbers of epochs.

    They are of nets that were trained in the group and have not seen the sample. First by number of
    epochs, then by group: [n, C], client after client.
    """
    found: list[list[Array]] = [[] for _ in epochs]
    for number, group in enumerate(groups):
        here = Streams(seed, client=number).within("cleanlab")
        made = cross_validated(workspace, _together(workspace, group), options, here, epochs)
        for place, probabilities in enumerate(made):
            found[place].append(probabilities)
    return found


def _together(workspace: Workspace, group: Sequence[int]) -> Samples:
    """The samples of these clients as those of one."""
    draw = workspace.draw
    joined = np.concatenate([draw.parts[client] for client in group])
    return client_samples(workspace.dataset, replace(draw, parts=(joined,)), 0)


def cross_validated(
    workspace: Workspace,
    samples: Samples,
    options: TrainOptions,
    rng: Streams,
    epochs: Sequence[int],
) -> list[Array]:
    """Probabilities [n, C] after each of these numbers of epochs, by nets that did not see them."""
    once = options.model_copy(update={"epochs": 1})
    classes, everyone = len(workspace.dataset.classes), np.arange(len(samples))
    found = [np.empty((len(samples), classes)) for _ in epochs]
    for number, held in enumerate(folds(samples.given.numpy(), rng)):
        here = rng.within(f"fold {number}")
        net = workspace.load("net", workspace.make_model("net", here))
        seen = torch.from_numpy(np.setdiff1d(everyone, held))
        chosen = seen, samples.given[seen]
        optimiser = sgd(net, options)
        for epoch in range(1, max(epochs) + 1):  # one by one: more of them begin with the same ones
            part = here.within(f"epoch {epoch}")
            train(net, samples, lambda _, it=chosen: it, cross_entropy, once, part, optimiser)
            if epoch in epochs:
                logits = predict_array(net, samples, torch.from_numpy(held))
                found[epochs.index(epoch)][held] = torch.from_numpy(logits).softmax(dim=1).numpy()
    return found


def folds(labels: Labels, rng: Streams) -> list[Rows]:
    """Rows of each fold; a class is spread over all of them as evenly as can be."""
    shuffled = rng.numpy("folds").permutation(len(labels))
    by_class = shuffled[np.argsort(labels[shuffled], kind="stable")]
    return [np.sort(by_class[fold::FOLDS]) for fold in range(FOLDS) if len(by_class[fold::FOLDS])]


def by_cleanlab(
    given: Sequence[Labels], probabilities: Array, ranking: str = "self_confidence"
) -> list[Verdict]:
    """What cleanlab says of the labels of clients whose data are in one place, for each of them.

    Issues by its default rule, quality by `ranking`, and the share from its own count of issues,
    those off the diagonal of the confident joint. It has nothing to say of labels that are all the
    same: there is no other class to confuse them with.
    """
    labels = np.concatenate(given)
    flagged = counted = np.zeros(len(labels), np.bool_)
    quality = np.ones(len(labels))
    if len(np.unique(labels)) > 1:
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", FEW)
            flagged = find_label_issues(labels, probabilities, n_jobs=1)
        counted = find_label_issues(labels, probabilities, filter_by="confident_learning", n_jobs=1)
        quality = get_label_quality_scores(labels, probabilities, method=ranking)
    ends = np.cumsum([len(each) for each in given])[:-1]
    parts = (np.split(each, ends) for each in (quality, flagged, counted))
    return [Verdict(q, f, float(c.mean())) for q, f, c in zip(*parts, strict=True)]


def verdicts(
    draw: Draw,
    groups: Sequence[Sequence[int]],
    probabilities: Sequence[Array],
    ranking: str = "self_confidence",
) -> Iterator[Verdict]:
    """Of every client, by cleanlab in each group."""
    for group, predicted in zip(groups, probabilities, strict=True):
        given = [draw.given[draw.parts[client]] for client in group]
        yield from by_cleanlab(given, predicted, ranking)
