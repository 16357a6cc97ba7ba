"""Counts on held-out samples, checked by hand."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from feddiv.config.reading import load_experiment
from feddiv.core.errors import Diverged
from feddiv.core.randomness import Streams
from feddiv.data import Dataset, Draw
from feddiv.data.draw.held_out import held_out_size, most_held_out
from feddiv.federation.in_process import InProcess
from feddiv.federation.workspace import Workspace
from feddiv.learning.train import TrainOptions
from feddiv.methods.contract import Assessment, Budget, Client, Message, Reply
from feddiv.methods.fedavg import FedAvg, FedAvgOptions
from feddiv.methods.held_out_counts import Examined, examination, examined
from feddiv.methods.registry import METHODS
from feddiv.nets import ModelOptions
from feddiv.runs.evaluate import HeldOutEvaluation

OPINIONATED = {"feddiv", "dividemix", "fedrn"}


@pytest.fixture
def draw(small_draw: Draw) -> Draw:
    """Client 1 keeps samples 4 and 5 out, client 2 sample 8, whose label is wrong, 9 and 10."""
    return replace(
        small_draw,
        parts=(np.arange(0, 2), np.arange(2, 4), np.array([6, 7, 11])),
        held_out=(np.array([], np.int64), np.array([4, 5]), np.array([8, 9, 10])),
    )


def workspace_of(name: str, dataset: Dataset, draw: Draw) -> Workspace:
    settings = {"method": {"name": name}, "rounds": 20, "warmup": {"iterations": 1}}
    experiment = load_experiment(settings)
    return Workspace(experiment.build_method(), dataset, draw, ModelOptions(name="mlp"))


class Oracle(FedAvg):
    """Predicts class 1 always, and believes labels of even classes."""

    def assess_held_out(self, client: Client, memory: Any, received: Message) -> Assessment:
        given = client.held_out.given.numpy()
        return Assessment(np.ones(len(given), np.int64), np.where(given % 2 == 0, 0.5, 0.4999))


def test_counts_by_class_of_the_given_labels(small_data: Dataset, draw: Draw) -> None:
    # Given labels: sample 4 is 1, 5 is 2; 8 is 0 (truly 2), 9 is 0, 10 is 1.
    workspace = workspace_of("fedavg", small_data, draw)
    oracle = Oracle(FedAvgOptions(), TrainOptions(), Budget(1, 1.0, 0))
    first, diary = examined(oracle, workspace.client(1), None, Message("examine"))
    assert {key: value.tolist() for key, value in first.payload.items()} == {
        "held_out": [0, 1, 1],
        "right": [0, 1, 0],
        "believed": [0, 0, 1],
        "believed_right": [0, 0, 0],
    }
    assert (first.client, first.samples, first.weights, first.metrics) == (1, 2, None, {})
    assert diary == {"truly_right": 1}
    second, diary = examined(oracle, workspace.client(2), None, Message("examine"))
    assert second.payload["held_out"].tolist() == [2, 1, 0]
    nobody, nothing = examined(oracle, workspace.client(0), None, Message("examine"))
    assert nobody.payload["held_out"].tolist() == [0, 0, 0]
    assert nothing == {}

    total = Examined(3)
    for reply, said in ((first, {"truly_right": 1}), (second, diary), (nobody, nothing)):
        total.add(reply, said, 5)
    measures = HeldOutEvaluation(classes=3, share=0.5).of(total)
    assert measures["held_out_accuracy"] == 2 / 5
    assert measures["believed"] == 3 / 5
    assert measures["believed_accuracy"] == 0
    assert measures["held_out_true_accuracy"] == 2 / 5
    assert measures["per_class_accuracy"] == [0, 1, 0]
    assert measures["test_accuracy"] is None


@pytest.mark.parametrize("name", METHODS)
def test_every_method_can_be_examined_and_forgets_nothing(
    small_data: Dataset, draw: Draw, name: str
) -> None:
    workspace = workspace_of(name, small_data, draw)
    federation = InProcess(workspace)
    method, rng = workspace.method, Streams(0)
    state = method.begin(lambda each: federation.make_model(each, rng), federation.facts, rng)
    noted: list[dict[str, Any]] = []
    evaluation = HeldOutEvaluation(classes=3, share=0.5)
    measures = evaluation.measure(method, federation, state, rng, noted.append)
    assert measures.keys() == set(evaluation.measures)
    assert noted == []
    weights = method.weights(state)
    rows = np.array([4, 5, 8, 9, 10])
    right = _predicted(workspace, weights, rows) == draw.given[rows]
    assert measures["held_out_accuracy"] == right.mean()
    assert federation.memories.clients() == []
    # FedDiv has no filter before its first filtered round.
    assert (measures["believed"] is not None) == (name in OPINIONATED - {"feddiv"})
    assert measures["examination_bytes_up"] > 0
    assert measures["examination_bytes_down"] % 3 == 0


def _predicted(workspace: Workspace, weights: Any, rows: np.ndarray) -> np.ndarray:
    nets = {name: workspace.load(name, state).eval() for name, state in weights.items()}
    inputs = workspace.transform.plain(workspace.dataset.train.inputs[rows])
    with torch.no_grad():
        return workspace.method.predict(nets, inputs).argmax(dim=1).numpy()


def test_feddiv_has_an_opinion_once_there_is_a_filter(small_data: Dataset, draw: Draw) -> None:
    workspace = workspace_of("feddiv", small_data, draw)
    federation = InProcess(workspace)
    method, rng = workspace.method, Streams(0)
    state = method.begin(lambda each: federation.make_model(each, rng), federation.facts, rng)
    state = replace(state, mixture=np.array([-2.0, 2.0, 1.0, 1.0, 0.5, 0.5]))
    measures = HeldOutEvaluation(classes=3, share=0.5).measure(method, federation, state, rng)
    assert measures["believed"] is not None
    # The opinion is that of all the client's samples judged together, the held-out ones last.
    client, received = workspace.client(2), method.assessment(state)
    everything = client.with_only(client.samples.followed_by(client.held_out))
    together = method.assess(everything, None, received)
    alone = method.assess_held_out(client, None, received)
    assert together.p_clean is not None
    assert alone.p_clean is not None
    assert np.array_equal(alone.p_clean, together.p_clean[-3:])
    assert np.array_equal(alone.predicted, together.predicted[-3:])


@pytest.mark.parametrize(
    ("payload", "reason"),
    [
        ({"held_out": [1.0, 0, 0], "right": [2.0, 0, 0]}, "more right or believed"),
        (
            {"held_out": [2.0, 2, 2], "right": [0.0, 0, 0]},
            "counts 6 held-out samples, it can have 5",
        ),
        ({"held_out": [1.5, 0, 0], "right": [1.0, 0, 0]}, "held_out is no count"),
        (
            {
                "held_out": [2.0, 0, 0],
                "right": [1.0, 0, 0],
                "believed": [2.0, 0, 0],
                "believed_right": [2.0, 0, 0],
            },
            "more believed and right",
        ),
    ],
)
def test_counts_that_contradict_each_other_are_refused(
    payload: dict[str, list[float]], reason: str
) -> None:
    reply = Reply(0, 5, None, {key: np.array(value) for key, value in payload.items()})
    total = Examined(3)
    with pytest.raises(ValueError, match=reason):
        total.add(reply, {}, 5)
    assert not total.held_out.any()
    with pytest.raises(Diverged, match="no count of held-out samples"):
        HeldOutEvaluation(classes=3, share=0.5).of(total)


def test_nobody_counts_more_than_it_can_have_kept_out(small_data: Dataset, draw: Draw) -> None:
    class Boaster(Oracle):
        """Client 2 trains on 3 samples, keeps 3 out, and has 100 times as many when asked."""

        def assess_held_out(self, client: Client, memory: Any, received: Message) -> Assessment:
            if client.id == 2:
                held = client.held_out
                object.__setattr__(held, "given", held.given.repeat(100))
                object.__setattr__(held, "truth", held.truth.repeat(100))
            return super().assess_held_out(client, memory, received)

    method = Boaster(FedAvgOptions(), TrainOptions(), Budget(1, 1.0, 0))
    federation, rng = (
        InProcess(Workspace(method, small_data, draw, ModelOptions(name="mlp"))),
        Streams(0),
    )
    state = method.begin(lambda each: federation.make_model(each, rng), federation.facts, rng)
    noted: list[dict[str, Any]] = []
    evaluation = HeldOutEvaluation(classes=3, share=0.5)
    measures = evaluation.measure(method, federation, state, rng, noted.append)
    assert [line["client"] for line in noted] == [2]
    assert "held_out" in noted[0]["refused"]
    assert measures["held_out_accuracy"] == 1 / 2


@given(st.integers(5, 10_000), st.floats(0.001, 0.999))
def test_what_a_client_can_have_kept_out_is_at_most_what_it_has(samples: int, share: float) -> None:
    kept = held_out_size(samples, share)
    most = most_held_out(samples - kept, share)
    assert kept <= most
    assert held_out_size(samples - kept + most + 2, share) < most + 2 or kept == samples - 1


def test_everybody_is_asked_with_what_labels_are_assessed_with(
    small_data: Dataset, draw: Draw
) -> None:
    workspace = workspace_of("fedavg", small_data, draw)
    federation, rng = InProcess(workspace), Streams(0)
    state = workspace.method.begin(
        lambda each: federation.make_model(each, rng), federation.facts, rng
    )
    exchange = examination(workspace.method, state, federation.facts)
    assert exchange.clients == (0, 1, 2)
    assert exchange.message.kind == "examine"
    assert exchange.message.weights.keys() == {"net"}
