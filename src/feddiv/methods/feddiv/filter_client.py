"""A client's side of the federated filter: its scores, its decisions, what it uploads."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace

import numpy as np

from feddiv.core.arrays import Array, Labels, Mask
from feddiv.learning.gaussian_mixture import Mixture
from feddiv.learning.score import debias, label_scores, log_softmax
from feddiv.methods.contract import Assessment, Payload
from feddiv.methods.feddiv.filter import FilterOptions, NoiseFilter
from feddiv.methods.feddiv.second_opinion import log_likelihoods, p_right
from feddiv.methods.feddiv.starvation import class_tally
from feddiv.methods.feddiv.sure_labels import surest


@dataclass(frozen=True)
class FilterMemory:
    """What the client last uploaded, so that it can upload changes; it stays at the client."""

    summary: Array | None = None  # histogram or mixture of its scores
    softmax: Array | None = None  # summed over its samples
    tally: Array | None = None  # per class: labels, those that look right, summed scores
    likelihood: Array | None = None  # of the given labels, at each temperature


class ClientFilter:
    """The filter a client received, together with what it remembers.

    `keep` and `upload` replace `memory`.

    `received` may hold `mixture`, the six numbers of W^(t), `bias`, p-bar, `pardons`, the scores up
    to which labels of starved classes are kept, `must_train`, the share of each class that trains
    however unsure, and `temperature`, by which a model is calibrated.
    """

    def __init__(
        self,
        options: FilterOptions,
        classes: int,
        memory: FilterMemory,
        received: Mapping[str, Array],
    ) -> None:
        self.options, self.classes, self.memory = options, classes, memory
        self._summary_before, self.fitted = memory.summary, False
        self.bias, self.pardons = received.get("bias"), received.get("pardons")
        self.must_train = received.get("must_train")
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

    def opinion(self, logits: Array, labels: Labels, truth: Labels | None = None) -> Assessment:
        """What the filter and the calibrated model say of labels [n] under logits [n, C].

        Before there is a filter training believes every label; but nobody has judged them.
        """
        scores, sharpened = self.scores(logits, labels), self.sharpened(logits, labels)
        p_clean = self.p_clean(scores, labels, truth, sharpened)
        opinion = Assessment.of(logits / self.temperature, p_clean, scores)
        if not self.learnt and self.options.scope == "federated":  # then no client has one
            return replace(opinion, p_clean=None)
        if sharpened is None or not self.learnt:
            return opinion
        return replace(opinion, second_opinion=p_right(sharpened, self.classes))

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

    def trains(self, p_clean: Array, labels: Labels, trusted: Mask | None = None) -> Mask:
        """Which labels [n] train: those that look right, or the surest of them."""
        if not self.options.choosy or self.must_train is None:
            return np.asarray(p_clean >= self.options.right_from)
        least = np.clip(np.nan_to_num(self.must_train, nan=1.0), 0.0, 1.0)
        return surest(p_clean, labels, self.options.most_wrong, least, trusted)

    def pardoned(self, scores: Array, labels: Labels) -> Mask:
        """Labels of starved classes that get the benefit of the doubt in training."""
        if self.pardons is None:
            return np.zeros(len(labels), np.bool_)
        return np.asarray(scores <= self.pardons[labels])

    def keep(self, scores: Array) -> None:
        """Local filter training: remember a mixture fitted from W^(t), or the histogram of scores.

        Nothing where local training went astray: its weights will be refused anyway.
        """
        if self.options.scope == "perfect" or not np.isfinite(scores).all():
            return
        summary = self.filter.summarise(self.filter.scale(scores))
        if summary is not None:
            self.memory = replace(self.memory, summary=summary)
            self.fitted = True

    def upload(
        self,
        names: Collection[str],
        *,
        logits: Array,
        labels: Labels,
        scores: Array | None = None,
        p_clean: Array | None = None,
    ) -> Payload:
        """These entries of a reply: what the client now has, as changes since its last upload.

        `logits` are the received model's, `labels` those that were judged by `scores` and
        `p_clean`. The summary of scores is the one that `keep` made.
        """
        totals: dict[str, Array] = {}
        if "softmax" in names:
            totals["softmax"] = softmax_mean(logits) * len(logits)
        if "likelihood" in names:
            totals["likelihood"] = self._likelihood(logits, labels)
        if "tally" in names and scores is not None and p_clean is not None:
            right = p_clean >= self.options.right_from
            summed = scores if self.options.starved_below > 0 else np.zeros_like(scores)
            totals["tally"] = class_tally(labels, summed, right, self.classes)
        payload = {name: _change(now, getattr(self.memory, name)) for name, now in totals.items()}
        if totals:
            self.memory = replace(self.memory, **totals)
        if self.fitted and self.memory.summary is not None:
            if "mixture" in names:
                payload["mixture"] = self.memory.summary
            if "histogram" in names:
                before = None if self.options.members == "round" else self._summary_before
                payload["histogram"] = _change(self.memory.summary, before)
        return payload

    def _likelihood(self, logits: Array, labels: Labels) -> Array:
        """How likely the labels are at each temperature.

        Before the first filter p-bar is not known: the client's own mean stands for it.
        """
        unbiased = self._debiased(logits) if self.learnt else debias(logits, softmax_mean(logits))
        return log_likelihoods(unbiased, labels)


def _change(now: Array, before: Array | None) -> Array:
    """What is uploaded of a total: the whole at first, then how it has changed."""
    return now if before is None else now - before


def softmax_mean(logits: Array) -> Array:
    """The mean prediction [C] over samples [n, C]."""
    return np.asarray(np.exp(log_softmax(logits)).mean(axis=0))
