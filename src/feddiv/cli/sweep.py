"""`feddiv sweep`: methods × settings × seeds."""

import signal
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from feddiv.cli.arguments import examples
from feddiv.core.given_files import at_home
from feddiv.core.terminal import brief, shown

if TYPE_CHECKING:
    from feddiv.tables.sweep import Swept
    from feddiv.tables.sweep_file import Sweep

Jobs = Annotated[
    int | None,
    typer.Option(
        "--jobs",
        min=1,
        max=4096,
        help="Runs at the same time, each on one core.",
        show_default="one per core",
    ),
]
DryRun = Annotated[
    bool, typer.Option("--dry-run", help="Print the plan and the time it takes; run nothing.")
]
Ray = Annotated[
    str | None,
    typer.Option(
        "--ray",
        metavar="ADDRESS",
        help="Run on this Ray cluster ('auto': the one that is there); --out is on storage that "
        "all its machines share.",
        show_default=False,
    ),
]
Quietly = Annotated[bool, typer.Option("--quiet", "-q", help="No progress.")]
EXAMPLES = examples(
    "feddiv sweep mine.toml --dry-run",
    "feddiv sweep mine.toml --jobs 2",
    "feddiv sweep mine.toml --ray auto --out /shared/mine",
)


def sweep(
    file: Annotated[
        Path,
        typer.Argument(metavar="FILE.toml", help="Settings, methods and seeds (docs/sweeps.md)."),
    ],
    out: Annotated[
        Path | None,
        typer.Option(
            metavar="DIR", help="The sweep's folder; without it, sweeps/NAME of the file's name."
        ),
    ] = None,
    jobs: Jobs = None,
    dry_run: DryRun = False,
    ray: Ray = None,
    quiet: Quietly = False,
) -> None:
    """Run methods × settings × seeds; what is finished is never run again.

    A sweep that was stopped goes on when it is started again. Where a run fails, the others go on,
    and the exit code is 1.
    """
    from feddiv.tables.sweep_file import read_sweep

    swept = run_sweep(
        read_sweep(at_home(file)),
        out=out,
        jobs=jobs,
        dry_run=dry_run,
        ray=ray,
        quiet=quiet,
        again=f"feddiv sweep {file}",
    )
    if not dry_run:
        typer.echo(f"Rows       {swept.file}")
    list_failures(swept)


def run_sweep(
    given: "Sweep",
    *,
    out: Path | None,
    jobs: int | None,
    dry_run: bool,
    ray: str | None,
    quiet: bool,
    again: str,
) -> "Swept":
    """Run it with progress, or print its plan."""
    from feddiv.cli.sweep_progress import plan_lines, sweep_progress
    from feddiv.core.processes import usable_cores
    from feddiv.tables.sweep import sweep as run

    if dry_run:
        planned = run(given, out=out, jobs=jobs, dry_run=True)
        room = min(jobs or usable_cores(), usable_cores())
        for line in plan_lines(planned.plan, planned.folder, room):
            typer.echo(line)
        for job in planned.plan.left:
            typer.echo(f"  {shown(job.command)}")
        return planned
    with sweep_progress(quiet=quiet) as watcher:
        try:
            swept = run(given, out=out, jobs=jobs, ray=ray, watcher=watcher)
        except KeyboardInterrupt as stop:
            watcher.close()
            typer.echo(
                f"feddiv: stopped; runs under way keep their checkpoints; go on with: {again}",
                err=True,
            )
            raise typer.Exit(128 + getattr(stop, "signal", signal.SIGINT)) from None
    return swept


def list_failures(swept: "Swept") -> None:
    """Say which runs failed, if any, and end the command with code 1."""
    if not swept.failed:
        return
    typer.echo(f"feddiv: {len(swept.failed)} of the runs failed:", err=True)
    for job, reason in swept.failed.items():
        typer.echo(f"  {shown(brief(f'{job.title}: {reason}'))}", err=True)
    raise typer.Exit(1)
