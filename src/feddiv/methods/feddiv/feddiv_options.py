"""FedDiv's options and its named variants: the table of the method's description, as data."""

from collections.abc import Mapping
from typing import Any, ClassVar, Literal

from pydantic import Field

from feddiv.core.options import Options
from feddiv.methods.contract import MethodOptions, Variant
from feddiv.methods.feddiv.division import RelabelOptions
from feddiv.methods.feddiv.filter import FilterOptions
from feddiv.methods.feddiv.sampler import SamplerOptions
from feddiv.methods.hand_over import HandOverOptions


class WarmupMode(HandOverOptions):
    """How the model is warmed up on all given labels."""

    # One client after the other, each from the weights of the one before; or averaged rounds.
    mode: Literal["hand_over", "average"] = "hand_over"
    # By averages: how much of its last step the server makes again on top of each mean.
    momentum: float = Field(0.0, ge=0, lt=1)


class VisitOptions(Options):
    """Details of local training in which the released code differs from the paper."""

    min_batches: int = Field(
        0, ge=0, le=1_000_000
    )  # no training unless more samples than this many batches
    raw_forward: bool = False  # a forward of the unmixed batch too, for batch norm


class FedDivOptions(MethodOptions):
    """FedDiv's own options; the defaults are the variant `plus`."""

    # Trusted labels are told of each client. What one sample changes in a tally or a likelihood is
    # not bounded: p(clean) of every label depends on all labels of the client.
    private: ClassVar[Mapping[str, tuple[tuple[str, Any, Any], ...]]] = {
        "sum_only": (("weigh_by_trust", "iid", "never"),),
        "dp": (
            ("weigh_by_trust", "iid", "never"),
            ("filter.second_opinion", "calibrated", True),
            ("filter.starved_below", 0.1, 0.0),
            ("filter.drop_below", "sure", 0.5),
            ("filter.count_equal", False, True),
        ),
    }
    name: str = "feddiv"
    variant: str = "plus"
    filter: FilterOptions = FilterOptions()
    relabel: RelabelOptions = RelabelOptions()
    sampler: SamplerOptions = SamplerOptions()
    # When the prior regulariser counts: KL(uniform || mean prediction of the batch).
    regulariser: Literal["always", "non_iid", "never"] = "always"
    # Whether a client's model counts by its trusted labels instead of by all its samples. Not by
    # default where classes are spread unevenly: it loses there (docs/feddiv.md).
    weigh_by_trust: Literal["always", "iid", "never"] = "iid"
    warmup: WarmupMode = WarmupMode()
    train: VisitOptions = VisitOptions()
    # No training: labels are judged with the model that the run begins with, see model.weights.
    only_filter: bool = False


PAPER: Mapping[str, Any] = {
    "filter.score": "cross_entropy",
    "filter.scale": "minmax",
    "filter.debias": "none",
    "filter.aggregate": "mean",
    "filter.fit": "local",
    "filter.prior": "shared",
    "filter.no_noise_rule": False,
    "filter.monotone": False,
    "filter.drop_below": 0.5,
    "filter.second_opinion": False,
    "weigh_by_trust": "never",
    "filter.starved_below": 0.0,
    "relabel.confidence": 0.75,
    "sampler.enabled": True,
    "regulariser": "non_iid",
    "warmup.regulariser": False,
    "warmup.result": "last",
}

RELEASE: Mapping[str, Any] = {
    **PAPER,
    "filter.score": "bounded",
    "filter.variance_weights": "squared",
    "filter.em_steps": 3,
    "relabel.persist": True,
    "relabel.min_noise": 0.2,
    "sampler.timing": "visit",
    "sampler.after_visits": 5,
    "sampler.xi": 0.2,
    "sampler.momentum": 0.5,
    "sampler.confident_only": 0.85,
    "warmup.regulariser": True,
    "train.min_batches": 1,
    "train.raw_forward": True,
}

# Who audits without training brings a model that is as good as it gets.
AUDIT_DEVIATION = 0.14

VARIANTS: Mapping[str, Variant] = {
    "plus": Variant("our own: one fit to the pooled log-odds, and warm-up that ends with a mean"),
    "paper": Variant("to the letter of the paper", PAPER),
    "release": Variant("as the code that the authors released", RELEASE),
    "degraded": Variant(
        "paper, its filter made of this round's clients only", {**PAPER, "filter.members": "round"}
    ),
    "local-filter": Variant(
        "paper, every client with a filter of its own", {**PAPER, "filter.scope": "local"}
    ),
    "no-pcs": Variant("paper without the consistency sampler", {**PAPER, "sampler.enabled": False}),
    "no-relabel-no-pcs": Variant(
        "paper without relabelling and without the sampler",
        {**PAPER, "relabel.enabled": False, "sampler.enabled": False},
    ),
    "no-reg": Variant("paper without the prior regulariser", {**PAPER, "regulariser": "never"}),
    "audit": Variant(
        "no training: a filter for the model that the run begins with, to audit labels",
        {"only_filter": True, "filter.least_deviation": AUDIT_DEVIATION},
    ),
    "perfect-filter": Variant(
        "plus with the true labels for a filter, a yardstick",
        {"filter.scope": "perfect", "filter.drop_below": 0.5},
    ),
}
