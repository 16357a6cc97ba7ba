"""Our messages as Flower's records: a model as one array, everything small as lists of numbers.

Flower sends every array by requests of its own, from each process to the next: a model whose
entries were arrays would cost hundreds of them. So they lie in one, whose name lists theirs.

A record says what it is and nothing of classes or code. What comes from the network is read as
numbers and texts of expected names and sizes, or refused.
"""

import math
import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from importlib import metadata
from typing import Any

import numpy as np
from flwr.app import Array, ArrayRecord, ConfigRecord, MetricRecord, RecordDict

from feddiv.core.arrays import StateDict, Weights
from feddiv.core.errors import UserError
from feddiv.core.terminal import NAME, shown
from feddiv.data.scaling import Scaling
from feddiv.federation.reply_check import Refused
from feddiv.flower.arrays import LONGEST_HEADER, read_tensors, write_tensors
from feddiv.methods.contract import Message, Payload, Reply

WEIGHTS, PAYLOAD, METRICS = "weights.", "payload", "metrics"
BETWEEN = "\n"  # two names of entries
PACKED = "feddiv.tensors"  # what the bytes of a model's array are
TASK, ANSWER, PROBLEM = "task", "answer", "problem"
SOFTWARE = metadata.version("feddiv")  # server and sites have to have the same
MEAN, STD = "mean", "std"  # of a task: what features are standardised by
SHAPE = ":shape"  # of the entry whose name comes before it
SIDES = re.compile(r"(?:[0-9]{1,12}(?:x[0-9]{1,12}){0,31})?")
PART = re.compile(r"(?:attempt ([1-9][0-9]{0,5})/)?(again/|introduction/)?")
MOST_ENTRIES = 1000  # of a payload, and of the metrics
MOST_NUMBERS = 1_000_000  # of a reply's payload, beyond as many as were sent


@dataclass(frozen=True)
class VisitAddress:
    """Which visit a message and its answer belong to."""

    run: str  # a token that tells this run from all others
    round: int
    exchange: int
    part: str  # of the round: which attempt
    client: int

    @property
    def version(self) -> str:
        """The name of the memory that the visit leaves behind, of no other visit.

        A site's masks and noise follow from the part, and what it has given out is kept by version:
        so no two parts may have the same one, and others than the loop's are refused.
        """
        part = PART.fullmatch(self.part)
        if part is None:
            raise Refused(f"{_cut(repr(self.part))} is no part of a round")
        kind = f"-{part[2][:-1]}" if part[2] else ""
        return f"{self.round:06d}-{self.exchange:04d}-{part[1] or 0}{kind}"


@dataclass(frozen=True)
class SiteTask:
    """What a site is told besides the message: the run it serves, and where its memory stands."""

    address: VisitAddress
    kind: str
    experiment: str  # the run's config as TOML
    start: str = ""  # version of the memory to start from; empty: none
    keep: tuple[str, ...] = ()  # versions that the server may come back to
    software: str = SOFTWARE  # the server's version of feddiv
    scaling: Scaling | None = None  # what features are standardised by, once clients have agreed


def message_records(
    task: SiteTask, message: Message, weights: Mapping[str, ArrayRecord] | None = None
) -> RecordDict:
    """A task and its message; `weights` are its models' records, if they are made already."""
    head: dict[str, Any] = {**asdict(task.address), **asdict(task)}
    head["keep"] = " ".join(task.keep)
    head.pop("address")
    head.pop("scaling")
    if task.scaling is not None:
        head |= {MEAN: task.scaling.mean.tolist(), STD: task.scaling.std.tolist()}
    return RecordDict(
        {
            TASK: ConfigRecord(head),
            PAYLOAD: ConfigRecord(_entries(message.payload)),
            **(weight_records(message.weights) if weights is None else weights),
        }
    )


def read_task(records: RecordDict) -> SiteTask:
    """The task of a message."""
    head = _config(records, TASK)
    return SiteTask(
        _address(head),
        _text(head, "kind"),
        _text(head, "experiment"),
        _text(head, "start"),
        tuple(_text(head, "keep").split()),
        _text(head, "software"),
        _scaling(head),
    )


def _scaling(head: Mapping[str, Any]) -> Scaling | None:
    if MEAN not in head and STD not in head:
        return None
    mean, std = (_array(key, head.get(key), str(_length(head.get(key)))) for key in (MEAN, STD))
    return Scaling(mean, std)


def _length(value: object) -> int:
    return len(value) if isinstance(value, list) else 0


def read_message(records: RecordDict, kind: str) -> Message:
    """The message itself; how much it may hold is for the server to say."""
    weights: dict[str, StateDict] = {}
    for name, record in records.items():
        if name.startswith(WEIGHTS):
            weights[name.removeprefix(WEIGHTS)] = _state(name, record)
    return Message(kind, weights, _payload(records, None))


def reply_records(address: VisitAddress, reply: Reply) -> RecordDict:
    """An answer; it names the visit that it answers."""
    return RecordDict(
        {
            ANSWER: ConfigRecord({**asdict(address), "samples": reply.samples}),
            PAYLOAD: ConfigRecord(_entries(reply.payload)),
            METRICS: MetricRecord({name: float(value) for name, value in reply.metrics.items()}),
            **weight_records(reply.weights or {}),
        }
    )


def problem_records(text: str) -> RecordDict:
    """Why a site does not do what it was asked."""
    return RecordDict({PROBLEM: ConfigRecord({"text": text})})


def read_reply(records: RecordDict, expected: VisitAddress, sent: Message) -> Reply:
    """The reply in an answer to what was `sent`.

    Refused if it answers something else, says why there is none, or holds more than was sent.
    """
    if PROBLEM in records:
        raise Refused(_text(_config(records, PROBLEM), "text"))
    head = _config(records, ANSWER)
    address = _address(head)
    if address != expected:
        raise Refused(_difference(address, expected))
    known = {*asdict(expected), "samples"}
    if other := [key for key in head if key not in known]:
        raise Refused(f"{_cut(other[0])} was not asked for")
    samples, metrics = _whole(head, "samples"), _metrics(records)
    weights = _returned(records, sent.weights)
    return Reply(address.client, samples, weights or None, _payload(records, sent), metrics)


def _difference(address: VisitAddress, expected: VisitAddress) -> str:
    got, wanted = asdict(address), asdict(expected)
    other = [name for name in wanted if got[name] != wanted[name]]
    what = ", ".join(
        f"{name} {_cut(repr(got[name]))} instead of {wanted[name]!r}" for name in other
    )
    return f"answers for {what}"


def _cut(name: str) -> str:
    return shown(name, NAME)


def weight_records(weights: Weights) -> dict[str, ArrayRecord]:
    """Models as records."""
    return {f"{WEIGHTS}{model}": model_record(state) for model, state in weights.items()}


def model_record(state: StateDict) -> ArrayRecord:
    """A model as a record."""
    if bad := [name for name in state if BETWEEN in name]:
        raise UserError(f"entry {bad[0]!r} of the model: its name has more than one line")
    data = write_tensors(state.values())
    return ArrayRecord({BETWEEN.join(state): Array("uint8", (len(data),), PACKED, data)})


def _returned(records: RecordDict, sent: Weights) -> dict[str, StateDict]:
    """Models that come back: those that were sent, with the same entries, and no larger."""
    found: dict[str, StateDict] = {}
    for name, record in records.items():
        if name in (ANSWER, PAYLOAD, METRICS):
            continue
        model = name.removeprefix(WEIGHTS)
        if name == model or model not in sent:
            raise Refused(f"record {_cut(name)} was not asked for")
        if isinstance(record, ArrayRecord):
            entries = [entry for key in record for entry in _names(key)]
            if len(record) != 1 or sorted(entries) != sorted(sent[model]):
                raise Refused(f"model {model} has other entries than were sent")
            tensors = sent[model].values()
            most = sum(each.numel() * each.element_size() + LONGEST_HEADER for each in tensors)
            [came] = [len(array.data) for array in record.values()]
            if came > most:
                raise Refused(f"model {model} holds {came:,} bytes, at most {most:,} can come")
        found[model] = _state(name, record)
    return found


def _state(name: str, record: object) -> StateDict:
    if not isinstance(record, ArrayRecord):
        raise Refused(f"record {_cut(name)} holds no arrays")
    state: StateDict = {}
    for key, array in record.items():
        try:
            state |= read_tensors(array.data, _names(key))
        except Refused as why:
            raise Refused(f"record {_cut(name)} cannot be read ({why})") from None
    return state


def _names(key: str) -> list[str]:
    """The entries that lie in an array of this name."""
    return key.split(BETWEEN) if key else []


def _metrics(records: RecordDict) -> dict[str, float]:
    metrics = records.get(METRICS)
    if not isinstance(metrics, MetricRecord):
        raise Refused(f"record {METRICS} is missing")
    if len(metrics) > MOST_ENTRIES:
        raise Refused(f"holds {len(metrics):,} metrics, at most {MOST_ENTRIES:,} can come")
    said: dict[str, float] = {}
    for name, value in metrics.items():
        if isinstance(value, list):
            raise Refused(f"metric {_cut(name)} is a list")
        said[name] = float(value)
    return said


def _entries(payload: Mapping[str, Any]) -> dict[str, Any]:
    """Arrays as lists of floats, with their shapes as text: a list may not be empty."""
    entries: dict[str, Any] = {}
    for name, value in payload.items():
        array = np.asarray(value, np.float64)
        entries[name + SHAPE] = "x".join(map(str, array.shape))
        if array.size:
            entries[name] = array.reshape(-1).tolist()
    return entries


def _payload(records: RecordDict, sent: Message | None) -> Payload:
    """The arrays of a payload; in a reply to what was `sent` their numbers are counted first."""
    entries = _config(records, PAYLOAD)
    if len(entries) > 2 * MOST_ENTRIES:
        raise Refused(f"holds {len(entries):,} entries, at most {2 * MOST_ENTRIES:,} can come")
    if sent is not None:
        count = sum(len(value) for value in entries.values() if isinstance(value, list))
        if count > (most := MOST_NUMBERS + _numbers(sent)):
            raise Refused(f"holds {count:,} numbers, at most {most:,} can come")
    payload: Payload = {}
    for key in entries:
        if not key.endswith(SHAPE):
            if key + SHAPE not in entries:
                raise Refused(f"{_cut(key)} has no shape")
            continue
        name = key.removesuffix(SHAPE)
        payload[name] = _array(name, entries.get(name, []), _text(entries, key))
    return payload


def _numbers(message: Message) -> int:
    """How many a message holds: in its models and in its payload."""
    states = message.weights.values()
    models = sum(tensor.numel() for state in states for tensor in state.values())
    return models + sum(np.size(value) for value in message.payload.values())


def _array(name: str, values: object, shape: str) -> np.ndarray[Any, np.dtype[np.float64]]:
    if isinstance(values, list) and SIDES.fullmatch(shape) and {*map(type, values)} <= {float}:
        sides = [int(side) for side in shape.split("x")] if shape else []
        if math.prod(sides) == len(values):
            return np.array(values, np.float64).reshape(sides)
    raise Refused(f"{_cut(name)} is no array of shape {_cut(repr(shape))}")


def _address(head: Mapping[str, Any]) -> VisitAddress:
    return VisitAddress(
        _text(head, "run"),
        _whole(head, "round"),
        _whole(head, "exchange"),
        _text(head, "part"),
        _whole(head, "client"),
    )


def _config(records: RecordDict, name: str) -> Mapping[str, Any]:
    record = records.get(name)
    if not isinstance(record, ConfigRecord):
        raise Refused(f"record {name} is missing")
    return record


def _text(head: Mapping[str, Any], name: str) -> str:
    value = head.get(name)
    if not isinstance(value, str):
        raise Refused(f"{name} is missing")
    return value


def _whole(head: Mapping[str, Any], name: str) -> int:
    value = head.get(name)
    if not isinstance(value, int) or isinstance(value, bool):
        raise Refused(f"{name} is missing")
    return value
