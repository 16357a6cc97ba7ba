"""What the engine costs: FedAvg rounds against a bare PyTorch loop, and two workers against one.

    .venv/bin/python benchmarks/engine.py [--net cnn|mlp] [--mixup] [--rounds 6] [--repeats 5]

The bare loop takes the very same SGD steps, in the same order, from tensors that were gathered
and normalised beforehand: it is the limit. The benchmark fails if its model is not the engine's,
bit for bit. All variants are run in turn, again and again; ratios are of medians of one invocation.
`cnn` trains on CIFAR-10, read from FEDDIV_DATA, `mlp` on made-up vectors of 1,280 features. Run it
on an idle machine.
"""

import argparse
import json
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import torch
from made_up import write_vectors
from torch.nn import functional as F

import feddiv
from feddiv.core.randomness import Streams
from feddiv.learning.average import RunningMean
from feddiv.learning.train import batches
from feddiv.methods.common import copy_of
from feddiv.methods.contract import Moment
from feddiv.runs.model import model_hash
from feddiv.runs.prepare import prepare

RESULTS = Path(__file__).parent / "results"
COMMON: dict[str, Any] = {
    "method.name": "fedavg",
    "clients.count": 20,
    "clients.fraction": 0.2,  # four visits a round
    "train.batch": 10,
    "train.momentum": 0.5,
    "evaluation.every": 1000,
    "against": [],
}
IMAGES = {
    "data.source": "cifar10",
    "data.images": 5000,
    "data.test_images": 1000,
    "data.augment.pad": 0,  # the bare loop has nothing to compare with augmentation
    "data.augment.flip": False,
    "train.epochs": 1,
}


def vectors(folder: Path) -> dict[str, Any]:
    """Settings for made-up vectors, in a file that is written here: 500 for each client."""
    file = folder / "vectors.npz"
    write_vectors(file, train=10_000, test=1000)
    data = {"data.source": "npz", "data.path": str(file), "model.name": "mlp"}
    return {**data, "partition.name": "iid", "train.epochs": 5}


def engine(settings: dict[str, Any], workers: int) -> tuple[float, str]:
    """Seconds of all rounds without evaluation, and the hash of the model."""
    with tempfile.TemporaryDirectory() as folder:
        run = feddiv.run(None, settings, out=f"{folder}/run", workers=workers)
    seconds = sum(line["seconds"] for line in run.rounds[1:])  # the first one starts the workers
    return seconds, run.summary["model_hash"]


def bare(settings: dict[str, Any]) -> tuple[float, str]:
    """The same steps in one loop: no federation, no method, no files."""
    torch.set_num_threads(1)
    experiment = feddiv.load_experiment(None, settings)
    prepared, streams = prepare(experiment), Streams(experiment.seed)
    workspace, options = prepared.workspace, experiment.train
    clients = {id: workspace.client(id).samples for id in range(experiment.clients.count)}
    inputs = {id: samples.plain(slice(None)) for id, samples in clients.items()}
    model = workspace.make_model("net", streams)
    state = workspace.method.begin(lambda name: model, _facts(prepared), streams)
    net = workspace.load("net", model).train()
    seconds = 0.0
    for number in range(1, experiment.rounds + 1):
        here = streams.at(round=number)
        exchange = workspace.method.plan(state, Moment("train", number - 1), here)
        started, mean = time.perf_counter(), RunningMean()
        for id in exchange.clients:
            net.load_state_dict(model)
            optimiser = torch.optim.SGD(
                net.parameters(), lr=options.lr, momentum=options.momentum, fused=True
            )
            x, y = inputs[id], clients[id].given
            rng = here.at(client=id)
            order, ratios, partners = rng.torch("order"), rng.numpy("mixup"), rng.torch("mixup")
            for _ in range(options.epochs):
                for rows in batches(len(y), options.batch, order):
                    inputs_, labels = x[rows], y[rows]
                    optimiser.zero_grad()
                    if experiment.method.mixup:
                        ratio = float(ratios.beta(1.0, 1.0))
                        other = torch.randperm(len(labels), generator=partners)
                        logits = net(torch.lerp(inputs_[other], inputs_, ratio))
                        loss = ratio * F.cross_entropy(logits, labels)
                        loss = loss + (1 - ratio) * F.cross_entropy(logits, labels[other])
                    else:
                        loss = F.cross_entropy(net(inputs_), labels)
                    loss.backward()
                    optimiser.step()
            mean.add({"net": copy_of(net)}, len(y))
        model = mean.mean()["net"]
        seconds += time.perf_counter() - started if number > 1 else 0.0
    return seconds, model_hash({"net": model})


def _facts(prepared: Any) -> Any:
    from feddiv.federation.in_process import InProcess

    return InProcess(prepared.workspace).facts


def main() -> None:
    """Measure in turn, compare, print, keep."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--net", choices=["cnn", "mlp"], default="cnn")
    parser.add_argument("--mixup", action="store_true")
    parser.add_argument("--rounds", type=int, default=6)
    parser.add_argument("--repeats", type=int, default=5)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        data = IMAGES if options.net == "cnn" else vectors(Path(folder))
        settings = COMMON | data | {"rounds": options.rounds, "method.mixup": options.mixup}
        times, hashes = measured(settings, options.repeats)
    if len(hashes) != 1:
        raise SystemExit(f"the variants did not take the same steps: {sorted(hashes)}")
    median = {name: statistics.median(values) for name, values in times.items()}
    print("| variant | seconds, median | relative to the bare loop |\n| --- | --- | --- |")
    for name, value in median.items():
        print(f"| {name} | {value:.2f} | {value / median['bare loop']:.2f} |")
    print(f"\n2 workers are {median['1 worker'] / median['2 workers']:.2f} times 1 worker")
    kept = {
        "command": " ".join(["benchmarks/engine.py", *sys.argv[1:]]),
        "date": datetime.now(UTC).date().isoformat(),
        "seconds": times,
        "model_hash": hashes.pop(),
    }
    name = {"cnn": "engine", "mlp": "engine-mlp"}[options.net] + "-mixup" * options.mixup
    (RESULTS / f"{name}.json").write_text(json.dumps(kept, indent=2) + "\n")


def measured(settings: dict[str, Any], repeats: int) -> tuple[dict[str, list[float]], set[str]]:
    """Seconds of every variant, one time for each repeat, and the hashes of all models."""
    variants: dict[str, Callable[[], tuple[float, str]]] = {
        "bare loop": lambda: bare(settings),
        "in process": lambda: engine(settings, 0),
        "1 worker": lambda: engine(settings, 1),
        "2 workers": lambda: engine(settings, 2),
    }
    times: dict[str, list[float]] = {name: [] for name in variants}
    hashes = set()
    for _ in range(repeats):
        for name, variant in variants.items():
            seconds, model = variant()
            times[name].append(seconds)
            hashes.add(model)
    return times, hashes


if __name__ == "__main__":
    main()
