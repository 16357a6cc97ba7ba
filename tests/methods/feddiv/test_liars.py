"""One client that lies about its scores, in a whole run: the filter of all others stays good."""

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from feddiv.config.reading import load_experiment
from feddiv.core.randomness import Streams
from feddiv.federation.in_process import InProcess
from feddiv.methods.contract import Exchange, Payload, Visit
from feddiv.runs.evaluate import evaluation_of
from feddiv.runs.loop import Loop
from feddiv.runs.prepare import prepare

pytestmark = pytest.mark.slow

SETTINGS = {"rounds": 16, "warmup.iterations": 2, "data.images": 700, "train.epochs": 2}
LIAR = 3


class WithALiar(InProcess):
    """Client 3 works honestly and then sends another payload."""

    lie: Callable[[Payload], Payload]

    def visits(self, exchange: Exchange, rng: Streams) -> Iterator[Visit[Any]]:
        for visit in super().visits(exchange, rng):
            reply = visit.reply
            if reply.client == LIAR:
                reply = replace(reply, payload=self.lie(reply.payload))
            yield replace(visit, reply=reply)


def lied_to(lie: Callable[[Payload], Payload], **method: str) -> tuple[list[Any], list[Any]]:
    settings = {f"method.{key}": value for key, value in method.items()}
    prepared = prepare(load_experiment("quickstart", {**SETTINGS, **settings}))
    federation = WithALiar(prepared.workspace)
    federation.lie = lie
    rounds, clients = list[Any](), list[Any]()
    Loop(
        prepared.workspace.method,
        federation,
        evaluation_of(prepared),
        Streams(0),
        on_client=clients.append,
        on_round=lambda line, weights: rounds.append(line),
    ).run()
    return rounds, clients


def all_of_it_in_one_bin(payload: Payload) -> Payload:
    """Within the bounds of a change, again and again."""
    if "histogram" not in payload:
        return payload
    moved = np.full(64, -60.0)
    moved[0] = 60.0
    return {**payload, "histogram": moved}


def swapped(payload: Payload) -> Payload:
    if "mixture" not in payload:
        return payload
    return {**payload, "mixture": payload["mixture"][[1, 0, 3, 2, 5, 4]]}


def far_away(payload: Payload) -> Payload:
    if "mixture" not in payload:
        return payload
    return {**payload, "mixture": np.array([-1e300, 1e300, 1e-300, 1e300, 0.5, 0.5])}


@pytest.mark.parametrize(
    ("lie", "variant", "why"),
    [
        (all_of_it_in_one_bin, "plus", "histogram: a count below zero"),
        (swapped, "paper", "mixture: the clean component's mean above the noisy one's"),
        (far_away, "paper", "mixture is outside"),
    ],
)
def test_a_lie_that_no_client_can_mean_is_refused_and_the_filter_stays(
    lie: Callable[[Payload], Payload], variant: str, why: str
) -> None:
    rounds, clients = lied_to(lie, variant=variant)
    refused = [line for line in clients if "refused" in line]
    assert refused
    assert {line["client"] for line in refused} == {LIAR}
    assert all(line["refused"].startswith(why) for line in refused)
    assert rounds[-1]["filter"]["f1"] > 0.6
    assert np.isfinite(rounds[-1]["mixture"]).all()
