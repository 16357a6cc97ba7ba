"""Different kinds of noise for different clients."""

from collections.abc import Mapping
from typing import Annotated, Literal

import numpy as np
import numpy.typing as npt
from pydantic import BeforeValidator, Field, SerializeAsAny, field_validator

from feddiv.core.arrays import Parts
from feddiv.core.errors import UserError
from feddiv.core.options import Listed
from feddiv.data.dataset import Dataset
from feddiv.data.noise.kinds import kind_class
from feddiv.data.noise.noise_options import Corruption, Foreign, NoiseOptions, labels_of
from feddiv.data.noise.open_set import OpenSet
from feddiv.data.watcher import DataWatcher


def _kind(value: object) -> object:
    """A kind by its name, or with options of its own."""
    if isinstance(value, NoiseOptions):
        return value
    tree = {"name": value} if isinstance(value, str) else value
    name = tree.get("name") if isinstance(tree, Mapping) else value
    return kind_class(name).model_validate(tree)


class Mixed(NoiseOptions):
    """Different kinds for different clients, each with options and levels of its own.

    `kinds` lists them, as names or as tables (`{name="pair", levels="constant", level=0.4}`).
    `deal` says who gets which: in `turns` (client k the kind k modulo their number), in `blocks` of
    neighbouring clients, or by chance (`random`), always as evenly as possible.
    """

    name: Literal["mixed"] = "mixed"
    kinds: Annotated[
        tuple[Annotated[SerializeAsAny[NoiseOptions], BeforeValidator(_kind)], ...],
        Field(strict=False),
        Listed,
    ] = ()
    deal: Literal["turns", "blocks", "random"] = "turns"

    @field_validator("kinds")
    @classmethod
    def _one_open_set(cls, kinds: tuple[NoiseOptions, ...]) -> tuple[NoiseOptions, ...]:
        if sum(isinstance(kind, OpenSet) for kind in kinds) > 1:
            raise ValueError("open_set can be in the list once only")
        return kinds

    @property
    def injects(self) -> bool:
        """If any of its kinds does."""
        return any(kind.injects for kind in self.kinds)

    def corrupt(
        self,
        dataset: Dataset,
        parts: Parts,
        rng: np.random.Generator,
        watcher: DataWatcher | None = None,
    ) -> Corruption:
        """Each kind corrupts the labels of its own clients, as if there were no others."""
        if not self.kinds:
            raise UserError("noise.name=mixed: noise.kinds has to list the kinds of noise")
        dealt = self.dealt(len(parts), rng)
        given, levels = labels_of(dataset), np.zeros(len(parts))
        kinds, foreign = [""] * len(parts), None
        for number, kind in enumerate(self.kinds):
            clients = np.flatnonzero(dealt == number).tolist()
            own = kind.corrupt(dataset, [parts[client] for client in clients], rng, watcher)
            levels[clients] = own.levels
            for client, name in zip(clients, own.kinds, strict=True):
                kinds[client] = name
                given[parts[client]] = own.given[parts[client]]
            foreign = own.foreign or foreign
        return Corruption(given, levels, tuple(kinds), foreign)

    def dealt(self, clients: int, rng: np.random.Generator) -> npt.NDArray[np.int64]:
        """The number of each client's kind [K]."""
        turns = np.arange(clients) % len(self.kinds)
        if self.deal == "blocks":
            return np.sort(turns)
        return rng.permutation(turns) if self.deal == "random" else turns

    def shown(
        self, dataset: Dataset, foreign: Foreign | None, watcher: DataWatcher | None = None
    ) -> Dataset:
        """With the images of its open set, where it has one."""
        for kind in self.kinds:
            if isinstance(kind, OpenSet):
                return kind.shown(dataset, foreign, watcher)
        return super().shown(dataset, foreign, watcher)
