"""Runs of a method that is being watched, in this process."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from feddiv.config.experiment import Experiment
from feddiv.core.errors import Diverged, UserError
from feddiv.methods.contract import Method
from feddiv.runs.prepare import prepare
from feddiv.runs.run import Carrier, Run, execute
from feddiv.runs.run_folder import RunFolder
from feddiv.testing.findings import Findings, TrialOver
from feddiv.testing.odd_clients import ROUNDS, described
from feddiv.testing.watch import Watch

NEWCOMER = {99: 10}  # n_k of a client that joins when the run is over


def watched_run(
    experiment: Experiment, folder: Path, findings: Findings, carrier: Carrier
) -> tuple[Run | None, Watch]:
    """Run it to the end; None for the run where it could not go on."""
    prepared = prepare(experiment)
    watch = Watch(prepared.workspace.method, findings)
    place = RunFolder(folder)
    place.begin(prepared.experiment, prepared.draw)
    run = None
    try:
        run = execute(prepared, place, carrier=carrier)
    except TrialOver:
        pass
    except (UserError, Diverged) as problem:
        if not _refused(folder):  # else that is the reason
            findings.add(f"the run ends: {problem}")
    except Exception as problem:
        findings.failed("the run", problem)
    finally:
        place.unlock()
    for line in _refused(folder):
        declared = ", which kinds() declares" if line["refused"].endswith("is missing") else ""
        findings.add(
            f"a reply to {line['kind']!r} is refused: {line['refused']}{declared}",
            described(line["client"]),
        )
    return run, watch


def _refused(folder: Path) -> list[dict[str, Any]]:
    """The journal's lines on replies that were refused."""
    return [line for line in journal(folder, "clients.jsonl") if "refused" in line]


def journal(folder: Path, name: str) -> list[dict[str, Any]]:
    """The lines of a journal, without times."""
    file = folder / name
    lines = file.read_text(encoding="utf-8").splitlines() if file.exists() else []
    return [
        {key: value for key, value in json.loads(line).items() if not key.endswith("seconds")}
        for line in lines
    ]


def check_what_came(watch: Watch, findings: Findings) -> None:
    """After a run without losses: all that is declared has come, and nothing is per sample."""
    assert watch.facts is not None
    for kind, carried in watch.method.kinds(watch.facts).items():
        if kind not in watch.planned:
            findings.add(f"kinds() declares {kind!r}, and plan sent none in {ROUNDS} rounds")
            continue
        for name in carried.reply:
            shapes = watch.shapes.get((kind, name), {})
            if not shapes:
                findings.add(f"kinds() declares {name!r} in replies to {kind!r}, and none has it")
            if len(set(shapes.values())) > 1:
                said = ", ".join(f"{shape} for {n}" for n, shape in sorted(shapes.items()))
                findings.add(
                    f"{name!r} in replies to {kind!r} has a shape that depends on how many samples "
                    f"a client has ({said}): nothing per sample may leave it"
                )


def check_newcomers(method: Method[Any, Any], state: Any, findings: Findings) -> None:
    """Clients may join a run on Flower at any time."""
    try:
        method.joined(state, NEWCOMER)
    except Exception as problem:
        findings.failed(
            "joined (the default is for states that are dataclasses with a field `sizes`)", problem
        )


def same_arrays(one: Mapping[str, Any], other: Mapping[str, Any]) -> bool:
    """Whether two assessments agree in every entry."""
    return one.keys() == other.keys() and all(
        np.array_equal(value, other[key]) for key, value in one.items()
    )
