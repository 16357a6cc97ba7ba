"""Labels that experts vouch for are trained on as they are, by every method."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from feddiv.core.randomness import Streams
from feddiv.data import Samples
from feddiv.learning.train import TrainOptions, train
from feddiv.methods.dividemix.dividemix import divided
from feddiv.methods.dividemix.mixmatch import refined, sharpen
from feddiv.methods.fedcorr.fedcorr import FedCorrMemory
from feddiv.methods.feddiv.division import RelabelOptions, divide
from feddiv.methods.jointopt import JointLearning, JointOptMemory, JointOptOptions
from feddiv.methods.rofl.rofl import small_losses


def trusting(client, rows):
    """The same client; an expert vouches for the labels of these rows."""
    trusted = torch.zeros(len(client), dtype=torch.bool)
    trusted[list(rows)] = True
    return client.with_only(replace(client.samples, trusted=trusted))


def test_the_training_loop_takes_them_in_and_keeps_their_labels(bench):
    client = trusting(bench.sure([0, 1, 2, 0, 1, 2], [1, 1, 1, 1, 1, 1]), [0, 5])
    rows, labels = client.samples.honoured(torch.tensor([0, 1, 2]), torch.tensor([0, 2, 2]))
    assert rows.tolist() == [0, 1, 2, 5]
    assert labels.tolist() == [1, 2, 2, 1]
    rows, labels = client.samples.honoured(torch.tensor([0, 1]), torch.full((2, 3), 1 / 3))
    assert labels[[0, 2]].tolist() == [[0, 1, 0], [0, 1, 0]]
    assert labels[1].tolist() == pytest.approx([1 / 3] * 3)

    batches = []

    def objective(net, batch):
        batches.append((batch.rows, batch.labels))
        return net(batch.inputs).sum() * 0

    net = client.net(bench.identity())
    options = TrainOptions(epochs=1, batch=2)
    train(
        net,
        client.samples,
        lambda _: (torch.arange(2), torch.zeros(2, dtype=torch.int64)),
        objective,
        options,
        Streams(0),
    )
    learnt = {
        int(row): int(label)
        for rows, labels in batches
        for row, label in zip(rows, labels, strict=True)
    }
    assert learnt == {0: 1, 1: 0, 5: 1}


def test_without_experts_nothing_is_touched():
    rows, labels = torch.tensor([2, 0]), torch.tensor([1, 1])
    samples = Samples(torch.zeros(3, 1), torch.arange(3), torch.tensor([0, 1, 2]), None, None)
    assert samples.honoured(rows, labels)[0] is rows
    assert samples.honoured(rows, labels)[1] is labels
    p_clean = np.array([0.1, 0.2, 0.3])
    assert samples.believed(p_clean) is p_clean


def test_feddiv_neither_drops_nor_relabels_nor_samples_them_away(bench):
    # The model is sure that all twelve labels are wrong; half of them an expert has confirmed.
    says, given = [0, 1, 2] * 4, [1, 2, 0] * 4
    client = trusting(bench.sure(says, given), range(6))
    method = bench.method(train__batch=2, train__epochs=2)
    message = bench.message(mixture=[0.1, 0.9, 0.01, 0.01, 0.5, 0.5], eta=0.0)
    visit = method.visit(client, None, message, Streams(0).at(round=1, exchange=0, client=0))
    assert visit.diary["clean"] == 6
    assert visit.diary["noise_level"] == 0.5
    assert visit.diary["dropped"] == 1.0, "of the labels that nobody vouches for"
    assert min(visit.diary["reselected"]) >= 6
    without = method.visit(
        bench.sure(says, given), None, message, Streams(0).at(round=1, exchange=0, client=0)
    )
    assert without.diary["clean"] == 0


def test_a_client_is_not_clean_because_its_worst_labels_were_corrected():
    # Two of ten labels are dropped; eight are vouched for. All that is left in question is wrong.
    labels, logits = np.zeros(10, np.int64), np.zeros((10, 3))
    trains = trusted = np.arange(10) >= 2
    rules = {"clean_client_below": 0.3, "relabelling": RelabelOptions(enabled=False)}
    assert not divide(trains, logits, labels, **rules).noisy_client
    division = divide(trains, logits, labels, trusted=trusted, **rules)
    assert division.noise_level == 1.0
    assert division.candidates.tolist() == trusted.tolist()
    everything = divide(trains, logits, labels, trusted=np.ones(10, bool), **rules)
    assert everything.noise_level == 0.0


def test_fedcorr_never_corrects_them(bench):
    says, given = [0, 1, 2, 0, 1, 2], [1, 2, 0, 1, 2, 0]
    method, losses = (
        bench.method("fedcorr", warmup__iterations=1, rounds=20),
        np.array([9.0, 9, 9, 9, 0, 0]),
    )
    client = trusting(bench.sure(says, given), [0, 1])
    for kind in ("correct", "relabel"):
        visit = method.visit(client, FedCorrMemory(losses=losses), bench.message(kind), Streams(0))
        assert visit.memory.labels[:2].tolist() == given[:2]
        assert (visit.memory.labels[2:] != np.array(given[2:])).any()
        if kind == "correct":
            assert visit.reply.payload["noise_level"] == pytest.approx(2 / 6)


def test_dividemix_takes_them_for_labelled_with_their_label_alone(bench):
    client = trusting(bench.sure([0, 1, 2], [1, 2, 0]), [0])
    trusts = client.samples.believed(np.array([0.0, 0.9, 0.0]))
    division = divided(trusts, 0.5)
    assert division.labelled.tolist() == [0, 1]
    said = torch.tensor([[0.98, 0.01, 0.01]])
    target = sharpen(refined(torch.tensor([1]), division.trust[:1], said), 0.5)
    assert target.tolist() == [[0, 1, 0]]


def test_jointopt_leaves_their_labels_where_they_are(bench):
    client = trusting(bench.sure([0, 1], [1, 2]), [1])
    outputs = np.tile(np.eye(3, dtype=np.float32)[[0, 0]][:, None], (1, 2, 1))
    labels = np.eye(3, dtype=np.float32)[[1, 2]]
    memory = JointOptMemory(labels, outputs, np.array([2, 2]))
    learning = JointLearning(JointOptOptions(window=2), memory, moving=True, samples=client.samples)
    assert learning.memory().labels.tolist() == [[1, 0, 0], [0, 0, 1]]


def test_rofl_learns_from_them_however_large_their_loss():
    losses = torch.tensor([0.1, 5.0, 0.2, 4.0])
    trusted = torch.tensor([False, True, False, True])
    assert small_losses(losses, 0.5).tolist() == [0, 2]
    assert sorted(small_losses(losses, 0.5, trusted).tolist()) == [1, 3]
    assert sorted(small_losses(losses, 0.25, trusted).tolist()) == [0, 1, 3]
    assert len(small_losses(losses, 0.9, trusted)) == 2
