"""The contract between a method and whoever runs it.

A method is two halves and no loop of its own: what the server does (`begin`, `plan`, `merge`) and
what a client does (`visit`, `assess`). The round loop and the federations know methods only
through this file.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, Generic, Literal, Protocol, TypeVar, get_args, get_origin

import numpy as np
import numpy.typing as npt
import torch

from feddiv.core.arrays import Array, Module, StateDict, Weights
from feddiv.core.errors import Diverged, UserError
from feddiv.core.options import Options
from feddiv.core.randomness import Streams
from feddiv.data import Samples
from feddiv.learning.predict import predict
from feddiv.learning.robust import CentreRule
from feddiv.learning.score import log_softmax
from feddiv.learning.train import TrainOptions
from feddiv.methods.draw_clients import choose_clients, with_substitutes
from feddiv.methods.model_store import ModelsInMemory, ModelStore

Payload = dict[str, npt.NDArray[np.float64]]
Diary = dict[str, Any]  # plain numbers, strings and lists: it becomes a line of JSON
Nets = Mapping[str, Module]


class MethodOptions(Options):
    """Base of a method's options: which method, and which named set of its options.

    `private` names, for a value of privacy.filter, options whose usual value does not go with it,
    and what is taken instead: (dotted key, usual value, value instead).
    """

    private: ClassVar[Mapping[str, tuple[tuple[str, Any, Any], ...]]] = {}
    name: str
    variant: str = "default"


@dataclass(frozen=True)
class Variant:
    """A named set of a method's options: one line on what it is, and the options that differ.

    They are named by dotted keys.
    """

    summary: str
    options: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Facts:
    """What the server knows before the first round: the hello exchange tells it."""

    classes: tuple[str, ...]
    input_shape: tuple[int, ...]
    sizes: dict[int, int]  # n_k of every client that said hello
    iid: bool  # whether the partition is IID by construction


@dataclass(frozen=True)
class Budget:
    """What a method may spend, in communication rounds of `fraction` of the clients."""

    rounds: int
    fraction: float
    warmup_iterations: int

    def visits(self, clients: int) -> int:
        """Clients in one round: floor(fraction * K), at least one."""
        return max(int(self.fraction * clients + 1e-9), 1)

    def part(self, share: float) -> int:
        """This share of the rounds, rounded up."""
        return math.ceil(share * self.rounds - 1e-9)

    @property
    def warmup_rounds(self) -> int:
        """The part of the budget that warm-up takes: one iteration visits every client once."""
        return math.ceil(self.warmup_iterations / self.fraction - 1e-9)

    @property
    def most_warmup(self) -> int:
        """Iterations of warm-up that leave a round for training."""
        return int((self.rounds - 1) * self.fraction + 1e-9)


@dataclass(frozen=True)
class Stage:
    """A stretch of a run: `turns` turns of the loop, each worth `rounds` communication rounds."""

    name: str
    turns: int
    rounds: float = 1.0


@dataclass(frozen=True)
class Moment:
    """Where a run stands: turn `turn` (from 0) of `stage`, exchange `exchange` (from 0) of it."""

    stage: str
    turn: int
    exchange: int = 0


@dataclass(frozen=True)
class Message:
    """What a client receives."""

    kind: str
    weights: Weights = field(default_factory=dict)
    payload: Payload = field(default_factory=dict)


@dataclass(frozen=True)
class Exchange:
    """One message to some clients, who each answer once; `personal` overrides it per client."""

    clients: tuple[int, ...]
    message: Message
    personal: Mapping[int, Message] = field(default_factory=dict)

    def to(self, client: int) -> Message:
        """What this client receives."""
        return self.personal.get(client, self.message)


@dataclass(frozen=True)
class Reply:
    """What a client sends back. Everything here crosses the network and was declared.

    Weights may be those of the net object itself: they are valid until it is used again.
    """

    client: int
    samples: int  # n_k
    weights: Weights | None = None
    payload: Payload = field(default_factory=dict)
    metrics: dict[str, float] = field(default_factory=dict)


M = TypeVar("M")  # a client's memory
S = TypeVar("S")  # the server's state


@dataclass(frozen=True)
class Visit(Generic[M]):
    """The outcome of a visit: the reply, and what stays at the client."""

    reply: Reply
    memory: M
    diary: Diary = field(default_factory=dict)


@dataclass(frozen=True)
class Corrected:
    """The labels that a client trains on once it has corrected some for good, and p(clean)."""

    labels: npt.NDArray[np.int64]
    p_clean: npt.NDArray[np.float64]


@dataclass(frozen=True)
class Assessment:
    """A method's opinion of one client's given labels; it stays at the client.

    `p_clean` is what the method decides by, `second_opinion` a p(clean) that was found in another
    way, where the method has one: label audits believe neither more than the other. `confidence` is
    the probability that the predicted label is right, `held_out` the opinion of the samples that
    the client keeps out of training.
    """

    predicted: npt.NDArray[np.int64]
    p_clean: npt.NDArray[np.float64] | None = None  # None: the method has no opinion
    scores: npt.NDArray[np.float64] | None = None
    corrected: Corrected | None = None  # None: the client trains on its given labels
    second_opinion: npt.NDArray[np.float64] | None = None
    confidence: npt.NDArray[np.float64] | None = None
    held_out: Assessment | None = None

    @classmethod
    def of(
        cls,
        logits: npt.NDArray[np.float64],
        p_clean: npt.NDArray[np.float64] | None = None,
        scores: npt.NDArray[np.float64] | None = None,
    ) -> Assessment:
        """With the predictions and the confidence of a model's logits [n, C]."""
        confidence = np.exp(log_softmax(logits).max(axis=1))
        return cls(logits.argmax(axis=1), p_clean, scores, confidence=confidence)

    def trusting(self, samples: Samples) -> Assessment:
        """The same, but for labels of these samples that an expert vouches for: they are right."""
        if samples.trusted is None:
            return self

        def sure(values: npt.NDArray[np.float64] | None) -> npt.NDArray[np.float64] | None:
            return None if values is None else samples.believed(values)

        corrected = self.corrected
        if corrected is not None:
            labels = samples.kept(corrected.labels)
            corrected = Corrected(labels, samples.believed(corrected.p_clean))
        return replace(
            self,
            p_clean=sure(self.p_clean),
            second_opinion=sure(self.second_opinion),
            corrected=corrected,
        )

    def last(self, count: int) -> Assessment:
        """That of the last so many samples."""
        start = len(self.predicted) - count

        def end(values: npt.NDArray[np.float64] | None) -> npt.NDArray[np.float64] | None:
            return None if values is None else values[start:]

        return Assessment(
            self.predicted[start:],
            end(self.p_clean),
            end(self.scores),
            second_opinion=end(self.second_opinion),
            confidence=end(self.confidence),
        )


class Replies(Protocol):
    """The replies of one exchange in the plan's order; `missing` is complete after the last.

    Weights of a reply are only lent: they may change when the next reply is taken. Whoever needs
    them longer keeps a copy (`copied`).
    """

    @property
    def missing(self) -> list[int]:
        """Clients whose reply did not come or was refused."""

    def __iter__(self) -> Any:
        """Iterate over `Reply` objects, once."""


class Client:
    """What a method sees of one client: its samples, and nets to work with.

    `net(weights)` loads weights into a net object that the worker owns and uses again for the
    next client, so a method must not keep it beyond the visit. `held_out` are samples that it
    keeps out of training: only `assess_held_out` may look at them.
    """

    def __init__(
        self,
        id: int,
        samples: Samples,
        classes: int,
        load: Callable[[str, StateDict], torch.nn.Module],
        held_out: Samples | None = None,
    ) -> None:
        self.id = id
        self.samples = samples
        self.classes = classes
        self._load = load
        self.held_out = samples.none if held_out is None else held_out

    def __len__(self) -> int:
        return len(self.samples)

    def net(self, weights: StateDict, name: str = "net") -> torch.nn.Module:
        """The net of this name, holding these weights."""
        return self._load(name, weights)

    def with_only(self, samples: Samples, held_out: Samples | None = None) -> Client:
        """The same client, as if it had these samples, and none or these kept out of training."""
        return Client(self.id, samples, self.classes, self._load, held_out)


@dataclass(frozen=True)
class Declared:
    """One declared entry of a reply: its shape and its bounds (for all, or for each number).

    None in a shape stands for a size that only the net knows, such as the width of its features.
    A reply without the entry is refused, unless it is `optional`: some clients have nothing to say.

    An entry is `pooled` if the server uses nothing of it but the sum over clients: a reply brings
    the client's own total, or how it changed since the last reply that was taken. `impossible` says
    why a client of n samples cannot have such a value (of a change: such a total); an empty text
    means that it can. `sensitivity` is how far (L2) a client's total moves at most if one of its
    samples is another one, all that it received being the same; None where nobody has shown a
    bound. `nearest` is the possible sum of clients with so many samples that is nearest to a noisy
    one.
    """

    shape: tuple[int | None, ...]
    low: float | tuple[float, ...] = -np.inf
    high: float | tuple[float, ...] = np.inf
    optional: bool = False
    metric: bool = False  # one of the reply's metrics; else it belongs in the payload
    pooled: Literal["", "total", "change"] = ""
    impossible: Callable[[Array, int], str] | None = None
    sensitivity: float | None = None
    nearest: Callable[[Array, int], Array] | None = None


@dataclass(frozen=True)
class Kind:
    """What messages of one kind carry, and replies to them: all of this, and nothing else.

    `reply` declares the payload and the metrics of a reply, `models` names the models in it, and
    `message` names what a message's payload may hold.
    """

    reply: Mapping[str, Declared] = field(default_factory=dict)
    models: tuple[str, ...] = ("net",)
    message: tuple[str, ...] = ()


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
        return False

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
