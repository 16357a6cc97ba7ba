"""Predictions as CSV."""

import csv
import os
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TextIO

from feddiv.core.errors import UserError
from feddiv.core.given_files import check_writable
from feddiv.core.spreadsheets import cell
from feddiv.runs.model import TrainedModel
from feddiv.runs.predict_inputs import read_inputs


def write_predictions(
    model: TrainedModel, data: Sequence[Path], out: Path | None, skipped: Callable[[str], None]
) -> None:
    """Predict every sample at these paths; the file appears when it is complete."""
    if out is None:
        _write(model, data, sys.stdout, skipped)
        return
    check_writable(out, "--out")  # replacing a device would be the end of it
    temporary = out.with_name(out.name + ".part")
    try:
        with temporary.open("w", newline="", encoding="utf-8") as file:
            _write(model, data, file, skipped)
        os.replace(temporary, out)
    except OSError as error:
        raise UserError(f"--out {out}: cannot be written ({error.strerror or error})") from None
    finally:
        temporary.unlink(missing_ok=True)


def _write(
    model: TrainedModel, data: Sequence[Path], file: TextIO, skipped: Callable[[str], None]
) -> None:
    rows = csv.writer(file, lineterminator="\n")
    started = False
    for chunk in read_inputs(data, model.card, skipped):
        probabilities = model.predict_proba(chunk.inputs)
        if not started:  # only now is it sure that there is anything to write
            rows.writerow(["sample", "predicted_label", "confidence"])
            started = True
        for name, row in zip(chunk.names, probabilities, strict=True):
            best = int(row.argmax())
            rows.writerow([cell(name), cell(model.classes[best]), f"{row[best]:.6f}"])
