"""The section `[privacy]` of an experiment."""

from importlib.util import find_spec
from typing import Literal

from pydantic import Field

from feddiv.core.errors import UserError
from feddiv.core.options import Options

LEAST_CLIENTS = 3  # a sum of two tells each of them what the other said
NEEDS = {"sum_only": ("cryptography",), "dp": ("cryptography", "dp_accounting")}


class PrivacyOptions(Options):
    """What the server learns of the totals that clients upload beside their weights.

    `filter` none: each client's. sum_only: their sum over the clients of an exchange, as each one's
    are masked. dp: each client's with Gaussian noise, so that they are (`epsilon`, `delta`)
    differentially private for one of its samples over the whole run. Weights are not covered.
    """

    filter: Literal["none", "sum_only", "dp"] = "none"
    # Of the clients of an exchange, the share that has to stay to the end of it (sum_only).
    threshold: float = Field(2 / 3, gt=0.5, le=1)
    epsilon: float = Field(8.0, gt=0, le=1000)  # of each client over the whole run (dp)
    delta: float = Field(1e-5, gt=0, le=1e-3)  # should be well below 1 / n_k (dp)
    # How often a client uploads a total with fresh noise; then it repeats the last (dp). None means
    # as often as a client is expected to take part.
    uploads: int | None = Field(None, ge=1, le=1_000_000)


def check_installed(options: PrivacyOptions) -> None:
    """Refuse a filter whose packages are not there."""
    for package in NEEDS.get(options.filter, ()):
        if find_spec(package) is None:
            raise UserError(
                f"privacy.filter={options.filter}: needs the package {package.replace('_', '-')}; "
                "pip install 'feddiv[privacy]'"
            )
