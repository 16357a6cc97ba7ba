"""Room on disks."""

import shutil
from pathlib import Path


def free_bytes(folder: Path) -> int:
    """What is free where this folder is, or will be."""
    there = next(path for path in (folder, *folder.parents) if path.exists())
    return shutil.disk_usage(there).free


def in_bytes(count: int) -> str:
    """As people read it."""
    return f"{count / 1e9:.1f} GB" if count >= 1e9 else f"{count / 1e6:.1f} MB"
