"""`feddiv audit`: the list of doubtful labels, and what is done with decisions about them."""

from pathlib import Path
from typing import Annotated

import click
import typer
from typer.core import TyperGroup

from feddiv.cli.arguments import Allow, OneOf, examples
from feddiv.core.errors import UserError
from feddiv.core.given_files import at_home

TOOLS = ("label-studio", "cvat", "csv")


class WithUsual(TyperGroup):
    """Commands of which one is meant where none is named: `feddiv audit DIR`."""

    usual = "labels"

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """What is no command is an argument of the usual one, also `--help`."""
        return super().parse_args(ctx, self.spelt_out(args))

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """The usual command has no name of its own in its usage."""
        name, command, rest = super().resolve_command(ctx, args)
        return ("" if name == self.usual else name), command, rest

    def spelt_out(self, args: list[str]) -> list[str]:
        """The words with the name of a command before them."""
        named = bool(args) and args[0] in self.commands and args[0] != self.usual
        return list(args) if named else [self.usual, *args]


audit = typer.Typer(
    name="audit",
    cls=WithUsual,
    help="List the labels that look wrong; merge, export and import what is decided about them.",
)


@audit.command(
    "labels",
    hidden=True,
    epilog=examples(
        "feddiv audit runs/first",
        "feddiv audit runs/first --data new-photos",
        "feddiv audit --model runs/first --data north --data south",
        "feddiv audit --probabilities north.npz --probabilities south.csv",
    ),
)
def labels(
    run: Annotated[
        Path | None,
        typer.Argument(metavar="[DIR]", help="The folder of a run.", show_default=False),
    ] = None,
    data: Annotated[
        list[Path] | None,
        typer.Option(
            help="Labels that were not in the run: class folders, a table or an .npz file; may be "
            "given more than once, each is a site.",
            show_default=False,
        ),
    ] = None,
    model: Annotated[
        Path | None,
        typer.Option(
            help="Without training: a run's folder or a .safetensors file whose model judges "
            "--data; the sites exchange a filter alone.",
            show_default=False,
        ),
    ] = None,
    probabilities: Annotated[
        list[Path] | None,
        typer.Option(
            metavar="FILE",
            help="Without training: probabilities and labels in an .npz file or a table; may be "
            "given more than once, each is a site.",
            show_default=False,
        ),
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option(
            metavar="FOLDER",
            help="Where audits of no run go, a folder for each site; without it, audit/.",
            show_default=False,
        ),
    ] = None,
    allow: Allow = None,
) -> None:
    """List the labels that look wrong, the worst first, with a page for each site.

    For what is decided about them: feddiv audit merge, feddiv audit export, feddiv audit import.
    """
    from feddiv.cli.audit import audit_labels

    here = [None if path is None else at_home(path) for path in (run, model, out)]
    audit_labels(
        here[0],
        here[1],
        [at_home(path) for path in data or ()],
        [at_home(path) for path in probabilities or ()],
        here[2],
        allow or (),
    )


@audit.command(
    epilog=examples("feddiv audit merge ann.csv bob.csv --out corrections.csv"),
)
def merge(
    files: Annotated[
        list[Path], typer.Argument(metavar="FILE...", help="The files of two reviewers or more.")
    ],
    out: Annotated[
        Path,
        typer.Option(
            metavar="FILE.csv", help="Where the merged rows go; what it has already stays in it."
        ),
    ] = Path("corrections.csv"),
) -> None:
    """Merge corrections of several reviewers, with their agreement and their conflicts."""
    from feddiv.cli.decisions import print_merge

    if len(files) + out.exists() < 2:
        raise UserError("FILE: give the files of two reviewers or more")
    print_merge([at_home(path) for path in files], at_home(out))


@audit.command(
    epilog=examples(
        "feddiv audit export runs/first --to label-studio",
        "feddiv audit export runs/first/clients/0002 --to cvat --worst 200",
        "feddiv audit export site --to csv",
    )
)
def export(
    folder: Annotated[
        Path,
        typer.Argument(
            metavar="DIR", help="A run's folder, that of one of its clients, or a site's."
        ),
    ],
    to: Annotated[
        str, typer.Option("--to", click_type=OneOf(TOOLS), help="The tool that shall read it.")
    ],
    worst: Annotated[
        int | None,
        typer.Option(
            min=1,
            help="So many of the most doubtful labels of each site; without it, all that look "
            "wrong.",
            show_default=False,
        ),
    ] = None,
    prefix: Annotated[
        str | None,
        typer.Option(
            metavar="URL",
            help="Where the tool finds the samples' files; their names are put after it. Without "
            "it, images are taken along.",
            show_default=False,
        ),
    ] = None,
    allow: Allow = None,
) -> None:
    """Write doubtful labels for an annotation tool, into the folder of each site."""
    from feddiv.cli.decisions import print_export

    if prefix is not None and to == "cvat":
        raise UserError(f"--prefix {prefix}: CVAT's archive has the images in it; leave it out")
    print_export(at_home(folder), to, worst, prefix, allow or ())


@audit.command(
    "import",
    epilog=examples(
        "feddiv audit import runs/first/clients/0002 project-1.json --reviewer ann",
        "feddiv audit import site corrected.csv --reviewer ann --unchanged confirm",
    ),
)
def import_(
    folder: Annotated[
        Path, typer.Argument(metavar="DIR", help="The folder of a client or a site: labels.csv.")
    ],
    file: Annotated[
        Path,
        typer.Argument(
            metavar="FILE",
            help="Label Studio's JSON, a ZIP of CVAT in ImageNet's format, or a table.",
        ),
    ],
    reviewer: Annotated[
        str | None,
        typer.Option(help="Who decided, where the file does not say it.", show_default=False),
    ] = None,
    unchanged: Annotated[
        str,
        typer.Option(
            click_type=OneOf(("ignore", "confirm")),
            help="What an unchanged label means in files that do not say who looked at what (CVAT, "
            "tables): nothing, or that somebody found it right.",
        ),
    ] = "ignore",
) -> None:
    """Add what was decided in an annotation tool to the corrections.csv of a site."""
    from feddiv.cli.decisions import print_import

    print_import(at_home(folder), at_home(file), reviewer, confirm=unchanged == "confirm")
