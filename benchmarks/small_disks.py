"""Disks that can be full: a tmpfs of any size, where this process may mount one."""

import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

AMPLE = 1 << 30  # bytes of a disk that is not full


def resize(disk: Path, size: int) -> None:
    """Give a tmpfs another size."""
    subprocess.run(["mount", "-o", f"remount,size={size}", str(disk)], check=True)


@contextmanager
def disk(place: Path, *, mounted: bool) -> Iterator[Path]:
    """A folder that is a file system of its own, if that is wanted."""
    place.mkdir()
    if not mounted:
        yield place
        return
    size = f"size={AMPLE}"
    subprocess.run(["mount", "-t", "tmpfs", "-o", size, "tmpfs", str(place)], check=True)
    try:
        yield place
    finally:
        subprocess.run(["umount", str(place)], check=True)


def can_mount() -> bool:
    """Whether this process may mount."""
    with tempfile.TemporaryDirectory() as folder:
        mount = ["mount", "-t", "tmpfs", "-o", "size=4096", "tmpfs", folder]
        if subprocess.run(mount, check=False, capture_output=True).returncode:
            return False
        subprocess.run(["umount", folder], check=True)
        return True
