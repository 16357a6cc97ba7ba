"""What a site holds: its own data, or for trials its place in the run's draw."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import Any, Protocol

from torch import Tensor

from feddiv.config.experiment import Experiment, to_toml, validated
from feddiv.core.errors import UserError
from feddiv.core.randomness import Streams
from feddiv.data import Dataset, Draw
from feddiv.data.draw.corrected import with_corrections
from feddiv.data.draw.held_out import FEWEST, with_held_out
from feddiv.data.sources.own_files import load_own
from feddiv.data.sources.python import as_they_are
from feddiv.data.sources.sites import described, sites_encoder
from feddiv.presets import toml_tree
from feddiv.runs.prepare import drawn


@dataclass(frozen=True)
class Held:
    """A site's samples and labels."""

    dataset: Dataset
    draw: Draw
    client: int
    trial: bool = False  # whether the truth is the experiment's own and may be counted
    shown: Dataset | None = None  # what people look at, where samples are predictions of these


class SiteData(Protocol):
    """How a site comes by its data."""

    @property
    def place(self) -> int | None:
        """The client's number in the run's draw, for trials."""

    def load(self, experiment: Experiment, client: int) -> Held:
        """The data as client number `client` of this run has them."""


@lru_cache(maxsize=1)  # simulated clients of one process share it
def _drawn(config: str) -> tuple[Dataset, Draw]:
    return drawn(validated(toml_tree(config, "the run's config")))


@dataclass(frozen=True)
class Part:
    """A client of the run's own draw: for trials and simulations."""

    place: int

    def load(self, experiment: Experiment, client: int) -> Held:
        """The data set of the run and the draw that everybody makes alike."""
        dataset, draw = _drawn(to_toml(experiment))
        if not self.place < len(draw.parts):
            raise UserError(
                f"partition-id={self.place}: the run has {len(draw.parts)} clients, 0 to "
                f"{len(draw.parts) - 1}"
            )
        return Held(dataset, draw, self.place, trial=True)


@dataclass(frozen=True)
class OwnData:
    """A site's own data: a folder of class folders, a table or an .npz file."""

    path: Path
    corrections: Path | None = None  # what experts decided about them
    place: None = None

    def load(self, experiment: Experiment, client: int) -> Held:
        """Labels by the names of the run's classes, inputs in its size and normalisation."""
        if experiment.data.source != "sites":
            raise UserError(
                f"data-path={self.path}: the run has data.source={experiment.data.source}, it is "
                "for sites that take part by partition-id"
            )
        made = sites_encoder(experiment.data)
        wanted = described(experiment.data, made)
        if wanted.own is not None:
            raise UserError(
                f"data-path={self.path}: the run has data.shape, it is for sites whose own app "
                "gives their data (feddiv.flower.client_app(data=...))"
            )
        data, where = experiment.data, f"data-path={self.path}"
        images = {"size": data.size, "channels": data.channels} if data.features is None else {}
        own = load_own(
            self.path,
            wanted.classes,
            where,
            images,
            data.encoding,
            Streams(experiment.seed),
            made=made,
        )
        return held(own, wanted, experiment, client, where, self.corrections)


@dataclass(frozen=True)
class NoData:
    """A site that has nothing but a file of predicted probabilities and labels."""

    place: None = None

    def load(self, experiment: Experiment, client: int) -> Held:
        """There is nothing to train on."""
        raise UserError(
            "this site has predicted probabilities and no data: it takes part in audits only "
            "(model.name=predictions)"
        )


@dataclass(frozen=True)
class AppData:
    """The data of somebody's own Flower app: a data set of numbered items, or a loader over one.

    `place` is what the node's config calls its partition: in a simulation nothing else tells a node
    again, so the server makes it the client's number.
    """

    data: Callable[[], Any]
    each: Callable[[Tensor], Tensor] | None
    place: int | None
    corrections: Path | None = None

    def load(self, experiment: Experiment, client: int) -> Held:
        """All items as they are, by the names or numbers of the run's classes."""
        if experiment.data.source != "sites" or experiment.data.shape is None:
            raise UserError(
                "data: the run is not for sites that bring what a net eats; it is started by "
                "feddiv.flower.Strategy, or has data.source=sites and data.shape"
            )
        wanted = described(experiment.data)
        own = as_they_are(self.data(), wanted.classes, self.each, "data")
        return held(own, wanted, experiment, client, "data", self.corrections)


def held(
    own: Dataset,
    wanted: Dataset,
    experiment: Experiment,
    client: int,
    where: str,
    corrections: Path | None = None,
) -> Held:
    """A site's samples as the run wants them: shape, normalisation, what is kept out."""
    if own.input_shape != wanted.input_shape:
        raise UserError(
            f"{where}: samples have the shape {own.input_shape}, those of the run "
            f"{wanted.input_shape}"
        )
    dataset = replace(
        own, name=wanted.name, mean=wanted.mean, std=wanted.std, augment=wanted.augment
    )
    draw = Draw.of_one(dataset, max(client, 0))
    share = getattr(experiment.evaluation, "share", None)
    if share is not None and len(dataset.train) >= FEWEST:
        draw = with_held_out(draw, share, Streams(experiment.seed))
    if corrections is not None:
        draw = with_corrections(draw, dataset, [corrections], setting="corrections")
    return Held(dataset, draw, max(client, 0))
