"""Many machines: the folder of a deployment, and a demonstration on one machine."""

from importlib.util import find_spec

from feddiv.errors import UserError

DEMO_ROUNDS = 4


def needs_flower(command: str) -> None:
    """Refuse a command that can't work without Flower; cryptography comes with it."""
    if find_spec("flwr") is None or find_spec("cryptography") is None:
        raise UserError(f"{command}: needs the package flwr; pip install 'feddiv[flower]'")
