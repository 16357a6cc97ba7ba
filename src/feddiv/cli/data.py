"""`feddiv data …`: fetch published data sets, verify them, look at who holds what."""

import signal
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from feddiv.cli.arguments import What, examples, split_arguments
from feddiv.cli.completion import complete_benchmark
from feddiv.core.errors import UserError

if TYPE_CHECKING:
    from feddiv.data.published.benchmarks import Benchmark

data = typer.Typer(name="data", help="Fetch, verify and look at data.")


@data.callback(invoke_without_command=True)
def _help(context: typer.Context) -> None:
    if context.invoked_subcommand is None:
        typer.echo(context.get_help())


@data.command(
    epilog=examples(
        "feddiv data get cifar10", "feddiv data get cifar10 --url https://example.org/mirror/"
    )
)
def get(
    name: Annotated[
        str,
        typer.Argument(
            metavar="NAME",
            help="Such as cifar10, or cifar-n.",
            autocompletion=complete_benchmark,
        ),
    ],
    url: Annotated[
        str | None,
        typer.Option(
            help="Another place with the same file, or with a folder of the same files; "
            "checksums stay the published ones."
        ),
    ] = None,
) -> None:
    """Download a published data set into the cache, where every run finds it."""
    from feddiv.cli.download_progress import transfer
    from feddiv.data.published.get import get as get_benchmark

    benchmark = _benchmark(name)
    with transfer() as progress:
        try:
            got = get_benchmark(benchmark, url, progress)
        except KeyboardInterrupt as stop:
            progress.close()
            typer.echo(
                f"feddiv: stopped; what has come is kept, go on with: feddiv data get {name}",
                err=True,
            )
            raise typer.Exit(128 + getattr(stop, "signal", signal.SIGINT)) from None
    state = "downloaded and verified" if got.fetched else "already there, verified"
    typer.echo(f"{name}: {state}: {got.folder}")


@data.command(epilog=examples("feddiv data check", "feddiv data check cifar10"))
def check(
    name: Annotated[
        str | None,
        typer.Argument(
            metavar="[NAME]",
            help="Only this one.",
            show_default=False,
            autocompletion=complete_benchmark,
        ),
    ] = None,
) -> None:
    """Print which published data sets are present, whether they are whole, and where."""
    from feddiv.cli.data_copies import print_copies
    from feddiv.data.published.benchmarks import CATALOGUE
    from feddiv.data.published.integrity import copies

    wanted = list(CATALOGUE.values()) if name is None else [_benchmark(name)]
    found = {benchmark: copies(benchmark) for benchmark in wanted}
    print_copies(found)
    damaged = [copy for each in found.values() for copy in each if not copy.whole]
    if damaged:
        named = "; ".join(
            f"{copy.benchmark.name} in {copy.folder} ({', '.join(copy.problems)})"
            for copy in damaged
        )
        raise UserError(f"damaged: {named}")
    if name is not None and not found[wanted[0]]:
        raise UserError(f"{name}: not there; run `feddiv data get {name}`")


@data.command(
    epilog=examples(
        "feddiv data describe digits-noniid",
        "feddiv data describe quickstart noise.rho=0.4 --out draw.png",
    )
)
def describe(
    what: What = None,
    out: Annotated[
        Path | None,
        typer.Option(metavar="PICTURE.png", help="Draw it too: clients by classes, and noise."),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON instead of a table.")] = False,
) -> None:
    """Print who holds what under which labels, without training."""
    from feddiv.cli.describe import describe as describe_draw

    describe_draw(*split_arguments(what), out, as_json=as_json)


def _benchmark(name: str) -> "Benchmark":
    from feddiv.data.published.benchmarks import CATALOGUE

    if name not in CATALOGUE:
        raise UserError(f"{name!r} is no published data set; allowed are {', '.join(CATALOGUE)}")
    return CATALOGUE[name]
