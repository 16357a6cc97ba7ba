"""feddiv on Flower: the two halves of a Flower app, and what people with an app of their own use.

Needs the extra: pip install 'feddiv[flower]'.
"""

from typing import TYPE_CHECKING, Any

from feddiv.core.errors import UserError

if TYPE_CHECKING:
    from feddiv.flower.clientapp import client_app
    from feddiv.flower.serverapp import serve
    from feddiv.flower.strategy import Strategy

__all__ = ["Strategy", "client_app", "serve"]

_HOMES = {
    "Strategy": "feddiv.flower.strategy",
    "client_app": "feddiv.flower.clientapp",
    "serve": "feddiv.flower.serverapp",
}


def needs_flower() -> None:
    """Say how to get Flower where it is not installed."""
    from importlib.util import find_spec

    if find_spec("flwr") is None:
        raise UserError("Flower is not installed: pip install 'feddiv[flower]'")


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'feddiv.flower' has no attribute {name!r}")
    from importlib import import_module

    needs_flower()
    return getattr(import_module(_HOMES[name]), name)
