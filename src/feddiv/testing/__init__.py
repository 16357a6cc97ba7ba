"""Whether a method keeps to the contract: `check_method` tries it out and says what is missing."""

from feddiv.testing.check import check_method
from feddiv.testing.findings import NotConformant

__all__ = ["NotConformant", "check_method"]
