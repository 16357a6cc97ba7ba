"""The methods there are, by name, and others by import path.

A variant has a name too, METHOD-VARIANT: feddiv-paper, package.module:Class-variant.
"""

import re
from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any

from feddiv.core.did_you_mean import did_you_mean
from feddiv.core.errors import UserError
from feddiv.core.import_path import is_import_path
from feddiv.methods.arfl_auto import ArflAuto
from feddiv.methods.arfl_residual import ArflResidual
from feddiv.methods.contract import Method
from feddiv.methods.dividemix.dividemix import DivideMix
from feddiv.methods.fedavg import FedAvg
from feddiv.methods.fedcorr.fedcorr import FedCorr
from feddiv.methods.feddiv.feddiv import FedDiv
from feddiv.methods.fedprox import FedProx
from feddiv.methods.fedrn import FedRN
from feddiv.methods.jointopt import JointOpt
from feddiv.methods.own import import_method
from feddiv.methods.rofl.rofl import RoFL

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


def method_class(name: str, key: str = "method.name") -> type[Method[Any, Any]]:
    """The method of this name or import path; `key` is where it was named, for errors."""
    if is_import_path(name):
        return import_method(name, key)
    if name not in METHODS:
        raise _unknown(name, key)
    return METHODS[name]


def _unknown(name: str, key: str) -> UserError:
    names = [each for method in METHODS for each in names_of(method)]
    return UserError(
        f"{key}: {name!r} is unknown{did_you_mean(name, names)}; there are {', '.join(METHODS)} "
        "(and variants: feddiv list methods), and import paths 'package.module:Class'"
    )


def split_name(full: str, key: str = "method.name") -> tuple[str, str | None]:
    """Method and variant of a name such as "feddiv-paper"; None where it names no variant.

    `key` is where the name was read, for the error of one that there is not.
    """
    module, colon, last = full.rpartition(":")
    if module in METHODS:
        raise UserError(f"{key}: {full!r} is spelt with a dash, {full.replace(':', '-')!r}")
    last, dash, variant = last.partition("-")
    name = f"{module}{colon}{last}"
    if not colon and name not in METHODS:
        raise _unknown(full, key)
    variants = method_class(name, key).variants
    if dash and variant not in variants:
        known = names_of(name)
        raise UserError(
            f"{key}: {full!r} is unknown{did_you_mean(full, known)}; "
            f"of {name} there are {', '.join(known)}"
        )
    return name, variant if dash else None


def full_name(name: str, variant: str) -> str:
    """What a variant is called; the default one is called as the method."""
    return name if variant == default_variant(name) else f"{name}-{variant}"


def short_names(names: Iterable[str]) -> dict[str, str]:
    """For tables: an import path by its class alone, where no other of these is called so."""
    short = {name: name.rpartition(":")[2] for name in names}
    counts = Counter(short.values())
    return {name: last if counts[last] == 1 else name for name, last in short.items()}


def file_name(full: str) -> str:
    """The name for folders: an import path has a colon, which not every file system takes."""
    return re.sub(r"[^\w.-]", ".", full)


def names_of(name: str) -> tuple[str, ...]:
    """What the variants of a method are called."""
    return tuple(full_name(name, variant) for variant in method_class(name).variants)


def default_variant(name: str) -> str:
    """The variant that a method is without further words."""
    return str(method_class(name).Options.model_fields["variant"].default)


def variant_options(name: str, variant: str) -> Mapping[str, Any]:
    """The options, by dotted key, in which a variant differs from the method's defaults."""
    variants = method_class(name).variants
    if variant not in variants:
        raise UserError(
            f"method.variant: {variant!r} is unknown{did_you_mean(variant, variants)}; "
            f"{name} has {', '.join(variants)}"
        )
    return variants[variant].options
