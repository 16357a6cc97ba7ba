"""Whether what a finished run left can be shown: it may be somebody else's, or an editor's."""

import math
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from feddiv.core.errors import UserError
from feddiv.runs.summary import HELD_OUT

if TYPE_CHECKING:
    from feddiv.runs.run import Run

MIXTURE = 6  # numbers of a filter's mixture
COLUMNS = ("given_label", "client")  # of assessment.npz, always there


def check_finished(run: "Run") -> None:
    """Refuse, in one line, results that tables and pictures could not be made of."""
    measure = run.experiment.evaluation.measure
    _check_summary(run.folder / "summary.json", run.summary, measure)
    _check_rounds(run.folder / "rounds.jsonl", run.rounds, measure)
    check_assessment(run.folder / "assessment.npz", run.assessment, run.summary)


def _check_summary(file: Path, summary: Mapping[str, Any], measure: str) -> None:
    numbers = [f"{which}_{measure}" for which in ("mean_last10", "best", "last")]
    for key in (*numbers, "flagged", "seconds"):
        if key not in summary:
            raise _damaged(file, f"{key} is missing")
    for key in (*numbers, "flagged", "wrong", "mean_last10_believed_accuracy"):
        if not _number(summary.get(key)):
            raise _damaged(file, f"{key} is no number")
    if summary["seconds"] is None or not _number(summary["seconds"]):
        raise _damaged(file, "seconds is no number")
    for key in ("dataset", "model_hash"):
        if not isinstance(summary.get(key), str):
            raise _damaged(file, f"{key} is no text")
    quality = summary.get("filter") or {}
    if not isinstance(quality, dict) or not _number(quality.get("f1")):
        raise _damaged(file, "filter is no set of numbers")
    told = summary.get("assessed_clients")
    if told is not None and type(told) is not int:
        raise _damaged(file, "assessed_clients is no count")


def _check_rounds(file: Path, rounds: list[dict[str, Any]], measure: str) -> None:
    if not any(line.get(measure) is not None for line in rounds):
        raise _damaged(file, f"no round has a {measure}")
    for place, line in enumerate(rounds, 1):
        if line.get("round") is None or type(line.get("turn")) is not int:
            raise _damaged(file, f"line {place} does not say which round it is")
        if not isinstance(line.get("stage"), str):
            raise _damaged(file, f"line {place} does not say which stage it is of")
        for key in ("round", measure, "believed_accuracy"):
            if not _number(line.get(key)):
                raise _damaged(file, f"{key} of line {place} is no number")
    mixture = rounds[-1].get("mixture")
    if mixture is not None and (
        not isinstance(mixture, list)
        or len(mixture) != MIXTURE
        or any(number is None or not _number(number) for number in mixture)
    ):
        raise _damaged(file, "mixture of the last line is not six numbers")


def check_assessment(
    file: Path, columns: Mapping[str, npt.NDArray[Any]], summary: Mapping[str, Any]
) -> None:
    """Refuse columns that are none, or not finite."""
    if not columns and summary.get("assessed_clients") is not None:
        return  # it stayed at the sites
    held_out = {k: column for k, column in columns.items() if k.startswith(HELD_OUT)}
    trained = {key: column for key, column in columns.items() if key not in held_out}
    _check_columns(file, trained, "")
    if held_out:
        _check_columns(file, held_out, HELD_OUT)


def _check_columns(file: Path, columns: Mapping[str, npt.NDArray[Any]], prefix: str) -> None:
    for key in COLUMNS:
        if prefix + key not in columns:
            raise _damaged(file, f"column {prefix}{key} is missing")
    first = columns[f"{prefix}client"]
    rows = len(first) if first.ndim else 0
    for key, column in columns.items():
        if column.shape != (rows,) or column.dtype.kind not in "iuf":
            raise _damaged(file, f"{key} is not a column of {rows} numbers")
        if not np.isfinite(column).all():
            raise _damaged(file, f"{key} holds a value that is not finite")


def _number(value: object) -> bool:
    """A finite number, or None."""
    if value is None:
        return True
    if isinstance(value, bool) or not isinstance(value, int | float):
        return False
    return abs(value) < 1e300 and math.isfinite(value)


def _damaged(file: Path, why: str) -> UserError:
    return UserError(f"{file}: is damaged ({why})")
