"""From an experiment to something that can run, before anything is written."""

from collections.abc import Callable
from dataclasses import dataclass, replace

from torch import nn

from feddiv.config.experiment import Experiment
from feddiv.config.sections import HeldOut
from feddiv.core.errors import UserError
from feddiv.core.randomness import Streams
from feddiv.data import Dataset, DataWatcher, Draw, Loaded, load_dataset, make_draw
from feddiv.data.draw.corrected import with_corrections
from feddiv.data.draw.held_out import check_share, with_held_out
from feddiv.data.draw.recipe import check_recipe
from feddiv.data.sources.sites import named_classes, predictions
from feddiv.federation.workspace import Workspace
from feddiv.runs.clients import few_at_once, with_clients


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

    @property
    def doubtful_test(self) -> bool:
        """Whether the labels of the test samples are no better than those trained on."""
        return _doubtful_test(self.dataset, self.draw)


def prepare(
    experiment: Experiment,
    draw: Draw | None = None,
    watcher: DataWatcher | None = None,
    brought: Loaded | None = None,
    net: Callable[[], nn.Module] | None = None,
) -> Prepared:
    """Load the data, make the draw, build the net, and check that they fit; nothing is written.

    `draw` is that of a run to go on with, `brought` data that no source loads, `net` makes a net
    that the caller brings; `watcher` is told how the data is made ready.
    """
    begun = draw is not None
    if not begun:
        experiment = experiment.model_copy(update={"model": experiment.model.pinned()})
    return fitted(*_settled(experiment, draw, watcher, brought), begun=begun, net=net)


def drawn(
    experiment: Experiment,
    draw: Draw | None = None,
    watcher: DataWatcher | None = None,
    brought: Loaded | None = None,
) -> tuple[Dataset, Draw]:
    """The data as clients see it, and who holds what under which labels."""
    _, dataset, draw = _settled(experiment, draw, watcher, brought)
    return dataset, draw


def _settled(
    experiment: Experiment,
    draw: Draw | None,
    watcher: DataWatcher | None,
    brought: Loaded | None,
) -> tuple[Experiment, Dataset, Draw]:
    """Settings that depend on the data are filled in, the draw is made or checked."""
    streams, watcher = Streams(experiment.seed), watcher or DataWatcher()
    dataset = _loaded(experiment, streams, watcher, brought)
    begun = draw is not None
    if dataset.encoder is not None and dataset.encoder != experiment.data.encoding:
        data = experiment.data.encoded_by(dataset.encoder)
        experiment = experiment.model_copy(update={"data": data})
    experiment, remarks = with_clients(experiment, dataset)
    if draw is None:
        draw = _new_draw(experiment, dataset, streams, watcher)
        remarks += few_at_once(experiment, draw)
        if _doubtful_test(dataset, draw):
            remarks.append(
                f"test samples are some of the data ({len(dataset.test):,}), whose labels may be "
                "as wrong as the others: look at the accuracy on believed ones"
            )
    for line in () if begun else remarks:
        watcher.note(line)
    draw.check(dataset)
    draw = _kept_out(draw.bound_to(dataset), experiment, streams)
    if experiment.data.corrections is not None and not begun:  # else the draw has them
        draw = with_corrections(draw, dataset, experiment.data.corrections, watcher)
    dataset = experiment.noise.shown(dataset, draw.foreign, watcher)
    if draw.foreign is not None:  # its images are in the data set now
        draw = replace(draw, foreign=replace(draw.foreign, images=None))
    if experiment.data.standardise == "clients":
        dataset = dataset.unscaled()  # until they have told their sums; noise saw it standardised
    return experiment, dataset, draw


def _loaded(
    experiment: Experiment, streams: Streams, watcher: DataWatcher, brought: Loaded | None
) -> Dataset:
    """The source's data; of sites that bring predictions only the classes are known."""
    data = experiment.data
    if experiment.brings_predictions:
        return predictions(named_classes(data))
    with_test = not isinstance(experiment.evaluation, HeldOut)
    return load_dataset(data, streams, watcher, with_test=with_test, brought=brought)


def _doubtful_test(dataset: Dataset, draw: Draw) -> bool:
    """Whether test samples were cut from data whose labels nobody vouches for."""
    return dataset.split_here and len(dataset.test) > 0 and draw.truth is None


def _new_draw(
    experiment: Experiment, dataset: Dataset, streams: Streams, watcher: DataWatcher
) -> Draw:
    """A draw made now, or the saved one that data.draw names."""
    partition, noise, clients = experiment.partition, experiment.noise, experiment.clients.count
    if experiment.data.source == "sites":
        return _drawn_elsewhere(experiment, dataset)
    if experiment.data.draw is None:
        return make_draw(dataset, partition, noise, clients, streams, watcher)
    draw = Draw.load(experiment.data.draw)
    if draw.recipe:
        check_recipe(draw.recipe, partition, noise, f"data.draw={experiment.data.draw}")
    if clients is not None and len(draw.parts) != clients:
        raise UserError(
            f"data.draw={experiment.data.draw} has {len(draw.parts)} clients: "
            f"set clients.count to that, it is {clients}"
        )
    return draw


def _drawn_elsewhere(experiment: Experiment, dataset: Dataset) -> Draw:
    """An empty draw: the server of real sites has no samples, and none can be dealt or changed."""
    for key, value, wanted in (
        ("partition.name", experiment.partition.name, "natural"),
        ("noise.name", experiment.noise.name, "none"),
        ("data.draw", experiment.data.draw, None),
        ("clients.count", experiment.clients.count, None),
        ("against", ", ".join(experiment.against) or None, None),
    ):
        if value != wanted:
            only = f"{key}={wanted}" if wanted else f"no {key}"
            raise UserError(f"{key}={value}: data.source=sites has its clients elsewhere; {only}")
    if experiment.data.corrections is not None:
        raise UserError(
            "data.corrections: data.source=sites has its labels elsewhere; each site names its own "
            'file by corrections="FILE" in its node config'
        )
    return Draw.of_one(dataset, None)


def _kept_out(draw: Draw, experiment: Experiment, streams: Streams) -> Draw:
    """The draw with what its clients keep out of training, if they shall and do not yet."""
    evaluation = experiment.evaluation
    if not isinstance(evaluation, HeldOut):
        if draw.held_out is not None:
            raise UserError(
                f"data.draw={experiment.data.draw}: its clients keep samples out of training; "
                "it is for evaluation.name=held_out"
            )
        return draw
    if experiment.data.source == "sites":
        return draw  # each site keeps its own samples out
    if draw.held_out is None:
        return with_held_out(draw, evaluation.share, streams)
    check_share(draw, evaluation.share)
    return draw


def fitted(
    experiment: Experiment,
    dataset: Dataset,
    draw: Draw,
    *,
    begun: bool = False,
    net: Callable[[], nn.Module] | None = None,
) -> Prepared:
    """The experiment on data and a draw that are at hand, once a net is found to fit them.

    For a run that was begun the file of its initial weights may be gone and is not needed: only
    the net is checked.
    """
    workspace = Workspace.of(experiment, dataset, draw, net)
    if workspace.method.needs_truth and draw.truth is None:
        raise UserError(
            f"method.filter.scope=perfect needs true labels, and {dataset.name} has none"
        )
    if begun:
        workspace.check_net()
    else:
        workspace.make_model("net", Streams(experiment.seed))
    return Prepared(experiment, dataset, draw, workspace)
