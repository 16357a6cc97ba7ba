"""What a method says of itself: lines for lists, options, variants, what it sends."""

from collections.abc import Mapping
from typing import Any, TypeVar

from feddiv.config.experiment import Experiment, to_toml, validated
from feddiv.config.reading import load_experiment
from feddiv.core.errors import UserError
from feddiv.methods.contract import Facts, Kind, Method
from feddiv.presets import toml_tree
from feddiv.testing.findings import Findings
from feddiv.testing.odd_clients import CLASSES, WIDTH

FEW, MANY = 7, 700  # samples of a client


def check_lines(method: type[Method[Any, Any]], findings: Findings) -> None:
    """One line on what it does, and where it comes from."""
    for name, what in (
        ("summary", "one line on what it does, for `feddiv list methods`"),
        ("paper", 'where it is published, or "unpublished"'),
    ):
        said = getattr(method, name)
        if not (isinstance(said, str) and said.strip()):
            findings.add(f"{name} is missing: {what}")


def check_classes(method: type[Method[Any, Any]], findings: Findings) -> None:
    """The classes as which state and memory are read back."""
    for name in ("State", "Memory"):
        if isinstance(getattr(method, name, TypeVar), TypeVar) or not hasattr(method, name):
            findings.add(
                f"the class of its {name.lower()} is missing: derive it from Method[State, Memory] "
                "or from Averaging[Memory], with None for no memory"
            )


def check_variants(
    method: type[Method[Any, Any]], settings: Mapping[str, Any], findings: Findings
) -> Experiment | None:
    """Every variant can be chosen, and survives in a file; the chosen one comes back."""
    for variant in method.variants:
        try:
            experiment = load_experiment(None, {**settings, "method.variant": variant})
            again = validated(toml_tree(to_toml(experiment), "config.toml"))
            if again != experiment:
                findings.add(f"variant {variant!r}: its options change when config.toml is read")
            if not method.variants[variant].summary:
                findings.add(f"variant {variant!r}: its summary is missing")
        except UserError as problem:
            findings.add(f"variant {variant!r}: {problem}")
        except Exception as problem:
            findings.failed(f"variant {variant!r}", problem)
    try:
        return load_experiment(None, settings)
    except UserError as problem:
        findings.add(f"it cannot be chosen: {problem}")
    except Exception as problem:
        findings.failed("making it", problem)
    return None


def check_kinds(method: Method[Any, Any], findings: Findings) -> None:
    """What is declared does not depend on how many samples a client has."""
    try:
        few, many = (_kinds(method, size) for size in (FEW, MANY))
    except Exception as problem:
        findings.failed("kinds", problem)
        return
    if few.keys() != many.keys():
        findings.add("kinds() declares other kinds where clients have other numbers of samples")
    for kind in few.keys() & many.keys():
        for name, entry in few[kind].reply.items():
            other = many[kind].reply.get(name)
            if other is None or other.shape != entry.shape:
                shape = None if other is None else other.shape
                findings.add(
                    f"{name!r} in replies to {kind!r} is declared with shape {entry.shape} for "
                    f"clients of {FEW} samples and {shape} for {MANY}: nothing per sample may "
                    "leave a client"
                )


def _kinds(method: Method[Any, Any], size: int) -> Mapping[str, Kind]:
    classes = tuple(str(number) for number in range(CLASSES))
    kinds = method.kinds(Facts(classes, (WIDTH,), dict.fromkeys(range(5), size), True))
    for name, kind in kinds.items():
        if not isinstance(kind, Kind):
            raise TypeError(f"{name!r} is a {type(kind).__name__}, not a Kind")
    return kinds
