"""From an experiment to something that can run, before anything is written."""

from dataclasses import dataclass

from feddiv.config import Experiment
from feddiv.data import Dataset, Draw, load_dataset, make_draw
from feddiv.errors import UserError
from feddiv.federation.workspace import Workspace
from feddiv.nets.compute import find_device
from feddiv.randomness import Streams


@dataclass(frozen=True)
class Prepared:
    """An experiment whose data, draw and net have been made and found to fit."""

    experiment: Experiment
    dataset: Dataset
    draw: Draw
    workspace: Workspace

    @property
    def turns(self) -> int:
        """How many turns the loop will take."""
        return sum(stage.turns for stage in self.workspace.method.stages())


def prepare(experiment: Experiment, draw: Draw | None = None) -> Prepared:
    """Everything that can go wrong before a run, before anything is written.

    `draw` is that of a run to go on with.
    """
    return fitted(experiment, *drawn(experiment, draw))


def drawn(experiment: Experiment, draw: Draw | None = None) -> tuple[Dataset, Draw]:
    """The data as clients see it, and who holds what under which labels."""
    streams, clients = Streams(experiment.seed), experiment.clients.count
    dataset = load_dataset(experiment.data, streams)
    if draw is not None:
        pass
    elif experiment.data.draw is None:
        draw = make_draw(dataset, experiment.partition, experiment.noise, clients, streams)
    else:
        draw = Draw.load(experiment.data.draw)
        if clients is not None and len(draw.parts) != clients:
            raise UserError(
                f"data.draw={experiment.data.draw} has {len(draw.parts)} clients: "
                f"set clients.count to that, it is {clients}"
            )
    draw.check(dataset)
    return experiment.noise.shown(dataset, draw.foreign), draw


def fitted(experiment: Experiment, dataset: Dataset, draw: Draw) -> Prepared:
    """The experiment on data and a draw that are at hand, once a net is found to fit them."""
    method = experiment.build_method()
    if method.needs_truth and draw.truth is None:
        raise UserError(
            f"method.filter.scope=perfect needs true labels, and {dataset.name} has none"
        )
    workspace = Workspace(
        method,
        dataset,
        draw,
        experiment.model,
        device=find_device(experiment.device),
        precision=experiment.precision,
        compiled=experiment.compile,
    )
    workspace.make_model("net", Streams(experiment.seed))
    return Prepared(experiment, dataset, draw, workspace)
