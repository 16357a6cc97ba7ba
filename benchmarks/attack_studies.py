"""The studies of the attack benchmark: settings, methods, defences, and what is put together."""

from collections.abc import Sequence
from dataclasses import dataclass

from lies import ATTACKS, NONE

SHARES = (0.1, 0.3)

# What follows `feddiv run`.
SETTINGS = {
    "digits": ["quickstart", "against=[]"],
    "cifar10-laptop": ["cifar10-laptop", "against=[]"],
    # A hundred clients, ten a round: the only setting in which few are asked of many.
    "cifar10-features": ["cifar10-features-iid-0.8-0.5", "against=[]", "rounds=200"],
}
METHODS = {
    "plus": [],
    "paper": ["method.variant=paper"],
    "FedAvg": ["method.name=fedavg"],
}
# What clients of a method tell of their scores: what there is to lie about beside the model.
TELLS = {"plus": ("histogram", "softmax", "tally"), "paper": ("mixture",), "FedAvg": ()}
# `off` is what every run has: replies are checked, and so is the merged model.
OFF, FILTER, ALIGNED, OTHERS = "off", "filter", "aligned", "aligned, others asked"
TURNED = "aligned, turned back"
# In a hand-over there is nothing to compare a model with: warm-up by averages.
_ALIGNED = [
    "robust.weights=aligned",
    "robust.clip=1.0",
    "method.warmup.mode=average",
    "robust.filter=trimmed_mean",
    "federation.largest_site={largest}",
]
_HALF_STEPS = ["robust.clip=0.5" if "clip" in option else option for option in _ALIGNED]
DEFENCES = {
    OFF: [],
    FILTER: ["robust.filter=trimmed_mean"],
    ALIGNED: _ALIGNED,
    # On features a step of half the usual size is better in itself.
    OTHERS: [*_HALF_STEPS, "robust.substitutes=true"],
    TURNED: [
        "robust.weights=aligned",
        "robust.opposed=turned_back",
        "robust.filter=trimmed_mean",
        "federation.largest_site={largest}",
    ],
}
FILTERING = ("robust.filter", "method.warmup")  # what only methods with a filter have
# Of n_k; true sizes are about 144, 250 and 500.
LARGEST = {"digits": 200, "cifar10-laptop": 300, "cifar10-features": 600}


@dataclass(frozen=True)
class Study:
    """Which attacks on which methods, under which defences, belong together."""

    setting: str
    seeds: Sequence[int]
    attacks: Sequence[str]
    shares: Sequence[float]
    defences: dict[str, Sequence[str]]  # by method


# Options of defences were chosen on seeds 0 to 2; reported are seeds that nobody had looked at.
STUDIES = {
    "digits": Study(
        "digits",
        (20, 21, 22),
        tuple(ATTACKS),
        SHARES,
        {
            "plus": (OFF, FILTER, ALIGNED, TURNED),
            "paper": (OFF, FILTER),
            "FedAvg": (OFF, ALIGNED, TURNED),
        },
    ),
    "cifar10": Study(
        "cifar10-laptop",
        (20, 21, 22),
        (NONE, "all noisy", "all clean", "update × −1", "silent"),
        (0.3,),
        {"plus": (OFF, FILTER, ALIGNED, TURNED), "paper": (OFF, FILTER)},
    ),
    "features": Study(
        "cifar10-features",
        (20, 21, 22),
        (
            *(NONE, "silent", "all clean", "all noisy", "swapped components"),
            *("update × −1", "update × −10"),
        ),
        (0.3,),
        {"plus": (OFF, FILTER, OTHERS), "paper": (OFF, FILTER), "FedAvg": (OFF, OTHERS)},
    ),
}
