"""ARFL, auto-weighted: clients count by how well the model fits them (Li et al., ACM TIST 2022).

Model and weights of the clients minimise one objective together, alpha in the simplex:

    sum_k alpha_k L_k(theta) + (lambda / 2) sum_k alpha_k^2 / n_k

Symbols of the paper: theta = `net`, L_k = the mean cross-entropy of theta on client k's given
labels, n_k = its size, N = the sum of all n_k, alpha = `alpha`, lambda = N * `regularisation`.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from itertools import count

import numpy as np
from pydantic import Field

from feddiv.core.arrays import Array, StateDict, Weights
from feddiv.core.randomness import Streams
from feddiv.learning.average import RunningMean
from feddiv.learning.predict import predict_global
from feddiv.learning.score import label_scores
from feddiv.learning.train import cross_entropy, everything, train
from feddiv.methods.common import DIVERGENCE, trained_reply
from feddiv.methods.contract import (
    Client,
    Declared,
    Diary,
    Exchange,
    Facts,
    Kind,
    Message,
    Method,
    MethodOptions,
    Moment,
    Replies,
    Reply,
    Visit,
)

# Of a model that is of any use. A larger loss would count for nothing anyway, so a client that gets
# a spoilt model says this one, and is heard.
LARGEST_LOSS = 1e4
LOSS = {"loss": Declared((), low=0.0, high=LARGEST_LOSS, metric=True)}


class ArflAutoOptions(MethodOptions):
    """How much the weights are held to the clients' sizes; large values make it FedAvg."""

    name: str = "arfl_auto"
    regularisation: float = Field(1.0, gt=0)  # lambda / N


@dataclass(frozen=True)
class ArflAutoState:
    """The server's state."""

    net: StateDict  # theta^(t)
    sizes: dict[int, int]  # n_k
    alpha: dict[int, float]  # of every client; sums to 1
    losses: dict[int, float]  # L_k as last heard: of whoever is not selected, an old model's
    trained: tuple[int, ...] = ()  # who answered the last time clients trained


class ArflAuto(Method[ArflAutoState, None]):
    """Clients that the model does not fit count less, or not at all."""

    name = "arfl_auto"
    summary = "clients are weighted by the model's loss on their labels, down to nothing"
    paper = "Li et al., ACM TIST 2022"
    Options = ArflAutoOptions
    options: ArflAutoOptions

    # The server

    def begin(
        self, make_model: Callable[[str], StateDict], facts: Facts, rng: Streams
    ) -> ArflAutoState:
        """A fresh model; alpha_k = n_k / N."""
        total = sum(facts.sizes.values())
        alpha = {client: size / total for client, size in facts.sizes.items()}
        return ArflAutoState(make_model("net"), facts.sizes, alpha, {})

    def joined(self, state: ArflAutoState, sizes: Mapping[int, int]) -> ArflAutoState:
        """Newcomers count by their sizes until alpha is next found."""
        state = super().joined(state, sizes)
        total = sum(state.sizes.values())
        alpha = {client: size / total for client, size in sizes.items()}
        return replace(state, alpha={**state.alpha, **alpha})

    def plan(self, state: ArflAutoState, moment: Moment, rng: Streams) -> Exchange | None:
        """Some clients train; then those say how well the new model fits them.

        Before the first round everybody says it of the fresh model.
        """
        kinds = ("opening", "train", "loss") if moment.turn == 0 else ("train", "loss")
        if moment.exchange == len(kinds):
            return None
        kind = kinds[moment.exchange]
        if kind == "opening":
            clients = tuple(sorted(state.sizes))
        elif kind == "train":
            clients = self._chosen(state, rng.at(exchange=0))
        else:
            clients = state.trained
        # Where nobody's training could be used, there is no new model to ask about.
        return Exchange(clients, Message(kind, {"net": state.net})) if clients else None

    def _chosen(self, state: ArflAutoState, rng: Streams) -> tuple[int, ...]:
        """A fraction of the clients, drawn again while none of them would count.

        Somebody always has a weight, so this ends. The first draw is that of the other methods.
        """
        for attempt in count():
            here = rng.within(f"redraw {attempt}") if attempt else rng
            chosen = self.choose(state.sizes, here)
            if any(state.alpha[client] for client in chosen):
                break
        return chosen

    def merge(self, state: ArflAutoState, exchange: Exchange, replies: Replies) -> ArflAutoState:
        """The alpha-weighted mean of what was learnt, or new losses and from them a new alpha."""
        if exchange.message.kind == "train":
            models, trained = RunningMean(), []
            for reply in replies:
                if reply.weights is not None:
                    models.add(reply.weights, state.alpha[reply.client])
                    trained.append(reply.client)
            mean = models.mean()
            net = mean["net"] if mean else state.net
            return replace(state, net=net, trained=tuple(trained))
        reported = {reply.client: float(reply.metrics["loss"]) for reply in replies}
        state = replace(state, losses={**state.losses, **reported})
        if exchange.message.kind == "opening":
            return state  # the first round weighs clients by their sizes
        return replace(state, alpha=self._alpha(state))

    def _alpha(self, state: ArflAutoState) -> dict[int, float]:
        clients = sorted(state.sizes)
        sizes = np.array([state.sizes[client] for client in clients], np.float64)
        # Who never reported a loss, because replies were lost, counts as the others do: by the
        # median, so that nobody who says a huge loss speaks for them.
        heard = list(state.losses.values())
        unheard = float(np.median(heard)) if heard else 0.0
        losses = np.array([state.losses.get(client, unheard) for client in clients])
        alpha = auto_weights(losses, sizes, sizes.sum() * self.options.regularisation)
        return dict(zip(clients, alpha.tolist(), strict=True))

    # The client

    def visit(self, client: Client, memory: None, received: Message, rng: Streams) -> Visit[None]:
        """E epochs of SGD from the received weights, or one pass for their loss."""
        net, samples = client.net(received.weights["net"]), client.samples
        if received.kind == "train":
            train(net, samples, everything(samples), cross_entropy, self.training, rng)
            return Visit(trained_reply(client, net, received), None)
        losses = label_scores(predict_global(net, samples), samples.given.numpy(), "cross_entropy")
        loss = min(float(losses.mean()), LARGEST_LOSS)
        return Visit(Reply(client.id, len(client), metrics={"loss": loss}), None)

    # What everybody else asks of a method

    def weights(self, state: ArflAutoState) -> Weights:
        """The one global model."""
        return {"net": state.net}

    def kinds(self, facts: Facts) -> Mapping[str, Kind]:
        """A trained model and how far it moved, or one loss of the model as received."""
        return {"opening": Kind(LOSS, ()), "train": Kind(DIVERGENCE), "loss": Kind(LOSS, ())}

    def records(self, state: ArflAutoState) -> Diary:
        """The share of clients that count for nothing.

        An old loss is a large one as the model gets better, so it says how many are forgotten too.
        """
        return {"alpha_zero": sum(not a for a in state.alpha.values()) / len(state.alpha)}


def auto_weights(losses: Array, sizes: Array, penalty: float) -> Array:
    """alpha [K] that minimises sum alpha_k L_k + (penalty / 2) sum alpha_k^2 / n_k; sums to 1.

    By the optimality conditions alpha_k = n_k max(eta - L_k, 0) / penalty. In ascending order of
    loss the clients that count are the longest prefix in which each loss is at most the prefix's
    eta_p = (sum n_i L_i + penalty) / sum n_i.
    """
    losses = losses - losses.min()  # changes nothing but rounding, which would hide a small penalty
    order = losses.argsort(kind="stable")
    ascending, counts = losses[order], sizes[order]
    etas = (np.cumsum(counts * ascending) + penalty) / np.cumsum(counts)
    prefix = np.logical_and.accumulate(etas >= ascending).sum()
    return np.asarray(sizes * np.maximum(etas[prefix - 1] - losses, 0) / penalty)
