"""What a site has agreed to, on its disk: each run's config once and for good, and its epsilons.

The server names the run, the client's number and the config in every message. A site that believed
each anew could be asked the same thing under two configs, with two scales of the same noise, or as
many clients with an upload budget each. So the first visit of a run decides them.
"""

import hashlib
import os
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from feddiv.config.experiment import Experiment, to_toml
from feddiv.core.errors import UserError
from feddiv.core.files import settle
from feddiv.privacy.options import PrivacyOptions

AGREED, SPENT = "agreed", "epsilon-of-runs"
ENTERED = "entered"  # at the end of a line that is whole
# Sections that say how long the server waits and what it writes: no answer depends on them.
SERVERS_OWN = ("description", "federation", "checkpoint")


@dataclass(frozen=True)
class SiteLedger:
    """The runs that a site has taken part in; `folder` is the site's."""

    folder: Path

    def agree(self, run: str, client: int, experiment: Experiment) -> None:
        """Take part in this run as this client under this config, and never otherwise.

        More rounds are allowed: a finished run may go on.
        """
        file = self.folder / "runs" / run / AGREED
        if experiment.privacy.filter == "none" and not file.is_file():
            return
        file.parent.mkdir(parents=True, exist_ok=True)
        text = f"client {client}\nconfig {config_hash(experiment, 'rounds')}\n".encode()
        write_once(file, text)
        if file.read_bytes() != text:
            raise UserError(
                "privacy: the server asks once more, and otherwise: this site takes part in a run "
                "as one client and under one config"
            )

    def check_spent(self, run: str, options: PrivacyOptions, ceiling: float | None) -> None:
        """Refuse a run whose epsilon does not fit under the ceiling with those before it."""
        admitted, spent = self._admitted(ceiling)
        if options.filter != "dp" or ceiling is None or run in admitted:
            return
        if spent + options.epsilon > ceiling:
            raise UserError(
                f"privacy.epsilon={options.epsilon:g}: this site's runs have spent {spent:g} of "
                f"{ceiling:g} in all (largest-total-epsilon in its node config)"
            )

    def spend(self, run: str, options: PrivacyOptions, ceiling: float | None) -> None:
        """Enter a run's epsilon, whole and once, before its first noisy upload."""
        self.check_spent(run, options, ceiling)
        if options.filter != "dp" or run in self._admitted(ceiling)[0]:
            return
        append_line(self.folder / SPENT, f"{run} {options.epsilon!r} {ENTERED}")
        self.check_spent(run, options, ceiling)  # another run may have been entered meanwhile

    def _admitted(self, ceiling: float | None) -> tuple[set[str], float]:
        """Runs that fitted under the ceiling when they were entered, and their sum."""
        admitted, spent = set[str](), 0.0
        for line in lines_of(self.folder / SPENT):
            words = line.split(" ")
            if len(words) != 3 or words[2] != ENTERED:  # torn: nothing was uploaded for it
                continue
            run, more = words[0], float(words[1])
            if run not in admitted and (ceiling is None or spent + more <= ceiling):
                admitted.add(run)
                spent += more
        return admitted, spent


def config_hash(experiment: Experiment, *but: str) -> str:
    """Of all that an answer of a site may depend on."""
    update = {name: Experiment.model_fields[name].get_default() for name in (*SERVERS_OWN, *but)}
    return hashlib.sha256(to_toml(experiment.model_copy(update=update)).encode()).hexdigest()


def lines_of(file: Path) -> list[str]:
    """The lines of a journal, none where there is no file."""
    return file.read_text(encoding="utf-8").splitlines() if file.is_file() else []


def append_line(file: Path, line: str) -> None:
    """Add a line that is on the disk when this returns; a torn one before it stays by itself."""
    file.parent.mkdir(parents=True, exist_ok=True)
    before = file.read_bytes() if file.is_file() else b""
    torn = bool(before) and not before.endswith(b"\n")
    with file.open("a", encoding="utf-8") as journal:
        journal.write(("\n" if torn else "") + line + "\n")
    settle(file)


def write_once(file: Path, content: bytes) -> None:
    """Write a file that only its owner may read, unless there is one already."""
    temporary = file.with_name(f".{file.name}-{os.getpid()}-{os.urandom(4).hex()}")
    descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    try:
        with os.fdopen(descriptor, "wb") as opened:
            opened.write(content)
            opened.flush()
            os.fsync(opened.fileno())
        with suppress(FileExistsError):
            os.link(temporary, file)
    finally:
        temporary.unlink()
    settle(file.parent)
