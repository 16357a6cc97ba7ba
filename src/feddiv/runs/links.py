"""Whether a run's folder holds files and folders of its own, and nothing that leads elsewhere.

A folder that came from somebody else may hold links: writing to one, or cutting a journal back,
would change a file outside. Pipes and devices would be waited for.
"""

import os
import stat
from collections.abc import Iterator
from pathlib import Path

from feddiv.core.errors import UserError

FOLDERS = ("checkpoint", "nets", "against", "tensorboard")  # in which a run writes
# In which simulated sites do, in folders of any names, and where clients' label audits are.
DEEP = ("sites", "clients")


def check_own_files(path: Path, appended: tuple[str, ...]) -> None:
    """Refuse, before anything is written, a run's folder with links, pipes or devices in it.

    Files that are `appended` to may have no second name either; others are replaced as a whole.
    The folder itself may be a link: the user named it.
    """
    try:
        for entry in _entries(path):
            mode = entry.stat(follow_symlinks=False).st_mode
            if stat.S_ISLNK(mode):
                raise UserError(
                    f"{entry.path}: is a link, and a run writes to no file elsewhere; put what it "
                    "leads to in its place"
                )
            if not (stat.S_ISREG(mode) or stat.S_ISDIR(mode)):
                raise UserError(f"{entry.path}: is a pipe or a device; a run's folder holds files")
            if entry.name in appended and os.stat(entry.path).st_nlink > 1:
                raise UserError(
                    f"{entry.path}: has a second name somewhere (a hard link), where it would be "
                    "changed too; put a copy in its place"
                )
    except OSError as error:
        raise UserError(f"{path}: cannot be read ({error.strerror or error})") from None


def _entries(path: Path) -> Iterator[os.DirEntry[str]]:
    """What is in a run's folder, and in those of its folders that it writes in.

    In `against` every folder is a run's own again; of `sites` and `clients` everything below
    counts. A folder is looked into after it was handed out, so that no link to one is followed.
    """
    folders = [(path, False)]
    while folders:
        place, below = folders.pop()
        with os.scandir(place) as found:
            entries = sorted(found, key=lambda entry: entry.name)
        for entry in entries:
            yield entry
            inner = below or entry.name in DEEP
            written = inner or entry.name in FOLDERS or place.name == "against"
            if written and entry.is_dir(follow_symlinks=False):
                folders.append((Path(entry.path), inner))
