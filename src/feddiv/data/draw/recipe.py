"""By which options a draw was made, so that no run claims others for it."""

import json
from typing import Any

from feddiv.core.dotted import flat
from feddiv.core.errors import UserError
from feddiv.data.noise import NoiseOptions
from feddiv.data.partition import PartitionOptions


def recipe(partition: PartitionOptions, noise: NoiseOptions) -> str:
    """The options of partition and noise as JSON; where files lie is left out."""
    sections = {"partition": partition, "noise": noise}
    tree = {name: options.model_dump(mode="json") for name, options in sections.items()}
    return json.dumps(_without_paths(tree), sort_keys=True)


def check_recipe(made: str, partition: PartitionOptions, noise: NoiseOptions, what: str) -> None:
    """Refuse options that contradict those which the draw `what` was made by."""
    here = flat(json.loads(recipe(partition, noise)))
    then = flat(json.loads(made))
    for key in sorted(then, key=lambda key: not key.endswith(".name")):  # other keys go with it
        value = then[key]
        if here.get(key) != value:
            now = f"it is {_shown(here[key])} here" if key in here else "it is not there here"
            raise UserError(
                f"{what}: made with {key}={_shown(value)}, {now}; "
                "set it to that, or leave data.draw out to draw anew"
            )


def _without_paths(tree: Any) -> Any:
    if isinstance(tree, dict):
        return {key: _without_paths(value) for key, value in tree.items() if key != "path"}
    return [_without_paths(item) for item in tree] if isinstance(tree, list) else tree


def _shown(value: Any) -> str:
    return "unset" if value is None else value if isinstance(value, str) else json.dumps(value)
