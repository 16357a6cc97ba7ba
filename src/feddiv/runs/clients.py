"""Which clients a run has: those that the data name, or others that samples are dealt to."""

from feddiv.config.experiment import Experiment
from feddiv.data import Dataset, Draw
from feddiv.data.images.listing import some


def with_clients(experiment: Experiment, dataset: Dataset) -> tuple[Experiment, list[str]]:
    """The experiment with the partition that these data get, and lines for their owner."""
    elsewhere = experiment.data.source == "sites"
    settled = as_settled(experiment, named=elsewhere or dataset.holder is not None)
    if dataset.holder is None or experiment.partition.name == "natural":
        return settled, []
    theirs = f"{len(dataset.clients):,} that the data name ({some(dataset.clients)})"
    rule = settled.partition.name
    if rule == "natural":
        return settled, [f"clients are the {theirs}; partition.name=iid would deal samples anew"]
    return settled, [
        f"partition.name={rule}: clients are NOT the {theirs}, their samples are mixed; "
        "partition.name=natural keeps them"
    ]


def as_settled(experiment: Experiment, *, named: bool) -> Experiment:
    """The experiment on data that name their clients (`named`), or do not."""
    partition, count = experiment.partition.settled(experiment.clients.count, named=named)
    if partition is experiment.partition:
        return experiment
    clients = experiment.clients.model_copy(update={"count": count})
    return experiment.model_copy(update={"partition": partition, "clients": clients})


def few_at_once(experiment: Experiment, draw: Draw) -> list[str]:
    """A line where, of clients that the data have, one alone makes each round's model."""
    clients, fraction = len(draw.parts), experiment.clients.fraction
    if not experiment.partition.natural or clients < 2 or experiment.budget.visits(clients) > 1:
        return []
    return [
        f"clients.fraction={fraction:g} of {clients} clients is one in a round: the model is that "
        "client's alone, nothing is averaged; clients.fraction=1 takes all"
    ]
