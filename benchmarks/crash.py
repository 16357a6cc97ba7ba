"""Crashes: killed at random moments, on a full disk, with a torn last line; then taken up again.

    .venv/bin/python benchmarks/crash.py [--times 100] [--seed 0]
    … --only run "data get" --kinds killed             these only, others stay as they were
    … --anew                                           also trials that were made before
    .venv/bin/python benchmarks/crash.py --table       print the table of the last measurement

Every trial begins in an empty folder, is crashed once (one in three: twice), and is taken up until
it ends. It must end, with exactly what a run leaves that was never crashed: models, journals but
for times, opinions on labels, rows of a sweep, decisions of a review, list of files. Processes are
forked from this one, which has loaded what they need: a moment of a run is then hardly ever one of
its imports. A full disk is a tmpfs of random size, which grows before the run is taken up, or every
other time a limit on the size of files (RLIMIT_FSIZE), which fails in the middle of one; where
mounting is not allowed, always the latter. A full disk has to be told in one line.
`crash_targets.py` lists what can be crashed. Outcomes are kept after
every trial: the same command goes on where it was stopped.
"""

import argparse
import json
import os
import resource
import select
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from random import Random
from typing import Any

import torch
from crash_contract import FILES, Fingerprint, Job, Target
from crash_targets import TARGETS
from forks import forked
from small_disks import AMPLE, can_mount, disk, resize

from feddiv.core.files import write_json

RESULTS = Path(__file__).parent / "results" / "crash.json"
KINDS = ("killed", "killed, torn last line", "full disk")
PATIENCE = 300.0  # seconds until a process counts as stuck


@dataclass
class Outcome:
    """What came of all trials of one kind."""

    target: str
    kind: str
    seed: int = 0  # of the random moments; each trial has draws of its own
    trials: int = 0
    crashes: int = 0  # a trial may have two
    same: int = 0  # trials that ended as if nothing had happened
    failures: list[str] = field(default_factory=list)


class Failure(Exception):
    """A trial that did not end as it should, and why."""


class Child:
    """A forked process in a group of its own that does a job; what it says goes to a file."""

    def __init__(self, job: Job, log: Path, prepare: Callable[[], None] = lambda: None) -> None:
        self.log = log
        self._code: int | None = None
        # Whatever it forks has the other end too: where nobody has it any more, all are gone.
        self._alive, mine = os.pipe()

        def begin() -> None:
            os.setsid()
            os.close(self._alive)
            prepare()

        with log.open("w") as said:
            self.pid = forked(job, said, said, begin)
        os.close(mine)

    def ended(self, until: float) -> int | None:
        """Its exit code if it ends before this moment."""
        while self._code is None:
            pid, status = os.waitpid(self.pid, os.WNOHANG)
            if pid:
                self._code = os.waitstatus_to_exitcode(status)
            elif time.monotonic() < until:
                time.sleep(0.002)
            else:
                break
        return self._code

    def kill(self, patience: float = PATIENCE) -> None:
        """SIGKILL for it and its workers, as a power cut has it; then none of them is left."""
        os.killpg(self.pid, signal.SIGKILL)
        os.waitpid(self.pid, 0)
        if not select.select([self._alive], [], [], patience)[0]:
            raise Failure("was killed, and a process of it lives on")

    def __del__(self) -> None:
        os.close(self._alive)

    def said(self) -> str:
        """What it printed."""
        return self.log.read_text(errors="replace").strip()


@dataclass
class Trials:
    """Trials of one target."""

    target: Target
    scratch: Path
    rng: Random = field(default_factory=lambda: Random(0))
    reference: Fingerprint = field(default_factory=dict)
    span: float = 0.0  # seconds from the first sign of work to the end
    size: int = 0  # bytes of all files that it has made in the end
    largest: int = 0  # of them the largest

    def measure(self) -> None:
        """What has to come out, and how long that takes if nobody interferes."""
        folder = self.scratch / "whole"
        self.target.prepare(folder)
        there = set(folder.rglob("*"))
        before, started = self.target.signs(folder), time.monotonic()
        child = Child(self.target.job(folder), self.scratch / "log")
        while self.target.signs(folder) == before and time.monotonic() < started + PATIENCE:
            if child.ended(time.monotonic() + 0.002) is not None:
                break
        begun = time.monotonic()
        self.finish(child)
        self.span = time.monotonic() - begun
        self.reference = self.target.result(folder)
        new = [file for file in folder.rglob("*") if file.is_file() and file not in there]
        sizes = [file.stat().st_size for file in new]
        self.size, self.largest = sum(sizes), max(sizes)

    def trial(self, kind: str, folder: Path) -> int:
        """One trial; how many crashes there were. None in time is none at all."""
        wanted, crashes = 1 + (self.rng.random() < 1 / 3), 0
        crash = self._fill if kind == "full disk" else self.kill
        self.target.prepare(folder)
        while crashes < wanted and crash(folder):
            crashes += 1
            if "torn" in kind and folder.exists():
                self.target.tear(folder, self.rng)
        self.finish(Child(self.target.job(folder), self.scratch / "log"))
        found = self.target.result(folder)
        if found != self.reference:
            names = {*found, *self.reference}
            other = sorted(n for n in names if found.get(n) != self.reference.get(n))
            raise Failure(f"ended with another {', '.join(other)}{self._files(found)}")
        return crashes

    def _files(self, found: Fingerprint) -> str:
        """Which files are too many (+) or missing (-), where a fingerprint lists any."""
        now, then = (
            {
                (name, file)
                for name in listed
                if name.endswith(FILES)
                for file in listed[name].split()
            }
            for listed in (found, self.reference)
        )
        changed = [f"+{file}" for _, file in sorted(now - then)]
        changed += [f"-{file}" for _, file in sorted(then - now)]
        return f" ({' '.join(changed)})" if changed else ""

    def finish(self, child: Child) -> None:
        """Wait for it; it has to end well."""
        code = child.ended(time.monotonic() + PATIENCE)
        if code is None:
            child.kill()
            raise Failure(f"did not end within {PATIENCE:.0f} s: {child.said()[-300:]}")
        if code:
            raise Failure(f"ended with code {code}: {child.said()[-300:]}")

    def kill(self, folder: Path) -> bool:
        """Kill it at a random moment; False where it had ended by then."""
        before = self.target.signs(folder)
        child = Child(self.target.job(folder), self.scratch / "log")
        patience = time.monotonic() + PATIENCE
        while self.target.signs(folder) == before and time.monotonic() < patience:
            if (code := child.ended(time.monotonic() + 0.002)) is not None:
                return self._too_late(code, child)
        code = child.ended(time.monotonic() + self.rng.uniform(0, self.span))
        if code is not None:
            return self._too_late(code, child)
        child.kill()
        return True

    def _too_late(self, code: int, child: Child) -> bool:
        if code:
            raise Failure(f"ended with code {code} by itself: {child.said()[-300:]}")
        return False

    def _fill(self, folder: Path) -> bool:
        """Let the disk be full at a random moment; False where the room was enough."""
        disk, limit = folder.parent, resource.RLIM_INFINITY
        if tmpfs := os.path.ismount(disk) and self.rng.random() < 0.5:
            used = sum(file.stat().st_blocks << 9 for file in folder.rglob("*") if file.is_file())
            resize(disk, used + self.rng.randrange(1 << 12, self.size + self.largest))
        else:
            limit = self.rng.randrange(self.target.says, self.largest)
        child = Child(
            self.target.job(folder),
            self.scratch / "log",
            lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (limit, resource.RLIM_INFINITY)),
        )
        code = child.ended(time.monotonic() + PATIENCE)
        if tmpfs:
            resize(disk, AMPLE)
        if code is None:
            child.kill()
            raise Failure("hangs on a full disk")
        if code and not self.target.tells(child.said()):
            raise Failure(f"a full disk is not told as it should be: {child.said()[-400:]}")
        return code != 0


def crashed(
    outcome: Outcome,
    times: int,
    *,
    mount: bool,
    keep: Callable[[Outcome], None] = lambda kept: None,
) -> Outcome:
    """So many trials of one kind, or those that an outcome lacks; `keep` is told after each."""
    name, kind = outcome.target, outcome.kind
    if outcome.trials >= times:
        return outcome
    with tempfile.TemporaryDirectory() as scratch, TARGETS[name].ready():
        trials = Trials(TARGETS[name], Path(scratch))
        trials.measure()
        attempt = 0
        while outcome.trials < times:
            trials.rng = Random(f"{outcome.seed}/{name}/{kind}/{outcome.trials}/{attempt}")
            place = Path(scratch) / f"disk{outcome.trials}"
            with disk(place, mounted=mount and kind == "full disk"):
                try:
                    crashes, failed = trials.trial(kind, place / "it"), ""
                except Failure as why:
                    crashes, failed = 0, f"trial {outcome.trials}: {why}"
            subprocess.run(["rm", "-rf", str(place)], check=True)
            if not crashes and not failed:  # it had ended before it was to be crashed
                attempt += 1
                continue
            outcome = replace(
                outcome,
                trials=outcome.trials + 1,
                crashes=outcome.crashes + crashes,
                same=outcome.same + (not failed),
                failures=[*outcome.failures, *([failed] if failed else [])],
            )
            attempt = 0
            keep(outcome)
    return outcome


def begun(outcomes: list[dict[str, Any]], name: str, kind: str, seed: int, times: int) -> Outcome:
    """What there is of such trials with this seed, to go on with; of more than asked for: nothing.

    A measurement of another length, of before seeds were kept, or one that failed begins anew.
    """
    for row in outcomes:
        same = (row["target"], row["kind"], row.get("seed")) == (name, kind, seed)
        if same and row["trials"] <= times and not row["failures"]:
            return Outcome(**row)
    return Outcome(name, kind, seed)


def replaced(outcomes: list[dict[str, Any]], new: dict[str, Any]) -> list[dict[str, Any]]:
    """The outcomes with a new one in the place of its like; all in the order of the lists above."""
    found = {(row["target"], row["kind"]): row for row in (*outcomes, new)}
    places = [(name, kind) for name in TARGETS for kind in KINDS]
    return [found[place] for place in places if place in found]


def table(outcomes: list[dict[str, Any]]) -> str:
    """Markdown."""
    text = [
        "| what | crash | trials | crashes | ended as if nothing had happened |",
        "| --- | --- | --- | --- | --- |",
    ]
    for row in outcomes:
        cells = [row[key] for key in ("target", "kind", "trials", "crashes", "same")]
        text.append("| " + " | ".join(str(cell) for cell in cells) + " |")
    return "\n".join(text)


def _cpu() -> float:
    """Seconds of processors until now, by this process and those that it has waited for."""
    own, others = map(resource.getrusage, (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    return own.ru_utime + own.ru_stime + others.ru_utime + others.ru_stime


def main() -> None:
    """Crash everything, print the table, keep it."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--times", type=int, default=100, help="trials of each kind (default 100)")
    parser.add_argument("--only", nargs="+", choices=TARGETS, help="these only")
    parser.add_argument("--kinds", nargs="+", choices=KINDS, help="these kinds of crash only")
    parser.add_argument("--seed", type=int, default=0, help="of the random moments")
    parser.add_argument("--anew", action="store_true", help="also what has been measured")
    parser.add_argument("--results", type=Path, default=RESULTS, help="file of the results")
    parser.add_argument("--table", action="store_true", help="crash nothing")
    options = parser.parse_args()
    torch.set_num_threads(1)  # what is forked after torch has had more waits for them forever
    file, mount = options.results, can_mount()
    kept = json.loads(file.read_text()) if file.exists() else {"outcomes": []}

    def keep(outcome: Outcome) -> None:
        kept["command"] = f"benchmarks/crash.py --times {options.times} --seed {options.seed}"
        kept["date"] = datetime.now(UTC).date().isoformat()
        kept["full_disk"] = "tmpfs and RLIMIT_FSIZE" if mount else "RLIMIT_FSIZE"
        kept["outcomes"] = replaced(kept["outcomes"], asdict(outcome))
        write_json(file, kept)

    for name in () if options.table else options.only or TARGETS:
        for kind in options.kinds or KINDS:
            before = [] if options.anew else kept["outcomes"]
            outcome = begun(before, name, kind, options.seed, options.times)
            left, spent = options.times - outcome.trials, _cpu()
            outcome = crashed(outcome, options.times, mount=mount, keep=keep)
            said = f"{name}, {kind}: {outcome.same} of {outcome.trials}, {outcome.crashes} crashes"
            if left:
                said += f", {(_cpu() - spent) / left:.2f} s of CPU a trial"
            print("\n".join([said, *outcome.failures]), file=sys.stderr, flush=True)
    print(table(kept["outcomes"]))
    if any(row["failures"] for row in kept["outcomes"]):
        raise SystemExit(1)


if __name__ == "__main__":
    main()
