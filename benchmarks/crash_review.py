"""A review that can be crashed: what a page was told to be saved is there, and nothing half."""

import hashlib
import json
import os
import resource
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from typing import Any

from crash_contract import Fingerprint, Job, Target
from forks import forked
from small_disks import AMPLE, resize

sys.path.append(str(Path(__file__).parents[1]))  # for tests.review
from tests.review.sites import CLASSES, Served, audited, served, visitor

from feddiv.data.corrections import Decision, DecisionKind, Review, read
from feddiv.review.opening import reviewable

SAMPLES = 120
Row = tuple[str, str, str]  # sample, kind of decision, label


@dataclass(frozen=True)
class Action:
    """What the page asks for, and the rows that it comes to."""

    verb: str
    body: dict[str, Any]
    rows: tuple[Row, ...]


class Expert:
    """Somebody who goes through the list: always the same decisions in the same order."""

    def __init__(self, names: tuple[str, ...], given: list[int]) -> None:
        self.names, self.given = names, given
        self.actions = list(self._decided())
        self.ends = [0]  # how many rows there are after so many actions
        for action in self.actions:
            self.ends.append(self.ends[-1] + len(action.rows))

    def _decided(self) -> Iterator[Action]:
        place = 0
        while place + 5 < len(self.names):
            yield self._label([place])
            yield Action("undo", {}, ((self.names[place], "undo", ""),))
            yield Action("redo", {}, ((self.names[place], "redo", ""),))
            yield self._label(list(range(place + 1, place + 4)))  # as with the shift key
            for at, choice in ((place + 4, "cannot_tell"), (place + 5, "skip")):
                body = {"places": [at], "choice": choice}
                yield Action("decide", body, ((self.names[at], choice, ""),))
            place += 6

    def _label(self, places: list[int]) -> Action:
        label = places[0] % len(CLASSES)
        rows = tuple(
            (
                self.names[at],
                "confirm" if label == self.given[at] else "correct",
                CLASSES[label],
            )
            for at in places
        )
        return Action("decide", {"places": places, "choice": "label", "label": label}, rows)

    @cached_property
    def rows(self) -> list[Row]:
        """All rows, in the end."""
        return [row for action in self.actions for row in action.rows]

    def states(self, count: int) -> dict[str, list[Any]]:
        """What a page shows after so many rows."""
        told: dict[str, list[Decision]] = {}
        for number, (sample, kind, label) in enumerate(self.rows[:count]):
            given = CLASSES[self.given[self.names.index(sample)]]
            when = f"2026-01-01T00:00:00.{number:06}Z"
            row = Decision(sample, given, DecisionKind(kind), label, "anna", when)
            told.setdefault(sample, []).append(row)
        found = {}
        for sample, rows in told.items():
            last = Review.of(rows).current.get(sample)
            if last is not None:
                label_number = CLASSES.index(last.label) if last.label else -1
                found[str(self.names.index(sample))] = [last.decision.value, label_number]
        return found


class Server:
    """`feddiv review` in a process of its own, and a page that is open on it."""

    def __init__(self, folder: Path, limit: int) -> None:
        from feddiv.cli import main

        read_end, write_end = os.pipe()  # a file would be a file on a full disk
        self._said, self.lines = os.fdopen(read_end), list[str]()

        def begin() -> None:
            resource.setrlimit(resource.RLIMIT_FSIZE, (limit, resource.RLIM_INFINITY))

        command = ["review", str(folder), "--no-browser", "--reviewer", "anna"]
        with os.fdopen(write_end, "w") as says:
            self.pid = forked(lambda: main(command), says, says, begin)
        for line in self._said:
            self.lines.append(line.rstrip())
            if "http://" in line:
                break
        else:
            code = os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1])
            print("\n".join(self.lines))
            sys.exit(code or 1)
        self.page: Served = visitor(line.split()[1])
        self.home, cookie = self.page.enter()
        self.headers = {"Cookie": cookie, "Origin": f"http://127.0.0.1:{self.page.port}"}
        self.news = self.asked("list")["news"]

    def asked(self, path: str) -> dict[str, Any]:
        """What the page shows."""
        status, _, content = self.page.ask(f"{self.home}api/0/{path}", **self.headers)
        _check(status == 200, f"{path} is answered with {status}: {content[:300]!r}")
        found: dict[str, Any] = json.loads(content)
        return found

    def does(self, action: Action) -> str:
        """Post it, as the page does; what is said where it is refused."""
        since = {"since": self.news["version"], "epoch": self.news["epoch"]}
        body = json.dumps({**action.body, **since}).encode()
        path = f"{self.home}api/0/{action.verb}"
        status, _, content = self.page.ask(path, "POST", body, **self.headers)
        _check(status in (200, 400), f"a decision is answered with {status}: {content[:300]!r}")
        if status == 400:
            return str(json.loads(content)["problem"])
        self.news = json.loads(content)
        return ""

    def end(self) -> None:
        """Ctrl-C; it has to end well, and say where the decisions are."""
        os.kill(self.pid, signal.SIGINT)
        self.lines += self._said.read().splitlines()
        code = os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1])
        said = "\n".join(self.lines)
        _check(code == 0 and "Decisions  " in said, f"the server ended with {code}: {said}")


class ReviewTarget(Target):
    """`feddiv review`: server and page are killed together, then an expert goes on.

    Decisions that the page was told to be saved have to be shown again; where the disk is full,
    they are refused, what was there stays, and they are taken once there is room.
    """

    notes: Path  # what was told to be saved, a file for each folder, on a disk of its own
    expert: Expert

    @contextmanager
    def ready(self) -> Iterator[None]:
        """Everything is imported, there is a place for notes, and an expert."""
        with TemporaryDirectory() as folder:
            self.notes = Path(folder)
            site = self.notes / "site"
            self.prepare(site)
            [listed] = reviewable(site)
            labels = listed.open()
            self.expert = Expert(labels.names, labels.given.tolist())
            with served(site) as page:
                page.enter()
            yield

    def prepare(self, folder: Path) -> None:
        """A site that was audited. Names are long, so that the file is more than a block or two."""
        self._note(folder).unlink(missing_ok=True)
        audited(folder, [f"{'ward/' * 15}{number:04}.png" for number in range(SAMPLES)])

    def job(self, folder: Path) -> Job:
        """Start the server, look at what it shows, go on until all is decided."""

        def review() -> None:
            limit = resource.getrlimit(resource.RLIMIT_FSIZE)[0]
            unlimited = (resource.RLIM_INFINITY, resource.RLIM_INFINITY)
            resource.setrlimit(resource.RLIMIT_FSIZE, unlimited)  # the server's disk is full
            file, told = folder / "corrections.csv", self._told(folder)[0]
            torn = read(file).notes if file.exists() else ()
            server = Server(folder, limit)
            try:
                for note in torn:
                    told_so = any(note in line for line in server.lines)
                    _check(told_so, f"it is not told that {note}")
                self._check_kept(folder, server, told)
                refusal = self._go_on(folder, server)
            except BaseException:  # whoever has found a fault leaves no server behind
                os.kill(server.pid, signal.SIGKILL)
                raise
            server.end()
            if refusal:
                print(refusal)
                sys.exit(2)

        return review

    def _go_on(self, folder: Path, server: Server) -> str:
        """Decide until all is decided, or once after there was no room: what was said then."""
        file = folder / "corrections.csv"
        with self._note(folder).open("ab", buffering=0) as notes:
            done = sum(end <= server.news["version"] for end in self.expert.ends) - 1
            notes.write(_line(done, file))
            for number in range(done, len(self.expert.actions)):
                action = self.expert.actions[number]
                if refusal := server.does(action):
                    self._check_refused(folder, server, refusal)
                    _make_room(folder, server)
                    again = server.does(action)
                    _check(not again, f"there is room again, and yet: {again}")
                count = self.expert.ends[number + 1]
                _check(server.news["version"] == count, f"{count} rows should be kept")
                notes.write(_line(number + 1, file))
                if refusal:
                    return refusal
        return ""

    def _check_kept(self, folder: Path, server: Server, told: int) -> None:
        """All that was told to be saved is there, and at most some of what came next."""
        count, ends = server.news["version"], self.expert.ends
        most = ends[min(told + 1, len(ends) - 1)]
        _check(
            ends[told] <= count <= most,
            f"{ends[told]} rows were told to be saved, one more action makes {most}; {count} are",
        )
        self._check_shown(folder, server.news, count)

    def _check_shown(self, folder: Path, news: dict[str, Any], count: int) -> None:
        file = folder / "corrections.csv"
        rows = _rows(file) if file.exists() else []
        _check(rows == self.expert.rows[:count], "the file has other rows than were decided")
        states = {place: state for place, state in news["states"].items() if state is not None}
        _check(states == self.expert.states(count), "the page shows other states than the file")

    def _check_refused(self, folder: Path, server: Server, refusal: str) -> None:
        """In one clear line; what was there stays, and nothing came to it."""
        clear = "corrections.csv: cannot be written" in refusal and "not saved" in refusal
        _check(clear and len(refusal.splitlines()) == 1, f"it is not said clearly: {refusal}")
        self._check_shown(folder, server.asked("list")["news"], server.news["version"])

    def _note(self, folder: Path) -> Path:
        return self.notes / f"{folder.parent.name} {folder.name}"

    def _told(self, folder: Path) -> tuple[int, int]:
        """How many actions were told to be saved, and how long the file was then."""
        note = self._note(folder)
        lines = note.read_text().splitlines() if note.exists() else []
        actions, size = map(int, lines[-1].split()) if lines else (0, 0)
        return actions, size

    def signs(self, folder: Path) -> object:
        """The notes, which get a line when the page is open."""
        note = self._note(folder)
        return note.stat().st_size if note.exists() else 0

    def result(self, folder: Path) -> Fingerprint:
        """Decisions but for their times, the audit, and which files there are."""
        labels = hashlib.sha256((folder / "labels.csv").read_bytes()).hexdigest()
        return {
            "files": " ".join(sorted(file.name for file in folder.rglob("*"))),
            "labels.csv": labels,
            "decisions": json.dumps(_rows(folder / "corrections.csv")),
        }

    def tear(self, folder: Path, rng: Random) -> None:
        """Cut what was not told to be saved at a random byte, or add the beginning of a row.

        Every other time zeros are in its place, as some file systems leave them.
        """
        file, (actions, kept) = folder / "corrections.csv", self._told(folder)
        if not file.exists():
            return
        size = file.stat().st_size
        if size > kept:
            cut = rng.randrange(kept, size)
            os.truncate(file, cut)
            blank = size - cut
        elif not size:
            return
        else:
            kept_rows = self.expert.ends[actions]
            sample, kind, label = self.expert.rows[min(kept_rows, len(self.expert.rows) - 1)]
            line = f"{sample},cat,{kind},{label},anna,2026-01-01T00:00:00.000000Z".encode()
            torn = line[: rng.randrange(1, len(line))]
            with file.open("ab") as opened:
                opened.write(torn)
            blank = rng.randrange(1, 200)
        if rng.random() < 0.5:
            os.truncate(file, file.stat().st_size + blank)  # grows, by zeros


def _rows(file: Path) -> list[Row]:
    return [(each.sample, each.decision.value, each.label) for each in read(file).decisions]


def _line(actions: int, file: Path) -> bytes:
    return f"{actions} {file.stat().st_size if file.exists() else 0}\n".encode()


def _make_room(folder: Path, server: Server) -> None:
    """On the disk, or for the server alone."""
    if os.path.ismount(folder.parent):
        resize(folder.parent, AMPLE)
    unlimited = (resource.RLIM_INFINITY, resource.RLIM_INFINITY)
    resource.prlimit(server.pid, resource.RLIMIT_FSIZE, unlimited)


def _check(holds: bool, problem: str) -> None:
    """End as one who has found a fault, also where a full disk was to be told."""
    if not holds:
        raise AssertionError(problem)
