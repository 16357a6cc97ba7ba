"""JointOpt: labels and losses worked out by hand, and short runs."""

from math import log
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from tests.methods.visits import checked, unchanged
from torch import nn

import feddiv
from feddiv.core.trees import pack, unpack
from feddiv.learning.train import Batch, TrainOptions
from feddiv.methods.contract import Budget, Moment
from feddiv.methods.jointopt import (
    JointLearning,
    JointOpt,
    JointOptMemory,
    JointOptOptions,
)

LOG2 = log(2)
EPOCHS = 2


def jointopt(**options: Any) -> JointOpt:
    training = TrainOptions(epochs=EPOCHS, batch=4, lr=0.1)
    return JointOpt(JointOptOptions(**options), training, Budget(20, 0.5, 0))


def blank(given: list[int], window: int, classes: int = 3) -> JointOptMemory:
    return JointOptMemory(
        np.eye(classes, dtype=np.float32)[given],
        np.zeros((len(given), window, classes), np.float32),
        np.zeros(len(given), np.int64),
    )


def learn(learning: JointLearning, outputs: list[list[float]], labels: torch.Tensor) -> float:
    """One batch of all samples, in which the net says these probabilities."""
    logits = torch.tensor(outputs).log()
    rows = torch.arange(len(outputs))
    return learning(nn.Identity(), Batch(logits, labels, rows)).item()


def test_the_loss_of_two_samples() -> None:
    learning = JointLearning(JointOptOptions(), blank([0, 1], 10), moving=False)
    labels = torch.tensor([[1.0, 0.0, 0.0], [0.0, 0.5, 0.5]])
    found = learn(learning, [[0.5, 0.25, 0.25], [0.25, 0.5, 0.25]], labels)
    ce = (LOG2 + 0.5 * LOG2 + 0.5 * 2 * LOG2) / 2
    mean = [0.375, 0.375, 0.25]
    prior = sum(log(1 / 3 / m) / 3 for m in mean)
    entropy = 0.5 * LOG2 + 2 * 0.25 * 2 * LOG2  # of both
    assert found == pytest.approx(ce + 1.2 * prior + 0.8 * entropy, abs=1e-6)


def test_the_loss_is_finite_where_an_output_is_exactly_zero() -> None:
    learning = JointLearning(JointOptOptions(), blank([0, 0], 10), moving=True)
    logits = torch.tensor([[0.0, 300.0, 0.0], [0.0, 300.0, 0.0]], requires_grad=True)
    batch = Batch(logits, learning.labels, torch.arange(2))
    loss = learning(nn.Identity(), batch)
    loss.backward()
    assert loss.isfinite()
    assert logits.grad is not None
    assert logits.grad.isfinite().all()


FIRST, SECOND, THIRD, FOURTH = ([0.8, 0.2], [0.6, 0.4], [0.1, 0.9], [0.3, 0.7])


def test_a_label_is_the_mean_of_the_outputs_there_are() -> None:
    learning = JointLearning(JointOptOptions(window=3), blank([1], 3, 2), moving=True)
    labels = [learning.select(0)[1].tolist()]
    for epoch, output in enumerate([FIRST, SECOND, THIRD, FOURTH], start=1):
        learn(learning, [output], learning.labels)
        labels.append(learning.select(epoch)[1].tolist())
    assert labels[0] == [[0, 1]]  # as given
    assert labels[1][0] == pytest.approx(FIRST)  # not a third of it
    assert labels[2][0] == pytest.approx([0.7, 0.3])
    assert labels[3][0] == pytest.approx([0.5, 0.5])
    assert labels[4][0] == pytest.approx([1 / 3, 2 / 3])  # the fourth is in the first's place
    kept = learning.memory()
    assert kept.outputs[0].tolist() == [pytest.approx(p) for p in (FOURTH, SECOND, THIRD)]
    assert kept.pushed.tolist() == [4]
    assert kept.labels.dtype == kept.outputs.dtype == np.float32


def test_the_ring_goes_on_in_the_next_visit() -> None:
    options = JointOptOptions(window=2)
    memory = blank([1], 2, 2)
    for output in (FIRST, SECOND, THIRD):
        learning = JointLearning(options, memory, moving=True)
        learn(learning, [output], learning.labels)
        memory = learning.memory()
    assert memory.labels[0].tolist() == pytest.approx([0.35, 0.65])  # of the second and third


def test_hard_labels_are_the_likeliest_class() -> None:
    learning = JointLearning(JointOptOptions(soft=False), blank([1], 10, 2), moving=True)
    learn(learning, [FIRST], learning.labels)
    assert learning.select(1)[1].tolist() == [[1, 0]]


def test_a_sample_without_outputs_keeps_its_label() -> None:
    learning = JointLearning(JointOptOptions(), blank([1, 1], 10, 2), moving=True)
    learn(learning, [FIRST], learning.labels[:1])  # the first sample alone
    labels = learning.memory().labels
    assert labels[0].tolist() == pytest.approx(FIRST)
    assert labels[1].tolist() == [0, 1]


def test_labels_start_to_move_after_a_tenth_of_the_rounds() -> None:
    moves = [float(jointopt().payload(Moment("train", turn))["labels_move"]) for turn in range(4)]
    assert moves == [0, 0, 1, 1]  # of 20 rounds


def test_labels_stay_until_the_server_says_so(bench: Any) -> None:
    client, method = bench.sure([0, 1, 2, 0], [0, 1, 2, 1]), jointopt()
    early = method.visit(client, None, bench.message(labels_move=0.0), bench.rng)
    assert np.array_equal(early.memory.labels, np.eye(3)[[0, 1, 2, 1]])
    assert early.memory.pushed.tolist() == [EPOCHS] * 4  # outputs are kept all the same
    assert early.memory.outputs[:, :EPOCHS].sum(axis=2) == pytest.approx(np.ones((4, EPOCHS)))
    assert early.diary == {"relabelled": 0, "labels_right": 3}
    late = method.visit(client, early.memory, bench.message(labels_move=1.0), bench.rng)
    assert late.memory.pushed.tolist() == [2 * EPOCHS] * 4
    mean = late.memory.outputs[:, : 2 * EPOCHS].mean(axis=1)
    assert late.memory.labels == pytest.approx(mean)
    assert late.memory.labels.argmax(axis=1).tolist() == [0, 1, 2, 0]
    assert late.diary == {"relabelled": 1, "labels_right": 4}


def test_a_visit_changes_no_memory_but_the_one_it_returns(bench: Any) -> None:
    memory = blank([0, 1, 2], 10)
    before = pack(memory)
    client = bench.sure([0, 1, 2], [0, 1, 2])
    outcome = jointopt().visit(client, memory, bench.message(labels_move=1.0), bench.rng)
    assert pack(memory) == before
    assert pack(unpack(JointOpt.Memory, pack(outcome.memory))) == pack(outcome.memory)
    assert JointOpt.Memory is JointOptMemory


@pytest.mark.parametrize("soft", [True, False])
@pytest.mark.parametrize(
    ("says", "given"), [([0], [1]), ([0, 1], [0, 1]), ([0, 1], [2, 2]), ([0] * 5, [1] * 5)]
)
def test_odd_clients(bench: Any, says: list[int], given: list[int], soft: bool) -> None:
    client, method = bench.sure(says, given), jointopt(soft=soft)
    sent = bench.message(labels_move=1.0)
    outcome = method.visit(client, None, sent, bench.rng)
    checked(method, outcome, sent, client)
    assert outcome.reply.payload == {}
    assert outcome.memory.labels.sum(axis=1) == pytest.approx(np.ones(len(given)))
    alone = len(client) == 1  # it cannot train, so its label cannot move
    assert unchanged(outcome, sent) == alone
    assert (outcome.memory.labels.argmax(axis=1).tolist() == given) == (alone or says == given)


def test_it_costs_what_fedavg_costs(bench: Any) -> None:
    client = bench.sure([0, 1, 2, 0], [0, 1, 2, 1])
    jointopt().visit(client, None, bench.message(labels_move=1.0), bench.rng)
    assert bench.passes == {"learn": EPOCHS * 4, "backward": EPOCHS * 4}


def test_its_opinion_is_what_the_label_leaves_to_the_given_class(bench: Any) -> None:
    client, method = bench.sure([0, 1], [0, 2]), jointopt()
    labels = np.array([[0.75, 0.25, 0.0], [0.5, 0.25, 0.25]], np.float32)
    memory = JointOptMemory(labels, np.zeros((2, 10, 3), np.float32), np.zeros(2, np.int64))
    opinion = method.assess(client, memory, bench.message("assess"))
    assert opinion.predicted.tolist() == [0, 1]
    assert opinion.p_clean is not None
    assert opinion.p_clean.tolist() == [0.75, 0.25]
    never_visited = method.assess(client, None, bench.message("assess"))
    assert never_visited.p_clean is not None
    assert never_visited.p_clean.tolist() == [1, 1]


@pytest.mark.slow
def test_a_run_gives_the_same_bits_with_workers(tmp_path: Path) -> None:
    settings = {
        "method.name": "jointopt",
        "rounds": 3,
        "data.images": 120,
        "train.epochs": 2,
        "clients.count": 4,
        "against": [],
    }
    runs = [
        feddiv.run("quickstart", settings, out=tmp_path / str(n), workers=n).summary for n in (0, 2)
    ]
    assert runs[0]["rounds"] == 3
    assert runs[0]["model_hash"] == runs[1]["model_hash"]
