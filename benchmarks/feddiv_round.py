"""Where the time of a FedDiv round goes: training, scoring, sampler, EM, aggregation, evaluation.

    .venv/bin/python benchmarks/feddiv_round.py [PRESET] [KEY=VALUE]...

Runs in one process with a stopwatch around the functions that do each part; times are the
processor's and exclusive (what the sampler spends in passes of the net counts as the sampler's).
Only filtered rounds count.
"""

import json
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import feddiv
import feddiv.federation.workspace as workspace
import feddiv.methods.feddiv.feddiv as method
import feddiv.methods.feddiv.filter as noise_filter
import feddiv.methods.feddiv.second_opinion as second_opinion
from feddiv.runs.start_and_resume import Watcher

RESULTS = Path(__file__).parent / "results"


class Stopwatch:
    """Exclusive seconds by part; what is inside another part's call is taken off that part."""

    def __init__(self) -> None:
        self.seconds: Counter[str] = Counter()
        self._inside: list[str] = []
        self._since = time.process_time()

    def around(self, owner: Any, name: str, part: str) -> None:
        """Time every call of an attribute as `part`."""
        function: Callable[..., Any] = getattr(owner, name)

        def timed(*args: Any, **kwargs: Any) -> Any:
            # A pass inside the sampler is the sampler's.
            mine = "sampler" if "sampler" in self._inside else part
            self._switch()
            self._inside.append(mine)
            try:
                return function(*args, **kwargs)
            finally:
                self._switch()
                self._inside.pop()

        setattr(owner, name, timed)

    def _switch(self) -> None:
        now = time.process_time()
        self.seconds[self._inside[-1] if self._inside else "the rest"] += now - self._since
        self._since = now

    def reset(self) -> None:
        """Forget what was measured so far."""
        self._switch()
        self.seconds.clear()


class FilteredRounds(Watcher):
    """Resets the stopwatch when warm-up is over, and stops counting at the end."""

    def __init__(self, watch: Stopwatch) -> None:
        self.watch, self.rounds = watch, 0

    def round(self, line: dict[str, Any]) -> None:
        """Count a round, or start anew."""
        if line["stage"] == "warmup" or not self.rounds:
            self.watch.reset()  # the first filtered round has two exchanges more
        self.rounds = self.rounds + 1 if line["stage"] == "train" else 0


def main() -> None:
    """Measure one run and print the split."""
    preset, *overrides = sys.argv[1:] or ["cifar10-laptop"]
    watch = Stopwatch()
    watch.around(method, "train", "training")
    watch.around(method, "predict_global", "scoring passes")
    watch.around(method, "predict_array", "scoring passes")
    watch.around(method.Reselection, "__call__", "sampler")
    watch.around(noise_filter, "fit_mixture", "EM")
    watch.around(noise_filter, "own_weights", "EM")
    watch.around(second_opinion, "_corrupted", "EM")
    watch.around(method.RunningMean, "add", "aggregation")
    watch.around(method.RunningMean, "mean", "aggregation")
    watch.around(workspace.Workspace, "evaluate", "evaluation")
    rounds = FilteredRounds(watch)
    with tempfile.TemporaryDirectory() as folder:
        settings = [*overrides, "against=[]"]
        run = feddiv.run(preset, settings, out=f"{folder}/run", workers=0, watcher=rounds)
    counted = rounds.rounds - 1
    seconds = {part: value / counted for part, value in watch.seconds.most_common()}
    total = sum(seconds.values())
    print("| part | seconds a round | share |\n| --- | --- | --- |")
    for part, value in seconds.items():
        print(f"| {part} | {value:.3f} | {value / total:.1%} |")
    kept = {
        "command": f"benchmarks/feddiv_round.py {' '.join([preset, *overrides])}",
        "date": datetime.now(UTC).date().isoformat(),
        "rounds": counted,
        "seconds_per_round": seconds,
        "model_hash": run.summary["model_hash"],
    }
    name = "feddiv_round-mlp.json" if run.experiment.model.name == "mlp" else "feddiv_round.json"
    (RESULTS / name).write_text(json.dumps(kept, indent=2) + "\n")


if __name__ == "__main__":
    main()
