"""Whether a method is behind the best one by more than chance: paired over seeds."""

import math
from collections.abc import Mapping, Sequence
from typing import Final, Literal

LEVEL: Final = 0.05
FEWEST: Final = 3  # pairs; the spread of two differences says next to nothing
TEST: Final = "paired t-test over seeds, two-sided at 5%, Holm's correction within a setting"

Verdict = Literal["best", "behind", "level", "too few seeds"]


def paired_p(first: Sequence[float], second: Sequence[float]) -> float:
    """The two-sided p of a paired t-test; 1 of differences without any spread, which tell nothing.

    >>> round(paired_p([0.9, 0.8, 0.85], [0.7, 0.65, 0.6]), 4)
    0.0202
    >>> paired_p([0.5, 0.6], [0.4, 0.5])
    1.0
    """
    from scipy import stats

    pairs = [round(a - b, 12) for a, b in zip(first, second, strict=True)]
    if max(pairs) == min(pairs):
        return 1.0
    count = len(pairs)
    mean = math.fsum(pairs) / count
    spread = math.sqrt(math.fsum((each - mean) ** 2 for each in pairs) / (count - 1))
    return float(2 * stats.t.sf(abs(mean) / (spread / math.sqrt(count)), count - 1))


def holm(p_values: Mapping[str, float]) -> dict[str, float]:
    """Holm's corrected p of several comparisons.

    >>> holm({"a": 0.01, "b": 0.04, "c": 0.03})
    {'a': 0.03, 'c': 0.06, 'b': 0.06}
    """
    corrected, largest = {}, 0.0
    for place, (name, p) in enumerate(sorted(p_values.items(), key=lambda pair: pair[1])):
        largest = max(largest, min(1.0, p * (len(p_values) - place)))
        corrected[name] = largest
    return corrected


def verdicts(values: Mapping[str, Mapping[int, float]]) -> dict[str, Verdict]:
    """Of each method, by its value on each seed: the best on average, behind it, or level with it.

    A method is compared with the best on the seeds that both have; one that is ahead on these is
    not behind, whatever the best has on others. Where some have seeds enough to be compared, the
    best is one of them: a single lucky seed is no average.
    """
    known = {name: found for name, found in values.items() if found}
    if not known:
        return {}
    enough = [name for name, found in known.items() if len(found) >= FEWEST] or list(known)
    best = max(enough, key=lambda name: math.fsum(known[name].values()) / len(known[name]))
    said: dict[str, Verdict] = {best: "best"}
    p_values = {}
    for name, found in known.items():
        shared = sorted(found.keys() & known[best].keys())
        if name == best:
            continue
        if len(shared) < FEWEST:
            said[name] = "too few seeds"
            continue
        ahead, after = [known[best][s] for s in shared], [found[s] for s in shared]
        p_values[name] = paired_p(ahead, after) if math.fsum(ahead) > math.fsum(after) else 1.0
    for name, p in holm(p_values).items():
        said[name] = "behind" if p < LEVEL else "level"
    return said
