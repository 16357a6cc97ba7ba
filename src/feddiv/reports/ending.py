"""Where curves of accuracy end: the mean over the last rounds, of as many rounds of every run."""

from collections.abc import Sequence
from dataclasses import dataclass

from feddiv.core.arrays import Array
from feddiv.reports.record import RunRecord, number
from feddiv.runs.curve import LAST, after_warmup, mean_of_last


@dataclass(frozen=True)
class Ending:
    """The last rounds that count for every run beside which a run is shown, at most ten.

    Warm-up does not count, and methods differ in theirs: in a short run the last ten of one would
    be two rounds with the filter, those of another all its rounds from the first on.
    """

    rounds: int

    @classmethod
    def of(cls, records: Sequence[RunRecord]) -> "Ending":
        """The rounds that all of these have, but for those that are in warm-up still."""
        counts = (len(counted(record)) for record in records)
        return cls(min([LAST, *(count for count in counts if count)]))

    def mean(self, record: RunRecord, key: str | None = None) -> float | None:
        """The mean over them, of the accuracy by which the run is judged or of another number."""
        return mean_of_last(counted(record, key), self.rounds)

    @property
    def name(self) -> str:
        """As a column is called: "last ten", "last 3"."""
        if self.rounds == 1:
            return "last counted"  # "last" is the last round of all
        return "last ten" if self.rounds == LAST else f"last {self.rounds}"

    @property
    def words(self) -> str:
        """What the mean is one of."""
        if self.rounds == 1:
            return "that of the last round"
        return f"the mean of the {self.name} rounds"


def counted(record: RunRecord, key: str | None = None) -> Array:
    """A number of every round after warm-up that has it."""
    key = key or record.measure
    lines = [{"stage": line.get("stage"), key: number(line.get(key))} for line in record.rounds]
    return after_warmup(lines, key)
