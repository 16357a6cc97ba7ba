"""What a site does for a server at most: its own word, whatever the run's config asks for."""

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any, Final

import torch
from flwr.app import RecordDict

from feddiv.config.experiment import Experiment
from feddiv.core.errors import UserError
from feddiv.core.import_path import is_import_path
from feddiv.nets import ModelOptions
from feddiv.nets.build import find_build

MOST: Final = 2**53  # a node config has no larger whole numbers that every system reads alike


@dataclass(frozen=True)
class SiteLimits:
    """Each is a key of the node config, with dashes for underscores."""

    most_epochs: int = 100  # train.epochs: local epochs of one visit
    most_size: int = 512  # data.size, data.encoder_size: the side in pixels of the site's images
    most_parameters: int = 100_000_000  # of the net that the run names
    most_bytes: int = 1 << 30  # of one message, all its models together
    least_samples: int = 0  # with fewer of its own the site stays out: 0 is never

    @classmethod
    def of(cls, node: Mapping[str, Any]) -> "SiteLimits":
        """Those that a node config says, and the usual ones for the rest."""
        given = {name: node[_key(name)] for name in NAMES if _key(name) in node}
        for name, value in given.items():
            whole = isinstance(value, int) and not isinstance(value, bool)
            if not whole or not 0 <= value <= MOST:
                raise UserError(f"node config {_key(name)}={value!r}: a whole number is needed")
        return cls(**given)

    def check_message(self, records: RecordDict) -> None:
        """Refuse a message by its size, before it is read."""
        size = sum(_bytes(value) for record in records.values() for value in record.values())
        if size > self.most_bytes:
            raise UserError(
                f"a message of {size:,} bytes: this site takes at most most-bytes="
                f"{self.most_bytes}; its node config can allow more"
            )

    def check_experiment(self, experiment: Experiment) -> None:
        """Refuse a run that asks for more work than the site gives, before its data are read."""
        for key, asked, name in (
            ("train.epochs", experiment.train.epochs, "most_epochs"),
            ("data.size", experiment.data.size or 0, "most_size"),
            ("data.encoder_size", experiment.data.encoder_size or 0, "most_size"),
        ):
            allowed = getattr(self, name)
            if asked > allowed:
                raise UserError(
                    f"{key}={asked}: this site allows at most {_key(name)}={allowed}; its node "
                    "config can allow more"
                )

    def check_net(self, model: ModelOptions, shape: tuple[int, ...], classes: int) -> None:
        """Refuse a net that is too large, before it takes any memory.

        A net from a module is left to the site that allowed it: it may not be built without memory.
        """
        if is_import_path(model.name):
            return
        with torch.device("meta"):
            net = find_build(model)(shape, classes)
        parameters = sum(each.numel() for each in net.parameters())
        if parameters > self.most_parameters:
            raise UserError(
                f"model.name={model.name} has {parameters:,} parameters here: this site allows at "
                f"most most-parameters={self.most_parameters}; its node config can allow more"
            )

    def check_samples(self, samples: int) -> None:
        """Stay out where numbers of the site would tell about single samples.

        How many there are is not said.
        """
        if samples < self.least_samples:
            raise UserError(
                f"holds fewer samples than least-samples={self.least_samples} and stays out"
            )


def _bytes(value: object) -> int:
    """Of an entry of a record: an array, a list of numbers, a text or a number."""
    content = getattr(value, "data", value)
    if isinstance(content, list):
        return 8 * len(content)
    return len(content) if isinstance(content, str | bytes) else 8


def _key(name: str) -> str:
    return name.replace("_", "-")


NAMES: Final = tuple(field.name for field in fields(SiteLimits))
KEYS: Final = tuple(_key(name) for name in NAMES)
