"""`sweep`, `table` and `reproduce`: many runs, and what they come to."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from feddiv.core.given_files import at_home

if TYPE_CHECKING:
    from feddiv.tables.reproduce import Reproduced
    from feddiv.tables.sweep import SweepWatcher, Swept
    from feddiv.tables.verb import Format


def sweep(
    sweep: "str | Path | Mapping[str, Any]",
    *,
    out: str | Path | None = None,
    jobs: int | None = None,
    ray: str | None = None,
    dry_run: bool = False,
    watcher: "SweepWatcher | None" = None,
) -> "Swept":
    """Run methods × settings × seeds of a sweep's file, or of a tree with the same keys.

    What is finished is not repeated, what was stopped goes on from its checkpoint; a run that fails
    is in `failed` of what comes back, and the others go on. Without `out` the sweep's folder is
    `sweeps/NAME`. `jobs` are runs at the same time, by default one per core; `ray` is the address
    of a Ray cluster. With `dry_run` nothing is run: `plan` says what is left.

    Examples:
        >>> import feddiv
        >>> plan = feddiv.sweep(
        ...     {"settings": ["quickstart"], "methods": ["fedavg", "feddiv"], "seeds": [0, 1]},
        ...     dry_run=True,
        ... ).plan
        >>> len(plan.left), plan.left[0].title
        (4, 'quickstart, fedavg, seed 0')
    """
    from feddiv.tables.sweep import sweep as run_sweep

    return run_sweep(sweep, out=out, jobs=jobs, ray=ray, dry_run=dry_run, watcher=watcher)


def table(
    *places: str | Path,
    format: "Format" = "md",
    paper: bool = False,
    show: str = "all",
) -> str:
    """Make a table of runs: mean±std over seeds, the best in bold, as Markdown, CSV or LaTeX.

    `places` are folders of sweeps or of runs, and files of result rows. With `paper` the number
    that the paper has is beside ours. `show` is "all", one measure ("best", "last", "last ten",
    "filter F1") for methods × settings, or "seeds" for every seed by itself.
    """
    from feddiv.tables.verb import table_of

    return table_of(places, format, paper=paper, show=show)


def reproduce(
    study: str,
    scale: str = "tiny",
    *,
    methods: "Sequence[str] | None" = None,
    cells: "Sequence[str] | None" = None,
    seeds: str | None = None,
    out: str | Path | None = None,
    jobs: int | None = None,
    ray: str | None = None,
) -> "tuple[Swept, Reproduced]":
    """Make a table or figure of the paper again: "table1" to "table5", "figure-filter", ….

    `scale` is "tiny" (digits), "laptop", "features" or "paper". `seeds` is "3" for so many of the
    scale's seeds, or "30,31" or "30-32" for these, `cells` names some of the table, as
    "cifar10-iid-0.8-0.5". Gives the sweep, and what was written of it: the table as `text`, the
    `page` of figures.
    """
    from feddiv.tables.reproduce import reproduce as made_again

    folder = None if out is None else at_home(out)
    return made_again(
        study, scale, methods=methods, cells=cells, seeds=seeds, out=folder, jobs=jobs, ray=ray
    )
