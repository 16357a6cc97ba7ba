"""FedProx against its gradient worked out by hand, and against FedAvg where nothing pulls."""

from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn
from torch.nn import functional as F

import feddiv
from feddiv.learning.train import Batch
from feddiv.methods.fedprox import Proximal

RUN = {
    "method.name": "fedprox",
    "rounds": 3,
    "data.images": 120,
    "train.epochs": 1,
    "clients.count": 4,
    "against": [],
}


class Scaled(nn.Module):
    """Two weights, and a batch norm that has buffers."""

    def __init__(self) -> None:
        super().__init__()
        self.scale = nn.Parameter(torch.tensor([1.0, 2.0]))
        self.norm = nn.BatchNorm1d(2, affine=False)

    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        return self.norm(inputs) * self.scale


def test_the_pull_is_mu_times_the_way_gone_and_buffers_do_not_count() -> None:
    net = Scaled()
    objective = Proximal(net, mu=0.5)
    with torch.no_grad():
        net.scale += torch.tensor([3.0, -1.0])
        net.norm.running_mean += 100
    batch = Batch(torch.tensor([[1.0, 0.0], [0.0, 1.0]]), torch.tensor([0, 1]), torch.arange(2))
    plain = F.cross_entropy(net(batch.inputs), batch.labels)
    loss = objective(net, batch)
    # (0.5 / 2) (3^2 + 1^2) = 2.5
    assert loss.item() == pytest.approx(plain.item() + 2.5)
    (with_pull,) = torch.autograd.grad(loss, net.scale)
    (without,) = torch.autograd.grad(plain, net.scale)
    torch.testing.assert_close(with_pull - without, torch.tensor([1.5, -0.5]))


def visit(bench: Any, method: str, **settings: object) -> Any:
    client = bench.sure([0, 1, 2, 0, 1, 2], [0, 1, 1, 2, 1, 2])
    found = bench.method(method, train__epochs=3, train__batch=2, train__lr=0.1, **settings)
    return found.visit(client, None, bench.message(), bench.rng)


def test_with_next_to_no_pull_it_is_fedavg_bit_for_bit(bench: Any) -> None:
    mine = visit(bench, "fedprox", method__mu=1e-30).reply
    theirs = visit(bench, "fedavg").reply
    assert mine.weights["net"].keys() == theirs.weights["net"].keys()
    assert all(torch.equal(v, theirs.weights["net"][k]) for k, v in mine.weights["net"].items())
    assert mine.metrics == theirs.metrics


def test_the_stronger_the_pull_the_shorter_the_way(bench: Any) -> None:
    ways = [visit(bench, "fedprox", method__mu=mu) for mu in (1e-30, 0.1, 1.0, 5.0)]
    gone = [outcome.reply.metrics["divergence"] for outcome in ways]
    assert gone == sorted(gone, reverse=True)
    assert gone[-1] < 0.5 * gone[0]


def test_it_sends_what_fedavg_sends(bench: Any) -> None:
    outcome = visit(bench, "fedprox")
    declared = bench.method("fedprox").kinds(None)["train"].reply
    assert outcome.reply.metrics.keys() == declared.keys() == {"divergence"}
    assert outcome.reply.payload == {}
    assert outcome.memory is None


@pytest.mark.parametrize("mu", ["-1.0", "0.0"])
def test_one_is_the_pull_by_default_and_none_is_refused(mu: str) -> None:
    assert feddiv.load_experiment(None, {"method.name": "fedprox"}).method.mu == 1.0
    with pytest.raises(feddiv.UserError, match=rf"method\.mu={mu}"):
        feddiv.load_experiment(None, ["method.name=fedprox", f"method.mu={mu}"])


@pytest.mark.slow
def test_a_run_ends_with_the_same_model_for_any_number_of_workers(tmp_path: Path) -> None:
    alone, together = (
        feddiv.run("quickstart", RUN, out=tmp_path / str(workers), workers=workers)
        for workers in (0, 2)
    )
    assert [line["round"] for line in alone.rounds] == [1, 2, 3]
    assert alone.summary["model_hash"] == together.summary["model_hash"]
