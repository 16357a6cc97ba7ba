"""How much noise, and what it is worth: by the accountant of the package `dp-accounting`.

Uploads of Gaussian noise with the same ratio of noise to sensitivity compose exactly: k of them are
as one whose ratio is smaller by the root of k, also where later ones depend on what earlier ones
said. So the library's exact functions for one Gaussian mechanism (Balle and Wang, ICML 2018) serve
for any number.
"""

from __future__ import annotations

import math
from functools import cache


@cache
def noise_ratio(epsilon: float, delta: float, releases: int) -> float:
    """Noise, in sensitivities, with which so many releases are (epsilon, delta)-private."""
    from dp_accounting import get_sigma_gaussian

    return float(get_sigma_gaussian(epsilon, delta)) * math.sqrt(releases)


def epsilon_spent(ratio: float, delta: float, releases: int) -> float:
    """The epsilon of so many releases with this much noise."""
    from dp_accounting import get_epsilon_gaussian

    return float(get_epsilon_gaussian(ratio / math.sqrt(releases), delta)) if releases else 0.0
