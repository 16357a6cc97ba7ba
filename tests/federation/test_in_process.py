from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch

from feddiv.core.randomness import Streams
from feddiv.data import Dataset, Draw
from feddiv.federation.in_process import InProcess
from feddiv.federation.workspace import Workspace
from feddiv.learning.average import copied
from feddiv.learning.train import TrainOptions
from feddiv.methods.contract import Budget, Exchange, Message, Visit
from feddiv.methods.fedavg import FedAvg, FedAvgOptions
from feddiv.nets import ModelOptions

RNG = Streams(1).at(round=1)


@pytest.fixture
def federation(small_data: Dataset, small_draw: Draw) -> InProcess:
    method = FedAvg(FedAvgOptions(), TrainOptions(epochs=1, batch=2), Budget(1, 1.0, 0))
    return InProcess(Workspace(method, small_data, small_draw, ModelOptions(name="mlp")))


def weights(federation: InProcess) -> dict[str, Any]:
    return {"net": federation.make_model("net", RNG)}


def same(one: dict, other: dict) -> bool:
    return all(torch.equal(value, other[key]) for key, value in one.items())


def test_facts(federation: InProcess) -> None:
    assert federation.facts.classes == ("red", "green", "blue")
    assert federation.facts.input_shape == (3,)
    assert federation.facts.sizes == {0: 2, 1: 4, 2: 6}
    assert federation.facts.iid is False


def test_a_client_sees_its_own_samples_with_the_labels_it_was_given(
    federation: InProcess, small_data: Dataset
) -> None:
    client = federation.workspace.client(1)
    assert (client.id, len(client), client.classes) == (1, 4, 3)
    assert client.samples.given.tolist() == [2, 1, 1, 2]  # sample 3 is truly of class 0
    assert client.samples.truth is not None
    assert client.samples.truth.tolist() == [2, 0, 1, 2]
    assert torch.equal(client.samples.plain(slice(None)), small_data.train.inputs[2:6])


def test_fresh_weights_are_a_function_of_seed_and_name(federation: InProcess) -> None:
    first = federation.make_model("net", Streams(1))
    assert same(first, federation.make_model("net", Streams(1)))
    assert not same(first, federation.make_model("net", Streams(2)))
    assert not same(first, federation.make_model("other", Streams(1)))


def kept(federation: InProcess, exchange: Exchange) -> list[Visit[Any]]:
    """All outcomes at once; weights are lent to whoever merges them, so they are copied."""
    return [
        replace(visit, reply=replace(visit.reply, weights=copied(visit.reply.weights)))
        for visit in federation.visits(exchange, RNG)
    ]


def test_outcomes_come_in_the_order_asked_for_and_do_not_depend_on_it(
    federation: InProcess,
) -> None:
    message = Message("train", weights(federation))
    forth = kept(federation, Exchange((2, 0, 1), message))
    back = kept(federation, Exchange((1, 0, 2), message))
    assert [visit.reply.client for visit in forth] == [2, 0, 1]
    by_client = {visit.reply.client: visit.reply for visit in back}
    for visit in forth:
        assert same(visit.reply.weights["net"], by_client[visit.reply.client].weights["net"])


def test_a_visit_leaves_what_was_sent_alone(federation: InProcess) -> None:
    sent = weights(federation)
    before = {key: value.clone() for key, value in sent["net"].items()}
    first, second = kept(federation, Exchange((0, 1), Message("train", sent)))
    assert same(sent["net"], before)
    assert not same(first.reply.weights["net"], second.reply.weights["net"])


def test_personal_messages_override_the_common_one(federation: InProcess) -> None:
    common, special = weights(federation), {"net": federation.make_model("other", RNG)}
    exchange = Exchange((0, 1), Message("train", common), {1: Message("train", special)})
    personal = kept(federation, exchange)
    alone = kept(federation, Exchange((1,), Message("train", special)))
    assert same(personal[1].reply.weights["net"], alone[0].reply.weights["net"])


def test_divergence_is_the_squared_distance_of_the_parameters(federation: InProcess) -> None:
    sent = weights(federation)
    (visit,) = federation.visits(Exchange((2,), Message("train", sent)), RNG)
    gaps = [
        (visit.reply.weights["net"][key] - value).double().square().sum()
        for key, value in sent["net"].items()
        if value.is_floating_point()
    ]
    assert visit.reply.metrics["divergence"] == pytest.approx(float(sum(gaps)))
    assert visit.reply.metrics["divergence"] > 0


def test_evaluate_gives_the_logits_of_the_test_samples(
    federation: InProcess, small_data: Dataset
) -> None:
    sent = weights(federation)
    logits = federation.evaluate(sent)
    net = federation.workspace.load("net", sent["net"]).eval()
    expected = net(small_data.test.inputs).detach().numpy()
    assert logits.shape == (6, 3)
    np.testing.assert_allclose(logits, expected, atol=1e-6)


def test_every_client_assesses_its_labels(federation: InProcess) -> None:
    opinions = dict(federation.assess(Message("assess", weights(federation)), Streams(0)))
    assert {client: len(opinion.predicted) for client, opinion in opinions.items()} == {
        0: 2,
        1: 4,
        2: 6,
    }
    assert opinions[0].p_clean is None
