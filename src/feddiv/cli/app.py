"""The commands. What needs torch is imported inside them, so that `--help` is quick."""

import signal
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import click
import typer

import feddiv
from feddiv.cli.arguments import Allow, OneOf, What, examples, split_arguments
from feddiv.cli.audit_words import audit
from feddiv.cli.data import data
from feddiv.cli.deploy import deploy
from feddiv.cli.reproduce import EXAMPLES as REPRODUCE_EXAMPLES
from feddiv.cli.reproduce import reproduce
from feddiv.cli.sweep import EXAMPLES as SWEEP_EXAMPLES
from feddiv.cli.sweep import sweep
from feddiv.cli.table import EXAMPLES as TABLE_EXAMPLES
from feddiv.cli.table import table
from feddiv.core import interrupts
from feddiv.core.deferred import defer
from feddiv.core.errors import Diverged, TooFew, UserError, WorkerLost
from feddiv.core.given_files import at_home
from feddiv.core.terminal import brief, shown

if TYPE_CHECKING:
    from feddiv.cli.progress import Quiet
    from feddiv.runs.run import Run

app = typer.Typer(
    name="feddiv",
    help="Federated learning when labels can't be trusted.",
    epilog=examples(
        "feddiv run",
        "feddiv list presets",
        "feddiv run data.source=folder data.path=photos",
        "feddiv run --help",
    ),
    pretty_exceptions_enable=False,
)

app.add_typer(audit)
app.add_typer(data)
app.add_typer(deploy)
app.command(epilog=SWEEP_EXAMPLES)(sweep)
app.command(epilog=TABLE_EXAMPLES)(table)
app.command(epilog=REPRODUCE_EXAMPLES)(reproduce)

MOST_WORKERS = 1024
Workers = Annotated[
    int | None,
    typer.Option(
        "--workers",
        min=0,
        max=MOST_WORKERS,
        help="Worker processes; 0: none but this one. The result is the same.",
        show_default="one per core",
    ),
]
KINDS = ("methods", "datasets", "partitions", "noise", "models", "encoders", "presets")


def main(arguments: Sequence[str] | None = None) -> None:
    """Run a command; a user's error is one line on stderr and exit code 2."""
    defer("torch")
    try:
        with interrupts.handled(), interrupts.allowed():
            code = app(args=arguments, prog_name="feddiv", standalone_mode=False)
    except (KeyboardInterrupt, click.Abort) as stop:  # click turns the one into the other
        typer.echo("feddiv: stopped", err=True)
        source = stop.__cause__ or stop.__context__ or stop
        number = getattr(stop, "signal", getattr(source, "signal", signal.SIGINT))
        raise SystemExit(128 + number) from None
    except UserError as error:
        _refuse(str(error))
    except OSError as error:  # a name that is too long, a folder without rights
        _refuse(f"{error.filename or ''}: {error.strerror or error}")
    except MemoryError:
        typer.echo("feddiv: out of memory", err=True)
        raise SystemExit(1) from None
    except click.ClickException as error:
        # typer asks whether another command was meant, and click 8.4 asks again as it formats.
        asked = "Did you mean" in error.message
        said = error.message if asked else error.format_message()
        _refuse(f"{said} (feddiv --help tells more)")
    raise SystemExit(code or 0)


def _say(line: str) -> None:
    typer.echo(f"feddiv: {shown(brief(line))}", err=True)


def _refuse(reason: str) -> None:
    typer.echo(f"feddiv: error: {brief(shown(' '.join(brief(reason, 10_000).split())))}", err=True)
    raise SystemExit(2)


@app.callback(invoke_without_command=True)
def _top(
    context: typer.Context,
    version: Annotated[bool, typer.Option("--version", help="Print the version.")] = False,
) -> None:
    if version:
        typer.echo(f"feddiv {feddiv.__version__}")
        raise typer.Exit
    if context.invoked_subcommand is None:
        typer.echo(context.get_help())


@app.command(
    epilog=examples(
        "feddiv run",
        "feddiv run quickstart noise.rho=0.4 seed=3 --out runs/first",
        "feddiv run quickstart method.name=feddiv-paper against=fedcorr",
        "feddiv run data.source=folder data.path=photos data.size=32",
    )
)
def run(
    what: What = None,
    out: Annotated[
        Path | None,
        typer.Option(help="Folder of the run; without it, a new one under runs/."),
    ] = None,
    workers: Workers = None,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="No progress.")] = False,
) -> None:
    """Train, compare on the same draw, and say where it all was written."""
    from feddiv.config.reading import load_experiment

    source, overrides = split_arguments(what)
    load_experiment(source, overrides)  # a slip of the pen is told before torch is loaded
    _watched(
        lambda watcher: feddiv.run(source, overrides, out=out, workers=workers, watcher=watcher),
        quiet=quiet,
    )


@app.command(
    epilog=examples(
        "feddiv resume runs/first",
        "feddiv resume runs/mine --allow mypackage.methods:Mine",
    )
)
def resume(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="The folder of a run.")],
    changes: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[KEY=VALUE]...", help="rounds=60: more rounds than before.", show_default=False
        ),
    ] = None,
    allow: Allow = None,
    workers: Workers = None,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="No progress.")] = False,
) -> None:
    """Go on with a run that was stopped, with the same bits as if it never had been.

    With rounds=N, more than before, a finished run goes on too.
    """
    from feddiv.config.reading import load_experiment
    from feddiv.core.import_path import named_in

    config, allowed = at_home(folder) / "config.toml", allow or ()
    if changes and config.is_file():  # as in `run`
        with named_in(config, allowed):
            load_experiment(config, changes)
    _watched(
        lambda watcher: feddiv.resume(
            folder, changes or (), workers=workers, watcher=watcher, allow=allowed
        ),
        quiet=quiet,
    )


def _watched(job: "Callable[[Quiet], Run]", *, quiet: bool) -> None:
    """Run with progress; say in one line how it ended if it did not end well."""
    from feddiv.cli.progress import progress
    from feddiv.cli.result_table import print_summary

    with progress(quiet=quiet) as watcher:
        try:
            result = job(watcher)
        except KeyboardInterrupt as stop:
            watcher.close()
            typer.echo(f"feddiv: stopped; {watcher.whereabouts()}", err=True)
            raise typer.Exit(128 + getattr(stop, "signal", signal.SIGINT)) from None
        except Diverged as reason:
            watcher.close()
            typer.echo(f"feddiv: training diverged: {reason}; {watcher.remains()}", err=True)
            raise typer.Exit(1) from None
        except (WorkerLost, TooFew, OSError) as reason:
            watcher.close()
            if isinstance(reason, OSError) and not watcher.begun:
                raise
            typer.echo(f"feddiv: {brief(str(reason))}; {watcher.whereabouts()}", err=True)
            raise typer.Exit(1) from None
    print_summary(result)


@app.command(
    epilog=examples(
        "feddiv report runs/first",
        "feddiv report runs/first runs/second --out both.html",
        "feddiv report runs/first --figures figures",
    )
)
def report(
    folders: Annotated[
        list[Path], typer.Argument(metavar="DIR...", help="Folders of runs, also unfinished ones.")
    ],
    out: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE.html",
            help="The page; without it, report.html in the run's folder, for several runs in this.",
        ),
    ] = None,
    figures: Annotated[
        Path | None,
        typer.Option(metavar="DIR", help="Write the figures for papers too, as SVG and PDF."),
    ] = None,
) -> None:
    """Make one HTML page that shows whether a run is good and why; several are overlaid."""
    typer.echo(f"Report     {feddiv.report(*folders, out=out, figures=figures)}")
    if figures is not None:
        typer.echo(f"Figures    {figures}")


@app.command(
    epilog=examples("feddiv show quickstart", "feddiv show own data.source=npz data.path=mine.npz")
)
def show(what: What = None) -> None:
    """Print the resolved experiment as TOML, without running it."""
    from feddiv.config.experiment import to_toml
    from feddiv.config.reading import load_experiment

    typer.echo(to_toml(load_experiment(*split_arguments(what), note=_say)), nl=False)


@app.command("list", epilog=examples("feddiv list", "feddiv list methods"))
def list_(
    kind: Annotated[
        str | None,
        typer.Argument(click_type=OneOf(KINDS), help="Only these.", show_default=False),
    ] = None,
    name: Annotated[
        str | None,
        typer.Argument(help="Of methods only this one: a name or package.module:Class."),
    ] = None,
) -> None:
    """Print what there is to choose from."""
    from feddiv.cli.choices import print_lists

    print_lists(kind, name)


@app.command(
    epilog=examples(
        "feddiv predict runs/first --data new-photos",
        "feddiv predict runs/first scan1.png scan2.png --out labels.csv",
        "feddiv predict runs/first --data measurements.csv",
    )
)
def predict(
    model: Annotated[
        Path, typer.Argument(metavar="DIR", help="A run's folder, or a .safetensors file.")
    ],
    more: Annotated[
        list[Path] | None,
        typer.Argument(metavar="[DATA]...", help="The same as --data.", show_default=False),
    ] = None,
    data: Annotated[
        list[Path] | None,
        typer.Option(
            help="Images or texts, a folder of them, a table (.csv, .parquet) as it was trained "
            "on, an .npz file (array x) or an .npy file; may be given more than once.",
            show_default=False,
        ),
    ] = None,
    out: Annotated[
        Path | None, typer.Option(metavar="FILE.csv", help="Where to write; without it, stdout.")
    ] = None,
    encoder: Annotated[
        str | None,
        typer.Option(
            metavar="FILE.onnx",
            help="Where the encoder is now, of a model that was trained on features.",
            show_default=False,
        ),
    ] = None,
    allow: Allow = None,
) -> None:
    """Use a trained model: sample, predicted_label and confidence as CSV."""
    from feddiv.cli.prediction import write_predictions

    paths = [at_home(path) for path in (*(data or ()), *(more or ()))]
    if not paths:
        raise UserError(
            "--data is missing: name images or texts, a folder of them, a table or an array"
        )
    loaded = feddiv.load(model, allow=allow or (), encoder=encoder)
    write_predictions(loaded, paths, out, _say)


@app.command(
    epilog=examples(
        "feddiv review runs/first",
        "feddiv review runs/first --client 3 --reviewer anna",
        "feddiv review site --data photos --port 8765 --no-browser",
    )
)
def review(
    folder: Annotated[
        Path,
        typer.Argument(
            metavar="DIR", help="The folder of a run, of one of its clients, or of a site."
        ),
    ],
    client: Annotated[
        int | None,
        typer.Option(
            min=0, metavar="N", help="Of a run only this client.", show_default="the page asks"
        ),
    ] = None,
    data: Annotated[
        Path | None,
        typer.Option(
            help="Where a site's samples are now: class folders, a table or an .npz file.",
            show_default="where they were",
        ),
    ] = None,
    images: Annotated[
        list[Path] | None,
        typer.Option(
            metavar="FOLDER",
            help="A folder outside of the data in which its images may lie; others are not shown. "
            "May be given more than once.",
            show_default=False,
        ),
    ] = None,
    reviewer: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="Who decides.", show_default="the account's name"),
    ] = None,
    port: Annotated[
        int,
        typer.Option(min=0, max=65535, help="Where the page is.", show_default="any that is free"),
    ] = 0,
    no_browser: Annotated[
        bool, typer.Option("--no-browser", help="Print the address only.")
    ] = False,
    allow: Allow = None,
) -> None:
    """Go through the labels of a site, the worst first, on a page of this machine.

    What is decided is kept in corrections.csv in the site's folder.
    """
    from feddiv.cli.review import review_labels

    review_labels(
        at_home(folder),
        client,
        None if data is None else at_home(data),
        [at_home(each) for each in images or ()],
        reviewer,
        port,
        not no_browser,
        allow or (),
    )
