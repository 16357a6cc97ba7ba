"""`feddiv review`: the local page on which an expert goes through a site's labels."""

import getpass
import importlib.util
from collections.abc import Collection
from pathlib import Path

import typer

from feddiv.cli.progress import progress
from feddiv.core.errors import UserError
from feddiv.core.terminal import NAME, shown

NEEDED = ("starlette", "uvicorn")


def review_labels(
    folder: Path,
    client: int | None,
    data: Path | None,
    images: Collection[Path],
    reviewer: str | None,
    port: int,
    browser: bool,
    allow: Collection[str],
) -> None:
    """Serve the page until somebody ends it, and say where the decisions are."""
    missing = [name for name in NEEDED if importlib.util.find_spec(name) is None]
    if missing:
        raise UserError(f"{missing[0]} is not installed: pip install 'feddiv[review]'")
    from feddiv.review.opening import check_writable, reviewable
    from feddiv.review.serving import serve

    name = _name(reviewer)
    with progress(quiet=False) as watcher:
        sites = reviewable(folder, client, data, images, watcher, allow)
    for site in sites:
        check_writable(site.folder)
    if len(sites) > 1:
        typer.echo(f"Sites      {len(sites)}: the page asks which one, --client N says it here")
    review = serve(sites, name, port, typer.echo, browser=browser)
    for decisions in review.opened():
        if decisions.path.is_file():
            typer.echo(f"Decisions  {shown(str(decisions.path))}")


def _name(reviewer: str | None) -> str:
    """What the reviewer is called in the file, if need be by the name of the account."""
    if reviewer is not None:
        name = reviewer.strip()
        if not name or name != shown(name, NAME):
            raise UserError(f"--reviewer {reviewer!r}: a name of 1 to {NAME} characters is needed")
        return name
    try:
        return shown(getpass.getuser(), NAME) or "reviewer"
    except (OSError, KeyError):
        return "reviewer"
