"""Trials in which experts vouch for labels: no method may leave these out or change them."""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from feddiv.config.reading import load_experiment
from feddiv.data import Draw
from feddiv.runs.run import on_this_machine
from feddiv.testing.findings import Findings
from feddiv.testing.odd_clients import ALL_WRONG
from feddiv.testing.trial import watched_run


def check_experts(settings: Mapping[str, Any], folder: Path, findings: Findings) -> None:
    """Run where all labels of a client that looks wrong, and some of others, are vouched for."""
    folder.mkdir(parents=True)
    draw = Draw.load(Path(settings["data.draw"]))
    trusted = np.arange(len(draw.given)) % 4 == 0
    trusted[draw.parts[ALL_WRONG]] = True
    draw = replace(draw, trusted=trusted, uncorrected=draw.given)
    draw.save(folder / "draw.npz")
    findings.circumstance = "where an expert vouches for labels, "
    experiment = load_experiment(None, {**settings, "data.draw": str(folder / "draw.npz")})
    watched_run(experiment, folder / "run", findings, on_this_machine(0))
    findings.circumstance = ""
