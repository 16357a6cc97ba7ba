"""What is printed at the end of a run about rounds that are still to be had."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from feddiv.cli.choices import print_lists
from feddiv.cli.result_table import print_summary
from feddiv.config.reading import load_experiment
from feddiv.runs.run import Run


def run_of(curve: list[float], folder: str = "runs/mine", **against: Run) -> Run:
    """A finished run with two rounds of warm-up and this accuracy in every round after it."""
    experiment = load_experiment("quickstart", ["rounds=24", "warmup.iterations=1"])
    warmup: list[dict[str, Any]] = [{"stage": "warmup", "test_accuracy": 0.1}]
    rounds = warmup + [{"stage": "train", "test_accuracy": accuracy} for accuracy in curve]
    summary = {
        **{f"{kind}_test_accuracy": 0.5 for kind in ("best", "last", "mean_last10")},
        "dataset": "digits",
        "filter": None,
        "flagged": None,
        "seconds": 3,
    }
    return Run(experiment, Path(folder), summary, rounds, {"client": np.arange(4)}, against)


RISING = [0.5 + 0.01 * step for step in range(12)]
FLAT = [0.7] * 12


def test_a_curve_that_still_rises_is_told_with_the_command(capsys) -> None:
    print_summary(run_of(RISING, "runs/my first"))
    said = "Still rising: feddiv (9.0 points over its last 10 measured rounds). For more: "
    assert f"{said}feddiv resume 'runs/my first' rounds=48\n" in capsys.readouterr().out


@pytest.mark.parametrize("curve", [FLAT, RISING[::-1], RISING[:9]])
def test_other_curves_are_not(curve: list[float], capsys) -> None:
    print_summary(run_of(curve))
    assert "Still rising" not in capsys.readouterr().out


def test_a_rival_that_rises_is_named(capsys) -> None:
    print_summary(run_of(FLAT, fedavg=run_of(RISING)))
    assert "Still rising: fedavg (9.0" in capsys.readouterr().out


def test_no_command_is_named_that_would_be_refused(capsys) -> None:
    rival = run_of(FLAT)
    other = load_experiment("quickstart", ["method.name=fedcorr", "rounds=24"])
    rival = Run(other, rival.folder, rival.summary, rival.rounds, rival.assessment)
    print_summary(run_of(RISING, fedcorr=rival))
    out = capsys.readouterr().out
    assert "Still rising: feddiv" in out
    assert "feddiv resume" not in out


LONG = "fedavg-" + "with-a-very-long-name-" * 4 + "end"


@pytest.mark.parametrize("columns", [None, "20"])
def test_names_are_whole_in_a_file(columns: str | None, capsys, monkeypatch) -> None:
    """What is piped has no width, whatever the terminal's is."""
    monkeypatch.delenv("COLUMNS", raising=False)
    if columns:
        monkeypatch.setenv("COLUMNS", columns)
    print_summary(run_of(FLAT, **{LONG: run_of(FLAT)}))
    out = capsys.readouterr().out
    assert LONG in out
    assert "…" not in out
    print_lists("methods")
    out = capsys.readouterr().out
    assert "\nfeddiv-no-relabel-no-pcs " in out
    assert "…" not in out


def test_names_are_whole_on_a_narrow_terminal(capsys, monkeypatch) -> None:
    monkeypatch.setenv("COLUMNS", "60")
    monkeypatch.setenv("FORCE_COLOR", "1")  # to rich this is a terminal
    print_summary(run_of(FLAT, **{LONG: run_of(FLAT)}))
    out = capsys.readouterr().out
    assert LONG not in out
    assert LONG in "".join(line.split()[0] for line in out.splitlines() if line.strip())
