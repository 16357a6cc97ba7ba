"""`feddiv deploy …`: set up many machines, or show it on one."""

import signal
from pathlib import Path
from typing import Annotated, Literal

import typer

from feddiv.cli.arguments import examples
from feddiv.deploy import DEMO_ROUNDS
from feddiv.flower import needs_flower

deploy = typer.Typer(name="deploy", help="Many machines: set them up, or try it on this one.")


@deploy.callback(invoke_without_command=True)
def _help(context: typer.Context) -> None:
    if context.invoked_subcommand is None:
        typer.echo(context.get_help())


@deploy.command(
    epilog=examples(
        "feddiv deploy init hospitals --sites north,south --address fl.example.org:8443",
        "feddiv deploy init hospitals --sites north,south --proxy",
    )
)
def init(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="A new folder.")],
    sites: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME,NAME,...",
            help="Names of the sites, between commas.",
            show_default="site-1,site-2,site-3",
        ),
    ] = None,
    address: Annotated[
        str,
        typer.Option(metavar="HOST:PORT", help="Where the sites reach the server."),
    ] = "127.0.0.1:8443",
    proxy: Annotated[
        bool,
        typer.Option(
            "--proxy", help="With nginx in front, so that nobody can call more than sites do."
        ),
    ] = False,
) -> None:
    """Write certificates, a key per site, the experiment and a start script per role."""
    from feddiv.deploy import site_names as names

    wanted = names.site_names(["site-1,site-2,site-3"] if sites is None else sites)
    where = names.address(address)
    needs_flower()
    from feddiv.deploy.deployment import init as write

    made = write(folder, wanted, where, where.inner if proxy else None)
    rows = [
        ("server/", f"stays at the server, which sites reach at {where}"),
        *((f"sites/{name}/", f"is carried to {name}") for name in made.sites),
        ("authority/", "is kept offline"),
    ]
    width = max(len(part) for part, _ in rows)
    typer.echo(f"Written to {folder}")
    for part, fate in rows:
        typer.echo(f"  {part:{width}}  {fate}")
    if not (made.proxied or where.on_this_machine_only):
        typer.echo(
            "Who reaches the port can start runs: use --proxy, or a firewall for all but sites."
        )
    typer.echo("Fill in server/experiment.toml next; README.md has the steps.")


@deploy.command(
    context_settings={"ignore_unknown_options": True},
    epilog=examples("feddiv deploy supernode --superlink fl.example.org:8443"),
)
def supernode(
    arguments: Annotated[
        list[str] | None,
        typer.Argument(metavar="[OPTION]...", help="Options of flower-supernode."),
    ] = None,
    port: Annotated[
        int, typer.Option(min=1, max=65535, help="A free port, for this machine only.")
    ] = 9094,
) -> None:
    """Run a site's SuperNode, with the app loaded once for all messages; supernode.sh calls it."""
    needs_flower()
    from feddiv.deploy.site_keeper import keep_site

    raise typer.Exit(keep_site(arguments or [], port))


@deploy.command(
    epilog=examples(
        "feddiv deploy demo",
        "feddiv deploy demo --rounds 4 --proxy",
        "feddiv deploy demo --data text",
    )
)
def demo(
    out: Annotated[
        Path | None, typer.Option(help="A new folder; without it, one under runs/.")
    ] = None,
    rounds: Annotated[
        int, typer.Option(min=2, max=1000, help="Rounds, the first of warm-up.")
    ] = DEMO_ROUNDS,
    proxy: Annotated[
        bool, typer.Option("--proxy", help="With nginx between the sites and the server.")
    ] = False,
    data: Annotated[
        Literal["images", "text"],
        typer.Option(help="What the sites have; text needs feddiv data get newsgroups."),
    ] = "images",
) -> None:
    """Run FedDiv between a server and three sites on this machine, over TLS, and stop them all."""
    needs_flower()
    from feddiv.deploy.demo import demo as show
    from feddiv.deploy.processes import Failed

    try:
        outcome = show(out, rounds, typer.echo, proxy=proxy, kind=data)
    except KeyboardInterrupt as stop:
        typer.echo("feddiv: stopped, the server and the sites too", err=True)
        raise typer.Exit(128 + getattr(stop, "signal", signal.SIGINT)) from None
    except (Failed, OSError) as reason:
        typer.echo(f"feddiv: {reason}", err=True)
        raise typer.Exit(1) from None
    typer.echo(f"Test accuracy {outcome.accuracy:.1%} after {outcome.seconds:.0f} s")
    for audit in outcome.audits:
        typer.echo(
            f"{audit.site.name}: {audit.flagged} labels doubted, among them {audit.found} of "
            f"{len(audit.site.wrong)} wrong ones: {audit.file}"
        )
    typer.echo(f"Run {outcome.run}")
