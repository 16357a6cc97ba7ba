"""Classes that the filter starves, and what is done about it.

A class that the model has not learnt yet looks like noise: all its labels, right and wrong, get
high scores, the filter drops them all, nobody trains on the class, and it is never learnt. Where
a class is held by few clients, this costs it for good. So clients report, class by class, how
many labels they hold and how many look right; a class of which far fewer do than of the others is
starved, and of a starved class the better-looking half is kept: the labels whose score is at most
the class's mean over all clients. Once the model has learnt the class, the filter keeps enough of
it by itself and the pardon ends.
"""

import numpy as np

from feddiv.core.arrays import Array, Labels, Mask


def class_tally(labels: Labels, scores: Array, right: Mask, classes: int) -> Array:
    """Per class [3, C]: how many labels there are, how many look right, their summed score."""
    return np.stack(
        [
            np.bincount(labels, minlength=classes).astype(np.float64),
            np.bincount(labels, weights=right, minlength=classes),
            np.bincount(labels, weights=scores, minlength=classes),
        ]
    )


def pardons(tally: Array, starved_below: float) -> Array:
    """Per class [C]: the score up to which its labels are kept; -inf where it is not starved.

    A class is starved if its share of kept labels is under `starved_below` of the overall share.
    Where nothing is kept at all, every class is: nobody would ever train otherwise.
    """
    given, kept, score = tally
    share = kept.sum() / max(given.sum(), 1.0)
    starved = (given > 0) & (kept < starved_below * share * given)
    if share == 0 and starved_below > 0:
        starved = given > 0
    return np.where(starved, score / np.maximum(given, 1.0), -np.inf)
