"""A client's side of the federated filter: its scores, its decisions, what it uploads."""

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from feddiv.core.arrays import Array, Labels
from feddiv.learning.gaussian_mixture import Mixture
from feddiv.learning.score import debias, label_scores, log_softmax
from feddiv.methods.feddiv.filter import FilterOptions, NoiseFilter
from feddiv.methods.feddiv.second_opinion import log_likelihoods
from feddiv.methods.feddiv.starvation import class_tally


@dataclass(frozen=True)
class FilterMemory:
    """What the client last uploaded, so that it can upload changes; it stays at the client."""

    summary: Array | None = None  # histogram or mixture of its scores
    softmax: Array | None = None  # summed over its samples
    tally: Array | None = None  # per class: labels, labels kept, summed score
    likelihood: Array | None = None  # of the given labels, at each temperature


class ClientFilter:
    """The filter a client received, together with what it remembers; uploads move its `memory` on.

    `received` may hold `mixture`, the six numbers of W^(t), `bias`, p-bar, `pardons`, the scores up
    to which labels of starved classes are kept, and `temperature`, by which a model is calibrated.
    """

    def __init__(
        self,
        options: FilterOptions,
        classes: int,
        memory: FilterMemory,
        received: Mapping[str, Array],
    ) -> None:
        self.options, self.classes, self.memory = options, classes, memory
        self.bias, self.pardons = received.get("bias"), received.get("pardons")
        self.temperature = float(received.get("temperature", 1.0))
        shared = received.get("mixture")
        self.filter = NoiseFilter(
            options, classes, None if shared is None else Mixture.unpacked(shared)
        )
        if options.scope == "local":
            self.filter = self._own()

    def _own(self) -> NoiseFilter:
        """With scope=local: the filter that the client's own scores gave at its last visit."""
        blank = NoiseFilter(self.options, self.classes)
        if self.memory.summary is None:
            return blank
        if self.options.aggregate == "histogram":
            return blank.from_histogram(self.memory.summary)
        return replace(blank, mixture=Mixture.unpacked(self.memory.summary))

    def scores(self, logits: Array, labels: Labels) -> Array:
        """How suspicious each label [n] is under logits [n, C]."""
        return label_scores(self._debiased(logits), labels, self.options.score)

    def _debiased(self, logits: Array) -> Array:
        return debias(logits, softmax_mean(logits) if self.options.debias == "local" else self.bias)

    def sharpened(self, logits: Array, labels: Labels) -> Array | None:
        """The same scores of the calibrated model, for the second opinion."""
        if not self.options.calibrated or self.options.scope == "perfect":
            return None
        sharper = self._debiased(logits) / self.temperature
        return label_scores(sharper, labels, self.options.score)

    @property
    def learnt(self) -> bool:
        """Whether there is a filter to judge with."""
        return self.filter.mixture is not None or self.options.scope == "perfect"

    def p_clean(
        self,
        scores: Array,
        labels: Labels,
        truth: Labels | None,
        sharpened: Array | None = None,
    ) -> Array:
        """p(clean) [n]; the truth is looked at with scope=perfect only."""
        if self.options.scope != "perfect":  # without a filter every label is believed
            return self.filter.p_clean(scores, sharpened) if self.learnt else np.ones_like(scores)
        if truth is None:
            raise ValueError("filter.scope=perfect needs true labels, and this data has none")
        return np.asarray(labels == truth, np.float64)

    def pardoned(self, scores: Array, labels: Labels) -> npt.NDArray[np.bool_]:
        """Labels of starved classes that get the benefit of the doubt in training."""
        if self.pardons is None:
            return np.zeros(len(labels), np.bool_)
        return np.asarray(scores <= self.pardons[labels])

    def upload(self, scores: Array) -> dict[str, Array]:
        """Local filter training: a mixture fitted from W^(t), or the change of the histogram.

        Nothing where local training went astray: its weights will be refused anyway.
        """
        if not np.isfinite(scores).all():
            return {}
        summary = self.filter.summarise(self.filter.scale(scores))
        if summary is None or self.options.scope == "perfect":
            return {}
        before, self.memory = self.memory.summary, replace(self.memory, summary=summary)
        if self.options.scope == "local":
            return {}
        if self.options.aggregate == "mean":
            return {"mixture": summary}
        return {"histogram": _change(summary, None if self.options.members == "round" else before)}

    def upload_bias(self, logits: Array) -> dict[str, Array]:
        """The change of this client's part of p-bar under the received model."""
        if self.options.debias != "global" or self.options.scope == "perfect":
            return {}
        softmax = softmax_mean(logits) * len(logits)
        before, self.memory = self.memory.softmax, replace(self.memory, softmax=softmax)
        return {"softmax": _change(softmax, before)}

    def upload_likelihood(self, logits: Array, labels: Labels) -> dict[str, Array]:
        """The change of how likely this client's labels are, at each temperature."""
        if not self.options.calibrated or self.options.scope != "federated":
            return {}
        # Before the first filter p-bar is not known: the client's own mean stands for it.
        unbiased = self._debiased(logits) if self.learnt else debias(logits, softmax_mean(logits))
        found = log_likelihoods(unbiased, labels)
        before, self.memory = self.memory.likelihood, replace(self.memory, likelihood=found)
        return {"likelihood": _change(found, before)}

    def upload_tally(self, p_clean: Array, scores: Array, labels: Labels) -> dict[str, Array]:
        """The change of how many labels of each class this client holds and keeps."""
        if self.options.starved_below == 0 or self.options.scope != "federated":
            return {}
        tally = class_tally(labels, scores, p_clean >= self.options.drop_below, self.classes)
        before, self.memory = self.memory.tally, replace(self.memory, tally=tally)
        return {"tally": _change(tally, before)}


def _change(now: Array, before: Array | None) -> Array:
    """What is uploaded of a total: the whole at first, then how it has changed."""
    return now if before is None else now - before


def softmax_mean(logits: Array) -> Array:
    """The mean prediction [C] over samples [n, C]."""
    return np.asarray(np.exp(log_softmax(logits)).mean(axis=0))
