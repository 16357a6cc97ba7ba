"""The same FedAvg work in feddiv, Flower and pfl, on two cores: rounds per second.

    .venv/bin/python benchmarks/peers.py                              about an hour
    .venv/bin/python benchmarks/peers.py --rounds 10 --repeats 1 --no-record      a trial

The work is pfl-research's published setting (benchmarks/peers/fedavg.toml). All engines get one
net, one seed a repeat, the same images in the same memory layout, two processes for the clients
and one torch thread in each, and run in turn. Each peer has an environment of its own under
--envs, made when it is missing. Of every engine the wall clock from the end of round 5 to the end
of the last one counts, evaluations included. CIFAR-10 is read from FEDDIV_DATA.
"""

import argparse
import json
import os
import platform
import shlex
import signal
import statistics
import subprocess
import sys
import tempfile
import time
import tomllib
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parent.parent
SCRIPTS = Path("benchmarks/peers")
RESULTS = ROOT / "benchmarks/results/peers.json"
SETTING = tomllib.loads((ROOT / SCRIPTS / "fedavg.toml").read_text())

CORES = 2
SKIPPED = 5  # rounds at the start, in which actors read images and allocators warm up
EVERY: int = SETTING["evaluation"]["every"]
TICK = 0.02  # seconds between two looks at a journal

PEERS = ("flower", "pfl")  # environments
PACKAGES = ("feddiv", "flwr", "ray", "pfl", "torch", "numpy")
VARIABLES = {
    "PYTHONPATH": str(ROOT / SCRIPTS),
    "OMP_NUM_THREADS": "1",
    "MKL_NUM_THREADS": "1",
    "PFL_PYTORCH_DEVICE": "cpu",  # else pfl looks for a GPU at every batch
    "FLWR_TELEMETRY_ENABLED": "0",
    "FLWR_DISABLE_UPDATE_CHECK": "1",
    "RAY_USAGE_STATS_ENABLED": "0",
    "RAY_worker_niceness": "0",  # ray's workers would yield to whatever else runs
}


@dataclass(frozen=True)
class Job:
    """One run of one engine. Everything it writes is in `folder`."""

    rounds: int
    seed: int
    envs: Path
    folder: Path

    @property
    def arguments(self) -> list[str]:
        """What a peer's script is told."""
        return [
            *("--rounds", str(self.rounds), "--seed", str(self.seed)),
            *("--images", str(self.envs / "cifar10.npz")),
            *("--journal", str(self.folder / "rounds.jsonl")),
        ]

    def python(self, peer: str) -> str:
        """The interpreter of a peer's environment."""
        return str(self.envs / peer / "bin" / "python")

    def shown(self, command: Sequence[str]) -> str:
        """A command as others can read it, without the folders of this machine."""
        text = " ".join(command).replace(sys.executable, "python")
        return text.replace(f"{self.folder}", "RUN").replace(f"{self.envs}", "ENVS")


def feddiv(job: Job) -> list[str]:
    """feddiv's own command."""
    experiment = [str(SCRIPTS / "fedavg.toml"), f"rounds={job.rounds}", f"seed={job.seed}"]
    options = ["--workers", str(CORES), "--out", str(job.folder), "--quiet"]
    return [sys.executable, "-m", "feddiv", "run", *experiment, *options]


def flower(job: Job) -> list[str]:
    """Flower as its documentation has it: a SuperNode for each client."""
    return [job.python("flower"), str(SCRIPTS / "in_flower.py"), *job.arguments]


def flower_50(job: Job) -> list[str]:
    """Flower with as few SuperNodes as a round needs."""
    return [*flower(job), "--nodes", "50"]


def pfl(job: Job) -> list[str]:
    """pfl in two processes."""
    launcher = ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node", str(CORES)]
    return [job.python("pfl"), *launcher, str(SCRIPTS / "in_pfl.py"), *job.arguments]


ENGINES: Mapping[str, Callable[[Job], list[str]]] = {
    "feddiv": feddiv,
    "Flower": flower,
    "Flower, 50 nodes": flower_50,
    "pfl": pfl,
}


def run(engine: str, job: Job) -> dict[str, Any]:
    """One measured run."""
    command = ENGINES[engine](job)
    load, started = os.getloadavg()[0], time.perf_counter()
    with running(command, job.folder) as process:
        stamps = list(appearances(job.folder / "rounds.jsonl", process))
    if process.returncode:
        log = (job.folder / "log").read_text(errors="replace").splitlines()
        raise SystemExit("\n".join([" ".join(command), *log[-40:]]))
    lines = read(job.folder / "rounds.jsonl")
    check(engine, lines, steps_by_round(job.folder, lines), job.rounds)
    return {
        "engine": engine,
        "seed": job.seed,
        "rounds_per_second": (job.rounds - SKIPPED) / (stamps[-1] - stamps[SKIPPED - 1]),
        "test_accuracy": lines[-1]["test_accuracy"],
        "seconds_to_first_round": stamps[0] - started,
        "load_before": load,
        "command": job.shown(command),
    }


@contextmanager
def running(command: Sequence[str], folder: Path) -> Iterator[subprocess.Popen[bytes]]:
    """A process with its log in the folder; it and its children end with the block."""
    variables = {**os.environ, **VARIABLES, "FLWR_HOME": str(folder / "flwr")}
    with (folder / "log").open("wb") as log:
        process = subprocess.Popen(
            command, cwd=ROOT, env=variables, stdout=log, stderr=log, start_new_session=True
        )
        try:
            yield process
            process.wait()
        except BaseException:
            os.killpg(process.pid, signal.SIGTERM)
            raise


def appearances(journal: Path, process: subprocess.Popen[bytes]) -> Iterator[float]:
    """When each line of the journal appeared: one clock outside of all engines."""
    seen, over = 0, False
    while not over:
        over = process.poll() is not None  # before the look, so that none is missed
        lines = journal.read_bytes().count(b"\n") if journal.exists() else 0
        yield from [time.perf_counter()] * (lines - seen)
        seen = lines
        time.sleep(TICK)


def read(file: Path) -> list[dict[str, Any]]:
    """The lines of a JSON-lines file."""
    return [json.loads(line) for line in file.read_text().splitlines()]


def steps_by_round(folder: Path, lines: Sequence[Mapping[str, Any]]) -> Counter[int]:
    """SGD steps of each round: as a peer says, or from the clients that feddiv writes down."""
    clients = folder / "clients.jsonl"
    if not clients.exists():
        return Counter({line["round"]: line["steps"] for line in lines})
    steps: Counter[int] = Counter()
    for visit in read(clients):
        steps[visit["round"]] += -(-visit["samples"] // SETTING["train"]["batch"])
    return steps


def check(
    engine: str, lines: Sequence[Mapping[str, Any]], steps: Counter[int], rounds: int
) -> None:
    """Refuse a run that did not do the work."""
    visits = round(SETTING["clients"]["count"] * SETTING["clients"]["fraction"])
    expected = visits * (50_000 // SETTING["clients"]["count"] // SETTING["train"]["batch"])
    numbers = list(range(1, rounds + 1))
    evaluated = [line["round"] for line in lines if line.get("test_accuracy") is not None]
    facts = {
        "rounds": [line["round"] for line in lines] == numbers,
        "visits": all(line["visits"] == visits for line in lines),
        "SGD steps": all(steps[number] == expected for number in numbers),
        "evaluations": evaluated == numbers[EVERY - 1 :: EVERY],
    }
    if wrong := [name for name, right in facts.items() if not right]:
        raise SystemExit(f"{engine} did other work than it was given: {', '.join(wrong)}")


def versions(python: str) -> dict[str, str]:
    """Versions of the packages that matter in an environment."""
    code = (
        "import importlib.metadata as m, json, sys\n"
        "there = {d.name: d.version for d in m.distributions()}\n"
        f"print(json.dumps({{n: there[n] for n in {PACKAGES} if n in there}}))"
    )
    done = subprocess.run([python, "-c", code], check=True, capture_output=True, text=True)
    found: dict[str, str] = json.loads(done.stdout)
    return {"python": platform.python_version(), **found}


def table(runs: Sequence[Mapping[str, Any]], rounds: int) -> str:
    """Markdown: a line per engine, every run shown, then the median and how feddiv compares."""
    found = {name: [run for run in runs if run["engine"] == name] for name in ENGINES}
    speeds = {name: [run["rounds_per_second"] for run in found[name]] for name in ENGINES}
    medians = {name: statistics.median(each) for name, each in speeds.items() if each}
    text = [
        "| engine | rounds/s, each run | median | feddiv / engine "
        f"| accuracy after {rounds} rounds, mean |",
        "| --- | --- | --- | --- | --- |",
    ]
    for name, median in medians.items():
        accuracy = statistics.mean(run["test_accuracy"] for run in found[name])
        ratio = f"{medians['feddiv'] / median:.2f}" if "feddiv" in medians else "–"
        each = " ".join(f"{speed:.3f}" for speed in speeds[name])
        text.append(f"| {name} | {each} | **{median:.3f}** | {ratio} | {accuracy:.3f} |")
    return "\n".join(text)


def machine() -> dict[str, Any]:
    """What the numbers were measured on."""
    info = Path("/proc/cpuinfo")
    lines = info.read_text().splitlines() if info.exists() else []
    models = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return {"system": platform.system(), "cores_used": CORES, "processor": next(iter(models), None)}


def number_of_rounds(text: str) -> int:
    """Rounds such that every engine evaluates equally often in the time that counts."""
    rounds = int(text)
    if rounds < EVERY or rounds % EVERY:
        raise argparse.ArgumentTypeError(f"{rounds} is not a multiple of {EVERY}")
    return rounds


def main() -> None:
    """Measure, engine after engine and again, then print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=number_of_rounds, default=100)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--only", nargs="+", choices=ENGINES, default=list(ENGINES))
    parser.add_argument("--envs", type=Path, default=Path("~/.cache/feddiv/peers"))
    parser.add_argument("--no-record", action="store_true", help="leave results/peers.json alone")
    options = parser.parse_args()
    envs = options.envs.expanduser().absolute()
    subprocess.run([sys.executable, str(ROOT / SCRIPTS / "prepare.py"), str(envs)], check=True)
    if hasattr(os, "sched_setaffinity"):  # children inherit it; helpers of an engine count too
        os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:CORES])
    runs = []
    for seed in range(options.repeats):
        for engine in options.only:
            with tempfile.TemporaryDirectory() as folder:
                runs.append(run(engine, Job(options.rounds, seed, envs, Path(folder))))
            speed = f"{runs[-1]['rounds_per_second']:.3f} rounds/s"
            print(f"{engine}, seed {seed}: {speed}", file=sys.stderr, flush=True)
    if not options.no_record:
        pythons = {"feddiv": sys.executable}
        pythons |= {peer: str(envs / peer / "bin" / "python") for peer in PEERS}
        record = {
            "date": datetime.now(UTC).date().isoformat(),
            "command": shlex.join(["benchmarks/peers.py", *sys.argv[1:]]).replace(
                str(options.envs), "ENVS"
            ),
            "machine": machine(),
            "versions": {name: versions(python) for name, python in pythons.items()},
            "setting": SETTING,
            "rounds": options.rounds,
            "rounds_skipped": SKIPPED,
            "runs": runs,
        }
        RESULTS.write_text(json.dumps(record, indent=1) + "\n")
    print(table(runs, options.rounds))


if __name__ == "__main__":
    main()
