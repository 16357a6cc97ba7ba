"""Our messages as Flower's records: weights as arrays, everything small as lists of numbers.

A record says what it is and nothing of classes or code. What comes from the network is read as
numbers and texts of expected names, or refused.
"""

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from importlib import metadata
from io import BytesIO
from typing import Any

import numpy as np
import torch
from flwr.app import ArrayRecord, ConfigRecord, MetricRecord, RecordDict
from numpy.lib import format as npy

from feddiv.core.arrays import StateDict, Weights
from feddiv.core.terminal import shown
from feddiv.federation.reply_check import Refused
from feddiv.methods.contract import Message, Payload, Reply

WEIGHTS, PAYLOAD, METRICS = "weights.", "payload", "metrics"
TASK, ANSWER, PROBLEM = "task", "answer", "problem"
SOFTWARE = metadata.version("feddiv")  # server and sites have to have the same
LONGEST = 300  # characters of what a site says
SHAPE = ":shape"  # of the entry whose name comes before it


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
        """The name of the memory that the visit leaves behind."""
        attempt = "".join(c for c in self.part if c.isdigit()) or "0"
        return f"{self.round:06d}-{self.exchange:04d}-{attempt}"


@dataclass(frozen=True)
class SiteTask:
    """What a site is told besides the message: the run it serves, and where its memory stands."""

    address: VisitAddress
    kind: str
    experiment: str  # the run's config as TOML
    start: str = ""  # version of the memory to start from; empty: none
    keep: tuple[str, ...] = ()  # versions that the server may come back to
    software: str = SOFTWARE  # the server's version of feddiv


def message_records(
    task: SiteTask, message: Message, weights: Mapping[str, ArrayRecord] | None = None
) -> RecordDict:
    """A task and its message; `weights` are its models' records, if they are made already."""
    head = {**asdict(task.address), **asdict(task)}
    head["keep"] = " ".join(task.keep)
    head.pop("address")
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
    )


def read_message(records: RecordDict, kind: str) -> Message:
    """The message itself."""
    return Message(kind, _weights(records), _payload(records))


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


def read_reply(records: RecordDict, expected: VisitAddress) -> Reply:
    """The reply in an answer; refused if it answers something else, or says why there is none."""
    if PROBLEM in records:
        raise Refused(shown(_text(_config(records, PROBLEM), "text"))[:LONGEST])
    head = _config(records, ANSWER)
    address = _address(head)
    if address != expected:
        raise Refused(_difference(address, expected))
    metrics = records.get(METRICS)
    if not isinstance(metrics, MetricRecord):
        raise Refused(f"record {METRICS} is missing")
    said: dict[str, float] = {}
    for name, value in metrics.items():
        if isinstance(value, list):
            raise Refused(f"metric {name} is a list")
        said[name] = float(value)
    weights = _weights(records)
    return Reply(address.client, _whole(head, "samples"), weights or None, _payload(records), said)


def _difference(address: VisitAddress, expected: VisitAddress) -> str:
    got, wanted = asdict(address), asdict(expected)
    other = [name for name in wanted if got[name] != wanted[name]]
    what = ", ".join(f"{name} {got[name]!r} instead of {wanted[name]!r}" for name in other)
    return f"answers for {what}"


def weight_records(weights: Weights) -> dict[str, ArrayRecord]:
    """Models as records."""
    return {
        f"{WEIGHTS}{model}": ArrayRecord({name: _plain(value) for name, value in state.items()})
        for model, state in weights.items()
    }


def _plain(tensor: torch.Tensor) -> torch.Tensor:
    return tensor.detach().cpu().contiguous()


def _weights(records: RecordDict) -> dict[str, StateDict]:
    found: dict[str, StateDict] = {}
    for name, record in records.items():
        if not name.startswith(WEIGHTS):
            continue
        if not isinstance(record, ArrayRecord):
            raise Refused(f"record {name} holds no arrays")
        try:
            state = {key: _tensor(array.data) for key, array in record.items()}
        except (TypeError, ValueError, OSError, EOFError, OverflowError, SyntaxError) as error:
            raise Refused(f"record {name} cannot be read ({error})") from None
        found[name.removeprefix(WEIGHTS)] = state
    return found


def _tensor(data: bytes) -> torch.Tensor:
    """A number array in numpy's format, no larger than what came; nothing else is read."""
    stream = BytesIO(data)
    version = npy.read_magic(stream)
    read = {(1, 0): npy.read_array_header_1_0, (2, 0): npy.read_array_header_2_0}.get(version)
    if read is None:
        raise ValueError(f"format {version} is unknown")
    shape, by_columns, dtype = read(stream)
    if dtype.kind not in "fiub" or math.prod(shape) * dtype.itemsize != len(data) - stream.tell():
        raise ValueError(f"{dtype} {shape} is not what came")
    flat = np.frombuffer(data, dtype, offset=stream.tell())
    ordered = flat.reshape(shape, order="F" if by_columns else "C")
    return torch.from_numpy(np.array(ordered, order="C"))  # memory of its own, to be written to


def _entries(payload: Mapping[str, Any]) -> dict[str, Any]:
    """Arrays as lists of floats, with their shapes as text: a list may not be empty."""
    entries: dict[str, Any] = {}
    for name, value in payload.items():
        array = np.asarray(value, np.float64)
        entries[name + SHAPE] = "x".join(map(str, array.shape))
        if array.size:
            entries[name] = array.reshape(-1).tolist()
    return entries


def _payload(records: RecordDict) -> Payload:
    entries = _config(records, PAYLOAD)
    payload: Payload = {}
    for key in entries:
        if not key.endswith(SHAPE):
            if key + SHAPE not in entries:
                raise Refused(f"{key} has no shape")
            continue
        name, text = key.removesuffix(SHAPE), _text(entries, key)
        try:
            shape = tuple(int(side) for side in text.split("x")) if text else ()
            array = np.array(entries.get(name, []), np.float64).reshape(shape)
        except (TypeError, ValueError, OverflowError):
            raise Refused(f"{name} is no array of shape {text!r}") from None
        payload[name] = array
    return payload


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
