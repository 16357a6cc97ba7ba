"""What does not go with a private filter, found out before anything runs."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from feddiv.core.errors import UserError
from feddiv.methods.common import DIVERGENCE
from feddiv.methods.contract import Declared, Facts, Kind, Method
from feddiv.privacy.options import LEAST_CLIENTS, PrivacyOptions
from feddiv.privacy.totals import unsummable

# What a method declares depends on little of this.
SOME_FACTS = [Facts(("a", "b", "c"), (3, 8, 8), {0: 9, 1: 9, 2: 9}, iid) for iid in (False, True)]


def check_private(method: Method[Any, Any], options: PrivacyOptions, clients: int | None) -> None:
    """Refuse a method that tells of single clients what the filter is to hide.

    `clients` is how many there are, None where nobody knows yet.
    """
    if options.filter == "none":
        return
    head = f"privacy.filter={options.filter}"
    called = f"method.name={method.options.name}"
    if options.filter == "sum_only" and method.single_models:
        raise UserError(
            f"{head}: {called} needs each client's model by itself; take another method or "
            "privacy.filter=none"
        )
    for name, entry in _entries(method):
        if not entry.pooled:
            raise UserError(
                f"{head}: {called} needs {name} of each client by itself, as it is set; take "
                "other options, another method or privacy.filter=none"
            )
        if options.filter == "dp" and entry.sensitivity is None:
            raise UserError(
                f"{head}: nobody knows how much one sample changes {name} of {called}, as it is "
                "set; take other options, another method or another privacy.filter"
            )
        if options.filter == "sum_only" and (why := unsummable(entry)):
            raise UserError(f"{head}: {name} of {called} cannot be masked: {why}")
    if options.filter == "sum_only" and clients is not None and sends_totals(method):
        check_enough(method.budget.visits(clients), f"clients.fraction={method.budget.fraction:g}")


def check_enough(clients: int, by: str) -> None:
    """Refuse a sum over so few that it gives each of them away."""
    if clients < LEAST_CLIENTS:
        raise UserError(
            f"privacy.filter=sum_only: {by} lets {clients} clients take part at once; a sum hides "
            f"a client among {LEAST_CLIENTS} at least"
        )


def sends_totals(method: Method[Any, Any]) -> bool:
    """Whether there is anything for a private filter to protect."""
    return any(entry.pooled for _, entry in _entries(method))


def _entries(method: Method[Any, Any]) -> Iterator[tuple[str, Declared]]:
    """All that replies ever hold but for models, and how far these moved, which models tell too."""
    for facts in SOME_FACTS:
        kinds: list[Kind] = list(method.kinds(facts).values())
        for kind in kinds:
            yield from ((k, v) for k, v in kind.reply.items() if k not in DIVERGENCE)
