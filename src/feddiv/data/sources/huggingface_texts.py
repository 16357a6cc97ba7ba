"""Texts of a Hugging Face data set."""

from collections.abc import Sequence
from typing import Any

from feddiv.core.errors import UserError
from feddiv.data.data_options import USUAL_COLUMNS, DataOptions
from feddiv.data.texts.texts import NoText, Texts, usable


def text_column(where: str, split: Any, options: DataOptions) -> str | None:
    """The column of texts: the one that is named, else the usual one where there is no image."""
    import datasets

    wanted, kinds = options.columns.text, split.features
    if wanted is None:
        pictures = any(isinstance(kind, datasets.Image) for kind in kinds.values())
        taken = {name for _, name in options.columns}
        usual = (name for name in USUAL_COLUMNS["text"] if name in kinds and name not in taken)
        return None if pictures else next(usual, None)
    if options.columns.image is not None:
        raise UserError("data.columns: give image or text, not both")
    if wanted not in kinds:
        raise UserError(
            f"data.columns.text={wanted}: not a column of {where}, which has {', '.join(kinds)}"
        )
    return wanted


def hub_texts(where: str, split: str, column: str, values: Sequence[Any]) -> Texts:
    """The values of a column, all of which have to be texts; rows count from 0."""

    def text(row: int, value: Any) -> str:
        if not isinstance(value, str):
            raise UserError(
                f"{where}: {split} row {row}: {column} is {type(value).__name__}, text is needed"
            )
        try:
            return usable(value)
        except NoText as problem:
            raise UserError(f"{where}: {split} row {row}: {column}: {problem}") from None

    return Texts.of(text(row, value) for row, value in enumerate(values))
