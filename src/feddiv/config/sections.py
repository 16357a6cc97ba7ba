"""Sections of an experiment that belong to the run as a whole."""

from collections.abc import Mapping
from typing import ClassVar, Final, Literal

from pydantic import Field

from feddiv.core.options import Options

Track = Literal["none", "tensorboard", "mlflow"]
MOST_CLIENTS: Final = 1_000_000
LONGEST: Final = 1e7  # seconds: 115 days


class ClientsOptions(Options):
    """How many clients there are, and which share of them takes part in a round.

    `count` None means as many as the data has, where the partition takes clients from the data.
    """

    count: int | None = Field(None, ge=1, le=MOST_CLIENTS)
    fraction: float = Field(0.5, gt=0, le=1)  # of the clients, drawn anew in every round


class CheckpointOptions(Options):
    """How often a checkpoint is written: after an exchange, if so many seconds have passed."""

    seconds: float = Field(10.0, ge=0, le=LONGEST)  # 0: after every exchange


class EvaluationOptions(Options):
    """On what the model is measured, and every how many turns; after the last it always is."""

    measure: ClassVar[str]  # by which the best model is chosen
    name: str
    every: int = Field(1, ge=1, le=1_000_000)  # turns


class Central(EvaluationOptions):
    """On the test samples of the source, at the server."""

    measure = "test_accuracy"
    name: Literal["central"] = "central"


class HeldOut(EvaluationOptions):
    """At every client, on a share of its samples that is kept out of training."""

    measure = "held_out_accuracy"
    name: Literal["held_out"] = "held_out"
    share: float = Field(0.2, gt=0, lt=1)  # of a client's samples, in proportion by class


EVALUATIONS: Mapping[str, type[EvaluationOptions]] = {"central": Central, "held_out": HeldOut}


class WarmupOptions(Options):
    """Warm-up length, for methods that have one; an iteration visits every client once."""

    iterations: int = Field(0, ge=0, le=1_000_000)  # each costs 1 / clients.fraction rounds


class RobustOptions(Options):
    """What the server does against clients that lie; docs/robust.md says what each rule is for.

    Where a rule weighs clients by n_k, no n_k counts for more than three times the median one.
    """

    # How models become one: the method's own mean, the same of updates whose norm is clipped, the
    # same without those that point against the others, or an aggregate that replaces the mean.
    weights: Literal[
        "mean", "clip", "aligned", "median", "trimmed_mean", "krum", "geometric_median"
    ] = "mean"
    clip: float = Field(2.0, gt=0, le=1000)  # largest norm of an update, in medians of the norms
    # What becomes of an update that points against the others', by `aligned`: it does not count; or
    # it counts turned round, where it is against them as clearly as they agree.
    opposed: Literal["left_out", "turned_back"] = "left_out"
    # By `aligned`: others are asked in the place of clients whose model would not count.
    substitutes: bool = False
    # By `aligned`, in a hand-over: in every so manieth turn all clients train from one model first,
    # only to see where their updates point; 0: never.
    introductions: int = Field(5, ge=0, le=1_000_000)
    trim: float = Field(0.3, ge=0, lt=0.5)  # the share of clients that may lie: left out, or cut
    # How the clients' statistics become one filter: as the method does it, or by a robust centre.
    filter: Literal["sum", "median", "trimmed_mean"] = "sum"

    def introduces_every(self, clients: int) -> int:
        """In every so manieth turn of a hand-over that many clients are compared first; 0: never.

        Of two nobody can say who is against whom.
        """
        return self.introductions if self.weights == "aligned" and clients >= 3 else 0

    @property
    def holds_models(self) -> bool:
        """Whether all models of an exchange have to be there before any is handed on."""
        return self.weights != "mean"

    @property
    def replaces_models(self) -> bool:
        """Whether the method gets an aggregate instead of what each client sent."""
        return self.weights not in ("mean", "clip")


class FederationOptions(Options):
    """Who carries the messages between the server and the clients."""

    name: str
    # No client counts for more samples than this, whatever n_k it says; None: no bound.
    largest_site: int | None = Field(None, ge=1, le=1_000_000_000)


class Local(FederationOptions):
    """Processes of this machine."""

    name: Literal["local"] = "local"


class Flower(FederationOptions):
    """Sites on Flower's network.

    A run begins when `sites` of them are connected, None meaning all clients of the draw; it waits
    `wait` seconds for that. If the others of them are there and were refused, `least` are enough;
    None: nobody may be missing. A round waits `round_timeout` seconds for answers and counts if a
    share of at least `quorum` of the clients that were asked have answered; else it is repeated,
    after another wait, at most `attempts` times in all.
    """

    name: Literal["flower"] = "flower"
    sites: int | None = Field(None, ge=1, le=MOST_CLIENTS)
    least: int | None = Field(None, ge=1, le=MOST_CLIENTS)
    quorum: float = Field(0.5, gt=0, le=1)
    round_timeout: float = Field(600.0, gt=0, le=LONGEST)
    wait: float = Field(300.0, gt=0, le=LONGEST)
    attempts: int = Field(3, ge=1, le=1000)


class FlowerSimulation(FederationOptions):
    """Flower's simulation on Ray: every client of the draw is a node.

    A client at work takes `cpus` cores and `gpus` GPUs. `round_timeout`, `quorum` and `attempts`
    are those of `flower`; here everybody has to answer, unless they say otherwise.
    """

    name: Literal["flower_simulation"] = "flower_simulation"
    cpus: float = Field(1.0, gt=0, le=10_000)
    gpus: float = Field(0.0, ge=0, le=10_000)
    quorum: float = Field(1.0, gt=0, le=1)
    round_timeout: float = Field(3600.0, gt=0, le=LONGEST)
    attempts: int = Field(1, ge=1, le=1000)


FEDERATIONS: Mapping[str, type[FederationOptions]] = {
    "local": Local,
    "flower": Flower,
    "flower_simulation": FlowerSimulation,
}
