"""FedDiv: collaborative noise filtering (Li et al., AAAI 2024).

Symbols of the paper: theta = `net`, W = `NoiseFilter`, D_k = a client's samples, n_k = its size,
delta-hat = `noise_level`, y-hat = `predicted`, y-tilde = `debiased_labels`, p-hat_k =
`memory.bias`, zeta = `relabel.confidence`, xi and m = `sampler.xi` and `sampler.momentum`,
eta = 1 where `regulariser` applies. p-bar, the model's mean prediction over all clients, is ours.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from feddiv.learning.average import RunningMean, StateDict, Weights
from feddiv.learning.division import Division, divide
from feddiv.learning.filter import BINS, NoiseFilter
from feddiv.learning.ledger import Ledger
from feddiv.learning.mixture import Mixture
from feddiv.learning.predict import predict
from feddiv.learning.sampler import debiased_labels, update_bias
from feddiv.learning.score import debias, label_scores, log_softmax
from feddiv.learning.train import MixUp, Selection, TrainOptions, everything, train
from feddiv.methods.contract import (
    Assessment,
    Budget,
    Client,
    Declared,
    Diary,
    Exchange,
    Facts,
    Message,
    Method,
    Moment,
    Payload,
    Replies,
    Reply,
    Stage,
    Visit,
    choose_clients,
)
from feddiv.methods.feddiv_diary import visit_diary
from feddiv.methods.feddiv_options import VARIANTS, FedDivOptions
from feddiv.methods.parts import DIVERGENCE, trained_reply
from feddiv.randomness import Streams

Array = npt.NDArray[np.float64]


@dataclass(frozen=True)
class FedDivState:
    """The server's state."""

    net: StateDict  # theta^(t)
    ledger: Ledger  # what clients sent about their scores
    mixture: Array | None  # W^(t): means, variances, weights
    sizes: dict[int, int]  # n_k
    iid: bool


@dataclass(frozen=True)
class FedDivMemory:
    """What a client keeps between visits; it never leaves the client."""

    bias: Array  # p-hat_k
    visits: int = 0  # training visits after warm-up
    summary: Array | None = None  # the newest histogram or mixture of its scores
    softmax: Array | None = None  # the newest summed softmax
    labels: npt.NDArray[np.int64] | None = None  # corrected labels, with relabel.persist
    debiased: npt.NDArray[np.int64] | None = None  # y-tilde, with sampler.timing=visit


@dataclass(frozen=True)
class View:
    """A client's samples as the received model and filter see them."""

    logits: Array
    labels: npt.NDArray[np.int64]
    scores: Array
    p_clean: Array


class FedDiv(Method[FedDivState, FedDivMemory]):
    """One noise filter, learnt by all clients; each trains on what it lets through."""

    name = "feddiv"
    summary = "a noise filter learnt by all clients, relabelling, a consistency sampler"
    paper = "Li et al., AAAI 2024"
    Options = FedDivOptions
    variants: Mapping[str, Mapping[str, Any]] = VARIANTS

    def __init__(self, options: FedDivOptions, training: TrainOptions, budget: Budget) -> None:
        super().__init__(options, training, budget)
        self.options = options

    # The server.

    def stages(self) -> tuple[Stage, ...]:
        """Warm-up on all given labels, then filtered rounds."""
        left = self.budget.rounds - self.budget.warmup_rounds
        if self.options.warmup.mode == "hand_over":
            warmup = Stage("warmup", self.budget.warmup_iterations, 1 / self.budget.fraction)
        else:
            warmup = Stage("warmup", self.budget.warmup_rounds)
        return (warmup, Stage("train", left))

    def begin(
        self, make_model: Callable[[str], StateDict], facts: Facts, rng: Streams
    ) -> FedDivState:
        """A fresh model and no filter."""
        ledger = Ledger.empty(max(facts.sizes) + 1, len(facts.classes))
        return FedDivState(make_model("net"), ledger, None, facts.sizes, facts.iid)

    def plan(self, state: FedDivState, moment: Moment, rng: Streams) -> Exchange | None:
        """Step 1: who takes part, and what they receive."""
        everyone = tuple(sorted(state.sizes))
        chosen = choose_clients(everyone, self.budget.visits(len(everyone)), rng.at(exchange=0))
        if moment.stage == "warmup" and self.options.warmup.mode == "hand_over":
            order = rng.at(exchange=0).numpy("order").permutation(len(everyone))
            turns = [("warmup", (everyone[i],)) for i in order]
        elif moment.stage == "warmup":
            turns = [("warmup", chosen)]
        else:
            openings = self._openings() if moment.turn == 0 else ()
            turns = [(kind, everyone) for kind in openings] + [("train", chosen)]
        if moment.exchange >= len(turns):
            return None
        kind, clients = turns[moment.exchange]
        return Exchange(clients, self._message(kind, state))

    def _openings(self) -> tuple[str, ...]:
        """Exchanges with all clients before the first filtered round, which make W^(1)."""
        if self.options.filter.scope == "perfect":
            return ()
        return ("bias", "filter") if self.options.filter.debias == "global" else ("filter",)

    def _message(self, kind: str, state: FedDivState) -> Message:
        payload: Payload = {"eta": np.array(float(self._regularised(kind, state.iid)))}
        if self.options.filter.debias == "global":
            payload["bias"] = state.ledger.bias
        if state.mixture is not None:
            payload["mixture"] = state.mixture
        return Message(kind, {"net": state.net}, payload)

    def _regularised(self, kind: str, iid: bool) -> bool:
        rule = self.options.regulariser
        wanted = rule == "always" or (rule == "non_iid" and not iid)
        return wanted and (kind != "warmup" or self.options.warmup.regulariser)

    def merge(self, state: FedDivState, exchange: Exchange, replies: Replies) -> FedDivState:
        """Steps 5 and 6: average the models, then the filters."""
        models, ledger = RunningMean(), state.ledger.opened(self.options.filter)
        for reply in replies:
            if reply.weights is not None:
                models.add(reply.weights, reply.samples)
            ledger.add(reply.client, reply.samples, reply.payload)
        mean = models.mean()
        net = mean["net"] if mean else state.net
        if exchange.message.kind == "warmup":
            return replace(state, net=net)
        fitted = ledger.fitted(self._filter(state.mixture, len(ledger.softmax))).mixture
        mixture = None if fitted is None else _packed(fitted)
        return replace(state, net=net, ledger=ledger, mixture=mixture)

    # The client.

    def visit(
        self, client: Client, memory: FedDivMemory | None, received: Message, rng: Streams
    ) -> Visit[FedDivMemory]:
        """What a client does with a message."""
        memory = memory or FedDivMemory(np.full(client.classes, 1 / client.classes))
        if received.kind == "warmup":
            return self._warm_up(client, memory, received, rng)
        if received.kind == "train":
            return self._train(client, memory, received, rng)
        logits = _numpy(predict(client.net(received.weights["net"]), client.samples))
        if received.kind == "bias":
            payload, memory = self._bias_upload(logits, memory)
        else:
            scores = self._scores(logits, self._labels(client, memory), received)
            payload, memory = self._filter_upload(scores, memory, received)
        return Visit(Reply(client.id, len(client), payload=payload), memory)

    def _warm_up(
        self, client: Client, memory: FedDivMemory, received: Message, rng: Streams
    ) -> Visit[FedDivMemory]:
        """MixUp on all given labels."""
        net = client.net(received.weights["net"])
        objective = self._objective(received, rng)
        train(net, client.samples, everything(client.samples), objective, self.training, rng)
        return Visit(trained_reply(client, net, received), memory)

    def _train(
        self, client: Client, memory: FedDivMemory, received: Message, rng: Streams
    ) -> Visit[FedDivMemory]:
        """Steps 2 to 4: filter and relabel, train on what the sampler keeps, fit the filter."""
        options = self.options
        net = client.net(received.weights["net"])

        # Step 2: split with the federated filter, relabel what the global model is sure of.
        view = self._view(client, memory, received, _numpy(predict(net, client.samples)))
        division = divide(
            view.p_clean,
            view.logits,
            view.labels,
            clean_client_below=options.filter.clean_client_below,
            relabelling=options.relabel,
        )

        # Step 3: local training on D-hat_k, reselected before every epoch.
        epochs = Epochs(self, client, memory, view, division, net)
        if epochs.worth_training(self.training.batch):
            train(
                net, client.samples, epochs, self._objective(received, rng), self.training, rng
            )

        # Step 4: one pass of theta_k over D_k gives p-hat and, where wanted, the scores to fit.
        memory = replace(memory, visits=memory.visits + 1)
        if options.relabel.persist and division.noisy_client:
            corrected = division.relabelled & epochs.consistent
            memory = replace(memory, labels=np.where(corrected, division.labels, view.labels))
        scores = view.scores
        if options.sampler.enabled or options.filter.fit == "local":
            after = _numpy(predict(net, client.samples))
            memory = replace(
                memory,
                bias=update_bias(memory.bias, after, options.sampler),
                debiased=debiased_labels(after, memory.bias, options.sampler.xi),
            )
            if options.filter.fit == "local":
                scores = self._scores(after, self._labels(client, memory), received)
        payload, memory = self._filter_upload(scores, memory, received)
        more, memory = self._bias_upload(view.logits, memory)
        diary = visit_diary(client.samples, view.p_clean, view.logits, division, epochs.kept)
        return Visit(trained_reply(client, net, received, {**payload, **more}), memory, diary)

    def _objective(self, received: Message, rng: Streams) -> MixUp:
        eta = float(received.payload["eta"])
        return MixUp(rng, eta=eta, raw_forward=self.options.train.raw_forward)

    # The client's side of the filter.

    def _labels(self, client: Client, memory: FedDivMemory) -> npt.NDArray[np.int64]:
        return client.samples.given.numpy() if memory.labels is None else memory.labels

    def _scores(
        self, logits: Array, labels: npt.NDArray[np.int64], received: Message
    ) -> Array:
        bias = received.payload.get("bias")
        if self.options.filter.debias == "local":
            bias = np.exp(log_softmax(logits)).mean(axis=0)
        return label_scores(debias(logits, bias), labels, self.options.filter.score)

    def _filter(self, mixture: Array | None, classes: int) -> NoiseFilter:
        unpacked = None if mixture is None else Mixture(mixture[0:2], mixture[2:4], mixture[4:6])
        return NoiseFilter(self.options.filter, classes, unpacked)

    def _view(
        self, client: Client, memory: FedDivMemory, received: Message, logits: Array
    ) -> View:
        labels = self._labels(client, memory)
        scores = self._scores(logits, labels, received)
        noise_filter = self._filter(received.payload.get("mixture"), client.classes)
        if self.options.filter.scope == "perfect":
            if client.samples.truth is None:
                raise ValueError("filter.scope=perfect needs true labels: this data has none")
            return View(logits, labels, scores, (labels == client.samples.truth.numpy()) * 1.0)
        if self.options.filter.scope == "local" and memory.summary is not None:
            if self.options.filter.aggregate == "histogram":
                noise_filter = noise_filter.from_histogram(memory.summary)
            else:
                noise_filter = self._filter(memory.summary, client.classes)
        return View(logits, labels, scores, noise_filter.p_clean(scores))

    def _filter_upload(
        self, scores: Array, memory: FedDivMemory, received: Message
    ) -> tuple[Payload, FedDivMemory]:
        """Step 4: a mixture fitted from W^(t), or how the client's histogram has changed."""
        options = self.options.filter
        start = memory.summary if options.scope == "local" else received.payload.get("mixture")
        noise_filter = self._filter(
            None if options.aggregate == "histogram" else start, len(memory.bias)
        )
        summary = noise_filter.summarise(noise_filter.scale(scores))
        if summary is None or options.scope == "perfect":
            return {}, memory
        before, memory = memory.summary, replace(memory, summary=summary)
        if options.scope == "local":
            return {}, memory
        if options.aggregate == "mean":
            return {"mixture": summary}, memory
        first = before is None or options.members == "round"
        return {"histogram": summary if first else summary - before}, memory

    def _bias_upload(
        self, logits: Array, memory: FedDivMemory
    ) -> tuple[Payload, FedDivMemory]:
        """How the client's part of p-bar has changed."""
        if self.options.filter.debias != "global" or self.options.filter.scope == "perfect":
            return {}, memory
        softmax = np.exp(log_softmax(logits)).sum(axis=0)
        change = softmax if memory.softmax is None else softmax - memory.softmax
        return {"softmax": change}, replace(memory, softmax=softmax)

    # What everybody else asks of a method.

    def weights(self, state: FedDivState) -> Weights:
        """The one global model."""
        return {"net": state.net}

    def declares(self, kind: str, facts: Facts) -> Mapping[str, Declared]:
        """Totals of scores and of softmax outputs, or six numbers: nothing per sample."""
        largest = float(max(facts.sizes.values()))
        fields = {
            "histogram": Declared((BINS,), -largest, largest),
            "mixture": Declared((6,)),
            "softmax": Declared((len(facts.classes),), -largest, largest),
        }
        return DIVERGENCE if kind == "warmup" else {**DIVERGENCE, **fields}

    def assessment(self, state: FedDivState) -> Message:
        """The final model and filter."""
        return self._message("assess", state)

    def assess(
        self, client: Client, memory: FedDivMemory | None, received: Message
    ) -> Assessment:
        """The filter's opinion of the labels as they were given."""
        memory = memory or FedDivMemory(np.full(client.classes, 1 / client.classes))
        logits = _numpy(predict(client.net(received.weights["net"]), client.samples))
        view = self._view(client, replace(memory, labels=None), received, logits)
        return Assessment(view.logits.argmax(axis=1), view.p_clean, view.scores)

    def records(self, state: FedDivState) -> Diary:
        """W^(t+1) and p-bar."""
        mixture = None if state.mixture is None else state.mixture.tolist()
        return {"mixture": mixture, "bias": state.ledger.bias.tolist()}


class Epochs:
    """Which samples each local epoch trains on: D_k, D_clean, D_clean + D_relab, or D_resel."""

    def __init__(
        self,
        method: FedDiv,
        client: Client,
        memory: FedDivMemory,
        view: View,
        division: Division,
        net: torch.nn.Module,
    ) -> None:
        self.sampler = method.options.sampler
        self.samples, self.net, self.bias = client.samples, net, memory.bias
        self.logits, self.predicted = view.logits, view.logits.argmax(axis=1)
        self.labels = division.labels
        self.min_batches = method.options.train.min_batches
        self.kept: list[npt.NDArray[np.int64]] = []

        # What the client's previous model said, where the sampler asks it once a visit.
        stale = memory.debiased if self.sampler.timing == "visit" else None
        self.consistent = np.ones_like(division.clean) if stale is None else stale == self.predicted

        self.sampling = division.noisy_client and self.sampler.enabled
        candidates = division.candidates
        if division.noisy_client:
            early = self.sampler.enabled and memory.visits < self.sampler.after_visits
            if early or division.noise_level <= method.options.relabel.min_noise:
                candidates = division.clean
            if early:
                self.sampling = False
            elif self.sampling and self.sampler.timing == "visit":
                candidates = candidates & self.consistent
        self.rows = np.flatnonzero(candidates)

    def worth_training(self, batch: int) -> bool:
        """More samples than `train.min_batches` batches hold."""
        return len(self.rows) > self.min_batches * batch

    def __call__(self, epoch: int) -> Selection:
        """PCS: the samples on which y-hat and y-tilde agree (Eq. Reselect)."""
        rows = self.rows
        if self.sampling and self.sampler.timing == "epoch" and len(rows):
            # In the first epoch the local model is the global one, whose logits are at hand.
            logits = (
                self.logits[rows]
                if epoch == 0
                else _numpy(predict(self.net, self.samples, torch.from_numpy(rows)))
            )
            agree = debiased_labels(logits, self.bias, self.sampler.xi) == self.predicted[rows]
            rows = rows[agree]
        self.kept.append(rows)
        return torch.from_numpy(rows), torch.from_numpy(self.labels[rows])


def _numpy(logits: torch.Tensor) -> Array:
    return logits.double().cpu().numpy()


def _packed(mixture: Mixture) -> Array:
    return np.concatenate([mixture.means, mixture.variances, mixture.weights])
