"""The two halves of a method: what the server does, and what a client does."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Mapping
from dataclasses import replace
from typing import Any, ClassVar, Generic, TypeVar, get_args, get_origin

import torch

from feddiv.core.arrays import Module, StateDict, Weights
from feddiv.core.errors import Diverged, UserError
from feddiv.core.randomness import Streams
from feddiv.learning.predict import predict
from feddiv.learning.robust import CentreRule
from feddiv.learning.train import TrainOptions
from feddiv.methods.contract.assessment import Assessment
from feddiv.methods.contract.budget import Budget, Facts, Moment, Stage
from feddiv.methods.contract.client import Client
from feddiv.methods.contract.declarations import Kind
from feddiv.methods.contract.messages import Diary, Exchange, M, Message, Replies, Visit
from feddiv.methods.contract.options import MethodOptions, Variant
from feddiv.methods.draw_clients import choose_clients, with_substitutes
from feddiv.methods.model_store import ModelsInMemory, ModelStore

Nets = Mapping[str, Module]
S = TypeVar("S")  # the server's state


class Method(ABC, Generic[S, M]):
    """Base of all methods; see docs/architecture.md for a walk through one round."""

    name: ClassVar[str]  # of those that come with feddiv; others are named by their import path
    summary: ClassVar[str] = ""  # one line for `feddiv list methods`
    paper: ClassVar[str] = ""
    Options: ClassVar[type[MethodOptions]] = MethodOptions
    variants: ClassVar[Mapping[str, Variant]] = {"default": Variant("the method itself")}
    # Of a method that needs warm-up: what it is without, for the error. None: it needs none.
    without_warmup: ClassVar[str | None] = None
    # Options that are fractions of `rounds` and act outside `stages()`. A run with such options
    # cannot be given more rounds: those that are done would have gone differently.
    shares_of_rounds: ClassVar[tuple[str, ...]] = ()
    single_models: ClassVar[bool] = False  # whether the server looks at models of single clients
    judges_unseen: ClassVar[bool] = False  # whether `assess` can judge what was never trained on
    State: ClassVar[Any]  # S and M of `class Name(Method[S, M])`: plain trees (feddiv.core.trees)
    Memory: ClassVar[Any]

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        for base in cls.__dict__.get("__orig_bases__", ()):
            origin = get_origin(base)
            if origin is Method:
                cls.State, cls.Memory = get_args(base)
            elif isinstance(origin, type) and issubclass(origin, Method):
                cls.Memory = get_args(base)[-1]  # of a generic base only the memory is open

    options: MethodOptions  # subclasses annotate it anew with their own class

    def __init__(self, options: MethodOptions, training: TrainOptions, budget: Budget) -> None:
        self.options = options
        self.training = training
        self.budget = budget
        self.model_store: ModelStore = ModelsInMemory()  # in a run: files
        self.centre = CentreRule()  # in a run: robust.filter and robust.trim
        self.passed_over: Collection[int] = ()  # in a run: whose place others shall take

    def stages(self) -> tuple[Stage, ...]:
        """How the budget is spent; by default all of it in plain rounds."""
        return (Stage("train", self.budget.rounds),)

    @property
    def hands_over(self) -> bool:
        """Whether a model goes from client to client anywhere: nobody's can be compared there."""
        return any(stage.hands_over and stage.turns > 0 for stage in self.stages())

    def introduction(self, state: S, exchange: Exchange, clients: tuple[int, ...]) -> Exchange:
        """What all clients are asked for before a hand-over, only to compare their updates.

        `exchange` is the first of the hand-over. What it says of its client has to be replaced.
        """
        return replace(exchange, clients=clients)

    @property
    def takes_centres(self) -> bool:
        """Whether the server puts what it keeps of single clients together by `centre`.

        Pooled entries and models are made robust on their way to the merge.
        """
        return False

    @property
    def trains(self) -> bool:
        """Whether it changes the model that it begins with."""
        return True

    @property
    def needs_truth(self) -> bool:
        """Whether the method looks at true labels (a yardstick, for experiments)."""
        return False

    @abstractmethod
    def begin(self, make_model: Callable[[str], StateDict], facts: Facts, rng: Streams) -> S:
        """The server's first state. `make_model(name)` draws fresh weights."""

    def joined(self, state: S, sizes: Mapping[int, int]) -> S:
        """The state once more clients have joined, with these n_k: by default they are
        added to `state.sizes`."""
        known: dict[int, int] = state.sizes  # type: ignore[attr-defined]
        return replace(state, sizes={**known, **sizes})  # type: ignore[type-var]

    @abstractmethod
    def plan(self, state: S, moment: Moment, rng: Streams) -> Exchange | None:
        """The next exchange of this turn, or None when the turn is over."""

    @abstractmethod
    def visit(self, client: Client, memory: M | None, received: Message, rng: Streams) -> Visit[M]:
        """A client's work; `memory` is None at its first visit. Changes only what it returns."""

    @abstractmethod
    def merge(self, state: S, exchange: Exchange, replies: Replies) -> S:
        """The next state, from replies taken one by one."""

    @abstractmethod
    def weights(self, state: S) -> Weights:
        """The current global model or models."""

    @abstractmethod
    def kinds(self, facts: Facts) -> Mapping[str, Kind]:
        """Every kind of message that `plan` ever sends, by name, and what it carries."""

    def choose(self, clients: Collection[int], rng: Streams) -> tuple[int, ...]:
        """The clients of one round: a fraction of these, uniformly without replacement."""
        return self.choose_some(clients, self.budget.visits(len(clients)), rng)

    def choose_some(self, clients: Collection[int], count: int, rng: Streams) -> tuple[int, ...]:
        """So many of these, uniformly without replacement."""
        chosen = choose_clients(clients, count, rng)
        return with_substitutes(chosen, clients, self.passed_over, rng)

    def predict(self, nets: Nets, inputs: torch.Tensor) -> torch.Tensor:
        """Class logits [B, C] of the global model; nets are in eval mode."""
        logits: torch.Tensor = nets["net"](inputs)
        return logits

    def assessment(self, state: S) -> Message:
        """What clients receive to assess their labels with: by default the global model."""
        return Message("assess", self.weights(state))

    def assess(self, client: Client, memory: M | None, received: Message) -> Assessment:
        """The predicted label of each sample and, where the method has an opinion, p(clean)."""
        nets = {name: client.net(state, name) for name, state in received.weights.items()}
        logits = predict(nets, client.samples, forward=self.predict)
        if not logits.isfinite().all():
            raise Diverged("the global model's outputs are not finite: try a smaller train.lr")
        return Assessment.of(logits.double().cpu().numpy())

    def assess_held_out(self, client: Client, memory: M | None, received: Message) -> Assessment:
        """The same of the samples that the client keeps out of training.

        To judge labels a method compares many samples, so the few that are held out are judged
        together with those that train. A method whose opinion comes from having trained on a
        sample (`judges_unseen` False) predicts only.
        """
        held_out = client.held_out
        if not self.judges_unseen:
            return Method.assess(self, client.with_only(held_out), memory, received)
        together = client.with_only(client.samples.followed_by(held_out))
        return self.assess(together, memory, received).last(len(held_out))

    def kept(self, state: S) -> list[str]:
        """Names in `model_store` that this state refers to: checkpoints keep their files."""
        return []

    def records(self, state: S) -> Diary:
        """What of the server's state belongs in the record of a round."""
        return {}


def declared_kind(method: Method[Any, Any], facts: Facts, exchange: Exchange) -> Kind:
    """What the method declared of this exchange; a kind that it did not declare is an error."""
    kinds, kind = method.kinds(facts), exchange.message.kind
    if kind not in kinds:
        raise UserError(
            f"method.name={method.options.name}: plans an exchange of kind {kind!r}, and kinds() "
            f"declares {', '.join(kinds) or 'none'}"
        )
    for message in (exchange.message, *exchange.personal.values()):
        extra = sorted(message.payload.keys() - set(kinds[kind].message))
        if extra:
            raise UserError(
                f"method.name={method.options.name}: a message of kind {kind!r} carries "
                f"{extra[0]!r}, which kinds() does not declare"
            )
    return kinds[kind]
