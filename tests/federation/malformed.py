"""Replies that nobody may merge, made from honest ones: what a broken or hostile client sends."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch

from feddiv.config.reading import load_experiment
from feddiv.core.randomness import Streams
from feddiv.federation.federation import Federation
from feddiv.federation.in_process import InProcess
from feddiv.methods.contract import Exchange, Kind, Message, Reply, Visit, declared_kind
from feddiv.methods.registry import METHODS
from feddiv.runs.prepare import Prepared, prepare
from feddiv.runs.run import Run, execute
from feddiv.runs.run_folder import RunFolder

Rng = np.random.Generator
EVERY = [*sorted(METHODS), "feddiv-paper"]
NAMES = ["", "secret", "x" * 10**6, "\x1b[2J", "a\nfeddiv: round 9: fine", "payload:shape", 7, None]


@dataclass
class Seen:
    """An honest reply, with what it is checked against."""

    reply: Reply
    kind: Kind
    sent: Message
    size: int


def nested(depth: int) -> list[Any]:
    deep: list[Any] = []
    for _ in range(depth):
        deep = [deep]
    return deep


NO_NUMBERS: list[Callable[[], Any]] = [
    lambda: None,
    lambda: "0.5",
    lambda: b"0.5",
    lambda: 1j,
    lambda: 10**400,
    lambda: -(10**400),
    lambda: np.longdouble("1e4000"),
    lambda: {"a": 1},
    lambda: {1.0},
    lambda: object(),
    lambda: [[1.0], [1.0, 2.0]],
    lambda: nested(500),
    lambda: [None],
    lambda: np.array([0.5, None], object),
    lambda: np.array(["1.0"]),
    lambda: np.array([1 + 0j]),
    lambda: np.zeros(3, [("a", "f8"), ("b", "O")]),
    lambda: np.zeros(1, "datetime64[s]"),
    lambda: np.float64("nan"),
    lambda: float("inf"),
    lambda: -float("inf"),
    lambda: (n for n in range(3)),
    lambda: torch.zeros(2, device="meta"),
    lambda: torch.ones(2, requires_grad=True),
    lambda: torch.eye(2).to_sparse(),
]


def no_tensors(tensor: torch.Tensor) -> list[Callable[[], Any]]:
    """What may stand where this tensor belongs."""
    flat = torch.ones(tensor.shape, dtype=torch.float32)
    return [
        lambda: None,
        lambda: "weights",
        lambda: tensor.numpy().copy(),
        lambda: tensor.tolist(),
        lambda: tensor.to(torch.float16),
        lambda: tensor.to(torch.complex64),
        lambda: tensor.to(torch.float64),
        lambda: tensor > 0,
        lambda: tensor[None],
        lambda: torch.cat([tensor.reshape(-1), tensor.reshape(-1)]),
        lambda: torch.zeros(tensor.shape, dtype=tensor.dtype, device="meta"),
        lambda: flat.reshape(-1)[None].to_sparse(),
        lambda: torch.quantize_per_tensor(flat, 0.1, 0, torch.qint8),
        lambda: flat.requires_grad_(),
        lambda: torch.full(tensor.shape, torch.nan),
        lambda: spoilt(tensor, torch.inf),
        lambda: spoilt(tensor, -torch.inf),
        lambda: spoilt(tensor, torch.nan),
    ]


def spoilt(tensor: torch.Tensor, value: float) -> torch.Tensor:
    """The same with one number that is none."""
    copy = tensor.to(torch.float32, copy=True)
    copy.reshape(-1)[-1:] = value
    return copy


def pick(rng: Rng, among: Any) -> Any:
    choices = list(among)
    return choices[int(rng.integers(len(choices)))]


def other_size(seen: Seen, rng: Rng) -> Reply:
    n = seen.size
    said = pick(rng, [n + 1, n - 1, -n, 0, 10**400, 2**63, str(n), None, True, n + 0.5, [n], {}])
    if said is not True and said == n:
        said = -1
    return replace(seen.reply, samples=said)


def other_client(seen: Seen, rng: Rng) -> Reply:
    odd = [None, "0", -1, 10**9, 2**70, [0], {}, float("nan"), np.array([0, 1]), torch.ones(2)]
    return replace(seen.reply, client=pick(rng, odd))


def no_container(seen: Seen, rng: Rng) -> Reply:
    odd = pick(rng, [None, [1.0], "payload", 5, object(), torch.ones(2), np.ones(2), ("a", 1)])
    where = pick(rng, ["payload", "metrics", "weights"])
    if where == "weights" and odd is None:
        odd = [None]
    return replace(seen.reply, **{where: odd})


def missing_entry(seen: Seen, rng: Rng) -> Reply | None:
    needed = [name for name, each in seen.kind.reply.items() if not each.optional]
    if not needed:
        return None
    name = pick(rng, needed)
    where = "metrics" if seen.kind.reply[name].metric else "payload"
    rest = {key: value for key, value in getattr(seen.reply, where).items() if key != name}
    return replace(seen.reply, **{where: rest})


def extra_entry(seen: Seen, rng: Rng) -> Reply:
    where = pick(rng, ["payload", "metrics"])
    value: Any = 0.5 if where == "metrics" else np.zeros(int(rng.integers(4)))
    return replace(seen.reply, **{where: {**getattr(seen.reply, where), pick(rng, NAMES): value}})


def odd_entry(seen: Seen, rng: Rng) -> Reply | None:
    if not seen.kind.reply:
        return None
    name = pick(rng, seen.kind.reply)
    where = "metrics" if seen.kind.reply[name].metric else "payload"
    return replace(
        seen.reply, **{where: {**getattr(seen.reply, where), name: pick(rng, NO_NUMBERS)()}}
    )


def spoilt_entry(seen: Seen, rng: Rng) -> Reply | None:
    """One number that is none, or is out of bounds, or an array of another shape."""
    if not seen.reply.payload:
        return None
    name = pick(rng, seen.reply.payload)
    array = np.array(seen.reply.payload[name], np.float64)
    if array.size and rng.random() < 0.7:
        bounds = seen.kind.reply[name]
        values = [np.nan, np.inf, -np.inf]
        values += [2.0**80] if np.max(bounds.high) < np.inf else []
        values += [-(2.0**80)] if np.min(bounds.low) > -np.inf else []
        array.reshape(-1)[int(rng.integers(array.size))] = pick(rng, values)
    else:
        array = pick(rng, [array[None], np.zeros((*array.shape, 2)), np.zeros((2, 0, 2, 2, 2))])
    return replace(seen.reply, payload={**seen.reply.payload, name: array})


def no_model(seen: Seen, rng: Rng) -> Reply:
    weights = dict(seen.reply.weights or {})
    odd = pick(rng, [None, [], "net", {}, {"weight": torch.ones(2)}, torch.ones(2), 5])
    if weights and rng.random() < 0.3:
        del weights[pick(rng, weights)]
    elif weights and rng.random() < 0.5:
        weights[pick(rng, weights)] = odd
    else:
        weights[pick(rng, NAMES)] = odd
    return replace(seen.reply, weights=weights)


def odd_tensor(seen: Seen, rng: Rng) -> Reply | None:
    weights = dict(seen.reply.weights or {})
    if not weights:
        return None
    model = pick(rng, weights)
    state = dict(weights[model])
    floats = [key for key, value in state.items() if value.dtype == torch.float32]
    key, chance = pick(rng, floats), rng.random()
    if chance < 0.1:
        del state[key]
    elif chance < 0.2:
        state[pick(rng, NAMES)] = torch.ones(2)
    else:
        state[key] = pick(rng, no_tensors(state[key]))()
    return replace(seen.reply, weights={**weights, model: state})


Way = Callable[[Seen, Rng], Reply | None]
WAYS: list[Way] = [
    other_size,
    other_client,
    no_container,
    missing_entry,
    extra_entry,
    odd_entry,
    spoilt_entry,
    no_model,
    odd_tensor,
    odd_tensor,
]


def malformed(seen: Seen, rng: Rng, ways: Sequence[Way] = WAYS) -> Reply:
    """A reply that has to be refused."""
    while True:
        reply: Reply | None = pick(rng, ways)(seen, rng)
        if reply is not None:
            return reply


@dataclass
class Sent:
    """What a hostile federation has handed to the loop."""

    bad: int = 0
    honest: dict[str, Seen] = field(default_factory=dict)  # one of each kind


class Hostile(InProcess):
    """Before every honest reply come `many` malformed ones in the same client's name."""

    many: int
    log: Sent

    def visits(self, exchange: Exchange, rng: Streams) -> Iterator[Visit[Any]]:
        """The honest visits, and what comes before them."""
        draw = np.random.default_rng([rng.round, rng.exchange, self.log.bad])
        kind = declared_kind(self.workspace.method, self.facts, exchange)
        for visit in super().visits(exchange, rng):
            reply = visit.reply
            seen = Seen(reply, kind, exchange.to(reply.client), self.facts.sizes[reply.client])
            if exchange.message.kind not in self.log.honest:
                kept = {
                    model: {key: value.clone() for key, value in state.items()}
                    for model, state in (reply.weights or {}).items()
                }
                copy = replace(seen, reply=replace(reply, weights=kept or None))
                self.log.honest[exchange.message.kind] = copy
            for _ in range(self.many):
                self.log.bad += 1
                yield replace(visit, reply=malformed(seen, draw))
            yield visit


def hostile_run(settings: dict[str, Any], folder: Path, many: int) -> tuple[Run, Sent]:
    """A run in which that many malformed replies come before each honest one."""
    prepared = prepare(load_experiment(None, settings))
    log = Sent()

    def carrier(prepared: Prepared, folder: RunFolder) -> Federation:
        federation = Hostile(prepared.workspace, folder.path / "nets")
        federation.many, federation.log = many, log
        return federation

    place = RunFolder(folder)
    place.begin(prepared.experiment, prepared.draw)
    try:
        return execute(prepared, place, carrier=carrier), log
    finally:
        place.unlock()
