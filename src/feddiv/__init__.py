"""Federated learning when labels can't be trusted.

The verbs of the command line: `run` trains and compares, `resume` goes on after a stop, `sweep`
runs methods × settings × seeds, `table` sums them up, `reproduce` makes the paper's tables again,
`report` makes a page of runs, `load` gives a trained model, `audit` says which labels look wrong,
`NoiseFilter` finds wrong labels from per-client scores alone.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from feddiv.core.errors import Note, UserError
from feddiv.verbs.look import audit, load, report
from feddiv.verbs.many_runs import reproduce, sweep, table
from feddiv.verbs.train import resume, run

if TYPE_CHECKING:
    from feddiv.audits.label_audit import LabelAudits
    from feddiv.config.experiment import Experiment
    from feddiv.config.reading import load_experiment
    from feddiv.learning.score import label_scores
    from feddiv.methods.feddiv.filter import FilterOptions, NoiseFilter
    from feddiv.runs.model import TrainedModel
    from feddiv.runs.run import Run
    from feddiv.runs.start_and_resume import Watcher
    from feddiv.tables.sweep import SweepWatcher, Swept

    __version__: str

__all__ = [
    "Experiment",
    "FilterOptions",
    "LabelAudits",
    "NoiseFilter",
    "Note",
    "Run",
    "SweepWatcher",
    "Swept",
    "TrainedModel",
    "UserError",
    "Watcher",
    "__version__",
    "audit",
    "label_scores",
    "load",
    "load_experiment",
    "report",
    "reproduce",
    "resume",
    "run",
    "sweep",
    "table",
]

# Imported when first asked for: they bring torch, which takes seconds.
_HOMES = {
    "Experiment": "feddiv.config.experiment",
    "load_experiment": "feddiv.config.reading",
    "FilterOptions": "feddiv.methods.feddiv.filter",
    "NoiseFilter": "feddiv.methods.feddiv.filter",
    "label_scores": "feddiv.learning.score",
    "LabelAudits": "feddiv.audits.label_audit",
    "Run": "feddiv.runs.run",
    "SweepWatcher": "feddiv.tables.sweep",
    "Swept": "feddiv.tables.sweep",
    "TrainedModel": "feddiv.runs.model",
    "Watcher": "feddiv.runs.start_and_resume",
}


def __getattr__(name: str) -> Any:
    if name == "__version__":
        from importlib import metadata

        return metadata.version("feddiv")
    if name not in _HOMES:
        raise AttributeError(f"module 'feddiv' has no attribute {name!r}")
    return getattr(import_module(_HOMES[name]), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
