"""Which columns of a table a trained model looks at."""

from typing import Final

from feddiv.data.data_options import USUAL_COLUMNS
from feddiv.data.images.listing import some
from feddiv.data.sources.table_cells import Table
from feddiv.runs.model_card import ModelCard

NO_FEATURES: Final = ("label", "true_label", "client", "split")  # by their usual names


def image_column(table: Table, card: ModelCard) -> str:
    """The column of paths: that of the training table, else the usual one."""
    names = (*card.columns, *USUAL_COLUMNS["image"])
    found = next((name for name in names if name in table.names), None)
    if found is None:
        allowed = ", ".join(dict.fromkeys(names))
        raise table.malformed(
            f"has no column of paths of images ({allowed}), only {some(table.names, 8)}; this "
            "model takes images"
        )
    return found


def feature_columns(table: Table, card: ModelCard) -> list[str]:
    """The columns of the training table, in its order.

    Where the model does not know them, all that hold numbers, if there are as many as it takes.
    """
    if card.columns:
        missing = [name for name in card.columns if name not in table.names]
        if missing:
            raise table.malformed(
                f"has no column {missing[0]!r}, which the model was trained on; there are "
                f"{some(table.names, 20)}"
            )
        return list(card.columns)
    others = {name for role in NO_FEATURES for name in USUAL_COLUMNS[role]}
    left = [name for name in table.names if name not in others]
    lists = [name for name in left if table.lists(name)]
    numbers = [name for name in left if table.numeric(name)]
    wanted = card.input_shape[0]
    if len(lists) == 1 and len(numbers) != wanted:
        return lists
    if len(numbers) != wanted:
        raise table.malformed(
            f"{len(numbers)} columns hold numbers ({some(numbers, 8)}), and the model takes "
            f"{wanted}; it does not know their names: leave only these columns, in their order"
        )
    return numbers
