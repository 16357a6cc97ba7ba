"""What the engine costs: FedAvg rounds against a bare PyTorch loop, and two workers against one.

    .venv/bin/python benchmarks/engine.py [--rounds 4] [--repeats 5]

The bare loop takes the very same SGD steps, in the same order, from tensors that were gathered
and normalised beforehand: it is the limit. The benchmark fails if its model is not the engine's,
bit for bit. All variants are run in turn, again and again; ratios are of medians of one invocation.
CIFAR-10 is read from FEDDIV_DATA. Run it on an idle machine.
"""

import argparse
import json
import statistics
import tempfile
import time
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import torch
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
SETTINGS: dict[str, Any] = {
    "method.name": "fedavg",
    "data.source": "cifar10",
    "data.images": 5000,
    "data.test_images": 1000,
    "data.augment.pad": 0,  # the bare loop has nothing to compare with augmentation
    "data.augment.flip": False,
    "clients.count": 20,
    "clients.fraction": 0.2,  # four visits of 250 images a round
    "train.epochs": 1,
    "train.batch": 10,
    "train.momentum": 0.5,
    "evaluation.every": 1000,
    "against": [],
}


def engine(rounds: int, workers: int) -> tuple[float, str]:
    """Seconds of all rounds without evaluation, and the hash of the model."""
    with tempfile.TemporaryDirectory() as folder:
        run = feddiv.run(None, SETTINGS | {"rounds": rounds}, out=f"{folder}/run", workers=workers)
    seconds = sum(line["seconds"] for line in run.rounds[1:])  # the first one starts the workers
    return seconds, run.summary["model_hash"]


def bare(rounds: int) -> tuple[float, str]:
    """The same steps in one loop: no federation, no method, no files."""
    torch.set_num_threads(1)
    experiment = feddiv.load_experiment(None, SETTINGS | {"rounds": rounds})
    prepared, streams = prepare(experiment), Streams(experiment.seed)
    workspace, options = prepared.workspace, experiment.train
    clients = {id: workspace.client(id).samples for id in range(experiment.clients.count)}
    inputs = {id: samples.plain(slice(None)) for id, samples in clients.items()}
    model = workspace.make_model("net", streams)
    state = workspace.method.begin(lambda name: model, _facts(prepared), streams)
    net = workspace.load("net", model).train()
    seconds = 0.0
    for number in range(1, rounds + 1):
        here = streams.at(round=number)
        exchange = workspace.method.plan(state, Moment("train", number - 1), here)
        started, mean = time.perf_counter(), RunningMean()
        for id in exchange.clients:
            net.load_state_dict(model)
            optimiser = torch.optim.SGD(
                net.parameters(), lr=options.lr, momentum=options.momentum, fused=True
            )
            x, y = inputs[id], clients[id].given
            for rows in batches(len(y), options.batch, here.at(client=id).torch("order")):
                optimiser.zero_grad()
                F.cross_entropy(net(x[rows]), y[rows]).backward()
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
    parser.add_argument("--rounds", type=int, default=6)
    parser.add_argument("--repeats", type=int, default=5)
    options = parser.parse_args()
    variants: dict[str, Callable[[], tuple[float, str]]] = {
        "bare loop": lambda: bare(options.rounds),
        "in process": lambda: engine(options.rounds, 0),
        "1 worker": lambda: engine(options.rounds, 1),
        "2 workers": lambda: engine(options.rounds, 2),
    }
    times: dict[str, list[float]] = {name: [] for name in variants}
    hashes = set()
    for _ in range(options.repeats):
        for name, variant in variants.items():
            seconds, model = variant()
            times[name].append(seconds)
            hashes.add(model)
    if len(hashes) != 1:
        raise SystemExit(f"the variants did not take the same steps: {sorted(hashes)}")
    median = {name: statistics.median(values) for name, values in times.items()}
    print("| variant | seconds, median | relative to the bare loop |\n| --- | --- | --- |")
    for name, value in median.items():
        print(f"| {name} | {value:.2f} | {value / median['bare loop']:.2f} |")
    print(f"\n2 workers are {median['1 worker'] / median['2 workers']:.2f} times 1 worker")
    kept = {
        "command": f"benchmarks/engine.py --rounds {options.rounds} --repeats {options.repeats}",
        "date": datetime.now(UTC).date().isoformat(),
        "seconds": times,
        "model_hash": hashes.pop(),
    }
    (RESULTS / "engine.json").write_text(json.dumps(kept, indent=2) + "\n")


if __name__ == "__main__":
    main()
