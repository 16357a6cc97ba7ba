"""How the tests of FedDiv's visits set one up and look at it."""

from dataclasses import fields, is_dataclass, replace
from typing import Any

import numpy as np
import torch

from feddiv.federation.reply_check import check_reply
from feddiv.learning.average import copied
from feddiv.learning.score import log_softmax
from feddiv.methods.contract import Facts

UNIFORM = np.full(3, 1 / 3)
LOG_ODDS = [-3.3, 4.0, 4.0, 4.0, 0.5, 0.5]  # the two scores of sure samples, for `plus`
SCALED = [0.0, 1.0, 0.05, 0.05, 0.5, 0.5]  # the same after min-max


def method(bench: Any, variant: str = "plus", **settings: object) -> Any:
    training = {"train__epochs": 2, "train__batch": 4, "train__lr": 0.01}
    return bench.method(**{"method__variant": variant, **training, **settings})


def message(bench: Any, method: Any, kind: str = "train", gain: float = 1.0, **more: Any) -> Any:
    """What the server would send: W, and p-bar where it is used."""
    options = method.options.filter
    payload = {"mixture": SCALED if options.scale == "minmax" else LOG_ODDS}
    if options.debias == "global":
        payload["bias"] = [0.5, 0.25, 0.25]
    if kind == "train" and method.options.weigh_by_trust != "never":
        payload["by_trust"] = 1.0
    return bench.message(kind, bench.identity(gain), **{**payload, **more})


def mixed_client(bench: Any, right: int = 14, wrong: int = 6, spread: float = 0.0) -> Any:
    """Samples that the identity is sure of, more or less by `spread`, under some wrong labels."""
    says = np.arange(right + wrong) % 3
    given = np.where(np.arange(right + wrong) < right, says, (says + 1) % 3)
    sizes = np.linspace(4 - spread, 4 + spread, right + wrong)
    return bench.client(sizes[:, None] * np.eye(3)[says], given, says)


def softmax(logits: np.ndarray) -> np.ndarray:
    return np.exp(log_softmax(logits))


def unchanged(outcome: Any, sent: Any) -> bool:
    before = sent.weights["net"]
    return all(torch.equal(v, before[k]) for k, v in outcome.reply.weights["net"].items())


def kept(outcome: Any) -> Any:
    """The outcome with weights of its own: a reply's are lent until the net is used again."""
    return replace(outcome, reply=replace(outcome.reply, weights=copied(outcome.reply.weights)))


def checked(method: Any, outcome: Any, sent: Any, client: Any) -> None:
    """The reply passes the check that it meets on arrival."""
    facts = Facts(("a", "b", "c"), (3,), {client.id: len(client)}, True)
    check_reply(outcome.reply, method.kinds(facts)[sent.kind], sent, len(client))


def arrays(value: Any) -> list[np.ndarray]:
    """Every array inside a memory."""
    if is_dataclass(value):
        return [found for f in fields(value) for found in arrays(getattr(value, f.name))]
    return [value] if isinstance(value, np.ndarray) else []
