"""Texts to predict: in files, in tables, or in Python."""

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from feddiv.core.errors import UserError
from feddiv.data.data_options import USUAL_COLUMNS, Columns
from feddiv.data.images.listing import some
from feddiv.data.sources.table_cells import Table
from feddiv.data.sources.table_columns import column_texts
from feddiv.data.sources.table_frames import Frame, FrameTable, is_frame
from feddiv.data.texts.files import read_text
from feddiv.data.texts.texts import NoText, Texts, usable
from feddiv.runs.model_card import ModelCard


def table_texts(table: Table, card: ModelCard) -> Texts:
    """The texts of the training table's column, else of the usual one."""
    names = (*card.columns, *USUAL_COLUMNS["text"])
    found = next((name for name in names if name in table.names), None)
    if found is None:
        allowed = ", ".join(dict.fromkeys(names))
        raise table.malformed(
            f"has no column of texts ({allowed}), only {some(table.names, 8)}; this model takes "
            "texts"
        )
    return column_texts(table, found)


def file_texts(
    named: Sequence[tuple[str, Path]], skipped: Callable[[str], None]
) -> Iterator[tuple[str, str]]:
    """Names and texts of files; `skipped` is told of those that are none."""
    for name, file in named:
        try:
            yield name, read_text(file)
        except UserError as problem:
            skipped(f"{problem}, left out")


def given_texts(inputs: Any, card: ModelCard) -> list[str] | None:
    """What was given as texts: one, several, paths of files, a data frame; None for arrays."""
    if is_frame(inputs):
        return list(table_texts(FrameTable([Frame("samples", inputs)], Columns()), card))
    samples = [inputs] if isinstance(inputs, str | Path) else inputs
    if not isinstance(samples, list | tuple):
        return None
    if samples and not isinstance(samples[0], str | Path):
        return None
    return [_text(sample, number) for number, sample in enumerate(samples)]


def _text(sample: Any, number: int) -> str:
    if isinstance(sample, Path):
        return read_text(sample)
    if not isinstance(sample, str):
        raise UserError(f"sample {number} is a {type(sample).__name__}; give a text")
    try:
        return usable(sample)
    except NoText as problem:
        raise UserError(f"sample {number}: {problem}") from None
