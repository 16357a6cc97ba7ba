"""Benchmarks are scripts that import each other by name, as they do when they are run."""

import sys

from tests.docs.pages import ROOT

sys.path.append(str(ROOT / "benchmarks"))
