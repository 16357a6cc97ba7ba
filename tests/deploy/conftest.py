"""Real processes that import the package under test, wherever they are started."""

import os
from pathlib import Path

import pytest

import feddiv


@pytest.fixture
def environment() -> dict[str, str]:
    """This process's environment, with the package's own place first."""
    place = str(Path(feddiv.__file__).parents[1])
    return os.environ | {
        "PYTHONPATH": os.pathsep.join(filter(None, [place, os.environ.get("PYTHONPATH")]))
    }
