"""The methods there are, by name."""

from collections.abc import Mapping
from typing import Any

from feddiv.errors import UserError
from feddiv.methods.arfl_auto import ArflAuto
from feddiv.methods.arfl_residual import ArflResidual
from feddiv.methods.contract import Method
from feddiv.methods.dividemix import DivideMix
from feddiv.methods.fedavg import FedAvg
from feddiv.methods.fedcorr import FedCorr
from feddiv.methods.feddiv import FedDiv
from feddiv.methods.fedprox import FedProx
from feddiv.methods.fedrn import FedRN
from feddiv.methods.jointopt import JointOpt
from feddiv.methods.rofl import RoFL

METHODS: dict[str, type[Method[Any, Any]]] = {
    method.name: method
    for method in (
        FedDiv,
        FedAvg,
        FedProx,
        RoFL,
        ArflResidual,
        ArflAuto,
        JointOpt,
        DivideMix,
        FedCorr,
        FedRN,
    )
}


def method_class(name: str) -> type[Method[Any, Any]]:
    """The method of this name."""
    if name not in METHODS:
        raise UserError(f"method.name: {name!r} is unknown; there are {', '.join(METHODS)}")
    return METHODS[name]


def variant_options(name: str, variant: str) -> Mapping[str, Any]:
    """The options, by dotted key, in which a variant differs from the method's defaults."""
    variants = method_class(name).variants
    if variant not in variants:
        allowed = ", ".join(variants)
        raise UserError(f"method.variant: {variant!r} is unknown; {name} has {allowed}")
    return variants[variant]
