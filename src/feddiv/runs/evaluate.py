"""How good the global model is: on test samples at the server, or on what clients keep out."""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from feddiv.config.sections import HeldOut
from feddiv.core.errors import Diverged
from feddiv.core.interrupts import allowed
from feddiv.core.randomness import Streams
from feddiv.data import samples_to_test
from feddiv.data.draw.held_out import most_held_out
from feddiv.federation.carriage import Note
from feddiv.federation.carrying import carriage_of
from feddiv.federation.federation import Federation
from feddiv.federation.workspace import Workspace
from feddiv.learning.score import log_softmax
from feddiv.methods.contract import Client, Diary, Method, Reply
from feddiv.methods.held_out_counts import (
    BELIEVED_FROM,
    KIND,
    Examined,
    counts_kind,
    examination,
)
from feddiv.privacy.options import PrivacyOptions
from feddiv.privacy.sum_server import NoSum
from feddiv.runs.held_out_answers import Answers, without_opinion
from feddiv.runs.prepare import Prepared

SERVER = -1  # as a client's number
ATTEMPTS = 3  # at a secure sum of counts


@dataclass(frozen=True, kw_only=True)
class Evaluation(ABC):
    """What a round's record says of the model, every so many turns; nothing in between."""

    measures: ClassVar[tuple[str, ...]]
    classes: int
    every: int = 1

    def due(self, turn: int) -> bool:
        """Whether this turn's model is measured; the last one's always is."""
        return turn % self.every == 0

    def nothing(self) -> Diary:
        """The record of a turn whose model is not measured."""
        return dict.fromkeys(self.measures)

    @abstractmethod
    def measure(
        self,
        method: Method[Any, Any],
        federation: Federation,
        state: Any,
        rng: Streams,
        note: Note = lambda line: None,
    ) -> Diary:
        """The measures of the model in this state; `note` is told of answers that are refused."""


@dataclass(frozen=True, kw_only=True)
class CentralEvaluation(Evaluation):
    """Against the labels [N] of the test samples."""

    measures: ClassVar[tuple[str, ...]] = (
        "test_accuracy",
        "balanced_accuracy",
        "test_loss",
        "per_class_accuracy",
    )
    labels: npt.NDArray[np.int64]

    def measure(
        self,
        method: Method[Any, Any],
        federation: Federation,
        state: Any,
        rng: Streams,
        note: Note = lambda line: None,
    ) -> Diary:
        """Accuracy, balanced accuracy over the classes that occur, per class, mean loss."""
        return self.of(federation.evaluate(method.weights(state)))

    def of(self, logits: npt.NDArray[np.float32]) -> Diary:
        """The measures of logits [N, C]."""
        if not np.isfinite(logits).all():
            raise Diverged("the global model's outputs are not finite: try a smaller train.lr")
        right = logits.argmax(axis=1) == self.labels
        counts = np.bincount(self.labels, minlength=self.classes)
        hits = np.bincount(self.labels, weights=right, minlength=self.classes)
        per_class = per_class_accuracy(hits, counts)
        log_p = log_softmax(logits.astype(np.float64))
        return {
            "test_accuracy": float(right.mean()),
            "balanced_accuracy": balanced(per_class),
            "test_loss": float(-log_p[np.arange(len(right)), self.labels].mean()),
            "per_class_accuracy": per_class,
        }


@dataclass(frozen=True, kw_only=True)
class DoubtfulEvaluation(CentralEvaluation):
    """Against test labels that may be wrong: all of them, and those that the method believes.

    The server judges them as a client does the samples that it keeps out of training.
    """

    measures = (*CentralEvaluation.measures, "believed_accuracy", "believed")
    workspace: Workspace

    def measure(
        self,
        method: Method[Any, Any],
        federation: Federation,
        state: Any,
        rng: Streams,
        note: Note = lambda line: None,
    ) -> Diary:
        """The measures on all labels, on believed ones, and the share of these."""
        logits = federation.evaluate(method.weights(state))
        p_clean = self._opinion(method, state) if method.judges_unseen else None
        if p_clean is None:
            return {**self.of(logits), "believed_accuracy": None, "believed": None}
        believed = p_clean >= BELIEVED_FROM
        right = logits.argmax(axis=1) == self.labels
        return {
            **self.of(logits),
            "believed_accuracy": float(right[believed].mean()) if believed.any() else None,
            "believed": float(believed.mean()),
        }

    def _opinion(self, method: Method[Any, Any], state: Any) -> npt.NDArray[np.float64] | None:
        samples = samples_to_test(self.workspace.dataset)
        server = Client(SERVER, samples.none, self.classes, self.workspace.load, samples)
        with allowed():
            opinion = method.assess_held_out(server, None, method.assessment(state))
        self.workspace.dataset.test.let_go()
        return opinion.p_clean


@dataclass(frozen=True, kw_only=True)
class HeldOutEvaluation(Evaluation):
    """Against the given labels of what clients keep out, all of them and those believed."""

    measures = (
        "test_accuracy",  # there is no test set
        "held_out_accuracy",
        "believed_accuracy",
        "believed",
        "held_out_samples",
        "held_out_true_accuracy",
        "balanced_accuracy",
        "per_class_accuracy",
        "examination_bytes_up",
        "examination_bytes_down",
    )
    share: float
    largest_site: int | None = None  # samples that a client counts for at most
    privacy: PrivacyOptions = field(default_factory=PrivacyOptions)

    def measure(
        self,
        method: Method[Any, Any],
        federation: Federation,
        state: Any,
        rng: Streams,
        note: Note = lambda line: None,
    ) -> Diary:
        """Ask all clients for their counts and add them up, or for the sum of their counts."""
        facts = federation.facts
        exchange = examination(method, state, facts)
        each = {client: most_held_out(size, self.share) for client, size in facts.sizes.items()}
        measures = self.nothing()  # one client can spoil every sum: the run goes on without
        for attempt in range(ATTEMPTS):
            here = rng.within(f"attempt {attempt}") if attempt else rng
            kind = counts_kind(facts, max(each.values()))
            carriage = carriage_of(method, federation, exchange, kind, here, self.privacy, note)
            answers = Answers(federation, carriage, each, note)
            total = Examined(self.classes)
            try:
                for reply in carriage.merged(answers, None):
                    if self.privacy.filter == "sum_only":
                        summed = without_opinion(reply)
                        total.add(summed, answers.diaries[reply.client], sum(each.values()))
                    else:
                        self._add(total, reply, answers)
                measures = self.of(total)
                break
            except (NoSum, ValueError) as reason:  # counts of a sum contradict each other
                note({"kind": KIND, "no_sum": str(reason)})
        return {
            **measures,
            "examination_bytes_up": answers.bytes_up + carriage.bytes_up,
            "examination_bytes_down": answers.bytes_down + carriage.bytes_down,
        }

    def _add(self, total: Examined, reply: Reply, answers: Answers) -> None:
        try:
            size = answers.federation.facts.sizes[reply.client]
            counted = size if self.largest_site is None else min(size, self.largest_site)
            diary, most = answers.diaries[reply.client], answers.most[reply.client]
            total.add(reply, diary, most, counted / size)
        except ValueError as reason:
            answers.refused(reply.client, str(reason))

    def of(self, total: Examined) -> Diary:
        """The measures of all clients' counts; balanced and per class by given labels."""
        count = int(total.held_out.sum())
        if not count:
            raise Diverged("no count of held-out samples could be used (clients.jsonl says why)")
        per_class = per_class_accuracy(total.right, total.held_out)
        truly = None if total.truly_right is None else total.truly_right / count
        return {
            "test_accuracy": None,
            "held_out_accuracy": float(total.right.sum() / count),
            "believed_accuracy": _ratio(total.believed_right, total.believed),
            "believed": _ratio(total.believed, total.judged),
            "held_out_samples": count,
            "held_out_true_accuracy": truly,
            "balanced_accuracy": balanced(per_class),
            "per_class_accuracy": per_class,
        }


@dataclass(frozen=True, kw_only=True)
class NothingToMeasure(Evaluation):
    """Of a run without a model of its own: each site's classifier is the site's affair."""

    measures = (*HeldOutEvaluation.measures, "test_loss")

    def measure(
        self,
        method: Method[Any, Any],
        federation: Federation,
        state: Any,
        rng: Streams,
        note: Note = lambda line: None,
    ) -> Diary:
        """Nobody is asked."""
        return {**self.nothing(), "examination_bytes_up": 0, "examination_bytes_down": 0}


def evaluation_of(prepared: Prepared) -> Evaluation:
    """The evaluation that the experiment asks for, as far as test labels can be believed."""
    options, dataset = prepared.experiment.evaluation, prepared.dataset
    classes, every = len(dataset.classes), options.every
    if prepared.experiment.brings_predictions:
        return NothingToMeasure(classes=classes, every=every)
    if isinstance(options, HeldOut):
        return HeldOutEvaluation(
            classes=classes,
            every=every,
            share=options.share,
            largest_site=prepared.experiment.federation.largest_site,
            privacy=prepared.experiment.privacy,
        )
    labels = dataset.test.labels.cpu().numpy()
    if prepared.doubtful_test:
        return DoubtfulEvaluation(
            classes=classes, every=every, labels=labels, workspace=prepared.workspace
        )
    return CentralEvaluation(classes=classes, every=every, labels=labels)


def comparable(rounds: Sequence[Diary], measure: str) -> list[Diary]:
    """Of the rounds that were measured, those among which one may be called the best.

    Where clients measure, one that does not answer changes what is measured: rounds count that
    were measured on the most samples.
    """
    measured = [line for line in rounds if line[measure] is not None]
    samples = [line.get("held_out_samples") or 0 for line in measured]
    most = max(samples, default=0)
    return [line for line, count in zip(measured, samples, strict=True) if count == most]


def per_class_accuracy(hits: npt.NDArray[Any], counts: npt.NDArray[np.int64]) -> list[float | None]:
    """Right among all of each class; None for a class that does not occur."""
    return [float(h / n) if n else None for h, n in zip(hits, counts, strict=True)]


def balanced(per_class: list[float | None]) -> float:
    """The mean over the classes that occur."""
    return float(np.mean([accuracy for accuracy in per_class if accuracy is not None]))


def _ratio(part: npt.NDArray[np.int64], whole: npt.NDArray[np.int64]) -> float | None:
    return float(part.sum() / whole.sum()) if whole.sum() else None
