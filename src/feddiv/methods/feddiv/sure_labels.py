"""Labels that are surely right, and how choosy a federation can afford to be.

A wrong label that trains once looks less wrong to the next filter, so it trains again, until the
model knows it by heart. A right label that is left out for a while costs little where there are
many like it, and much where there are few: a small federation has nothing to spare. So clients
report, class by class, how many labels look right; the server adds them up and says which share of
a class has to train at every client, so that `enough` of them do over all clients; and beyond that
share a client trains on no more labels than leave it with few that are expected to be wrong.
"""

import numpy as np

from feddiv.core.arrays import Array, Labels, Mask

ROUNDING = 1e-9  # so far off a limit a number is at it


def must_train(tally: Array, enough: int) -> Array:
    """Per class [C]: the share of its labels that look right that has to train, sure or not."""
    _, right, _ = tally
    return np.asarray(np.minimum(1.0, enough / np.maximum(right, 1.0)))


def surest(
    p_clean: Array, labels: Labels, most_wrong: float, least: Array, trusted: Mask | None = None
) -> Mask:
    """Which labels of a client [n] train, of those whose p(clean) is one half or more.

    The surest ones, as many as are expected to have a share of `most_wrong` wrong ones; and of each
    class the share `least` [C] at least, the surest first. Labels that an expert vouches for
    (`trusted`) train, and say nothing of the others: these are not surer because of them.
    """
    candidates = np.flatnonzero(p_clean >= 0.5)
    falling = candidates[np.argsort(-p_clean[candidates], kind="stable")]
    asked = np.ones(len(falling)) if trusted is None else 1.0 - trusted[falling]
    expected_wrong = np.cumsum(asked * (1 - p_clean[falling])) / np.maximum(np.cumsum(asked), 1)
    trains = np.zeros(len(p_clean), np.bool_)
    trains[falling[expected_wrong <= most_wrong + ROUNDING]] = True
    for label in np.unique(labels[falling]):
        of_class = falling[labels[falling] == label]
        trains[of_class[: int(np.ceil(least[label] * len(of_class) - ROUNDING))]] = True
    return trains
