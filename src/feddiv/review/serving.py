"""The review page on a port of this machine, until somebody ends it."""

from __future__ import annotations

import errno
import socket
import tempfile
import webbrowser
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path

import uvicorn

from feddiv.core.errors import UserError
from feddiv.core.terminal import shown
from feddiv.pages import tag
from feddiv.review.guard import NAMES, Guard
from feddiv.review.opening import ListedLabels
from feddiv.review.server import ReviewSession, review_app

PATIENCE = 2  # seconds that answers in the making get when the server ends


def serve(
    sites: Sequence[ListedLabels],
    reviewer: str,
    port: int,
    say: Callable[[str], None],
    *,
    browser: bool,
) -> ReviewSession:
    """Serve until Ctrl-C; the address is said once, with the token in it.

    Port 0 is any that is free. UserError where the port is not to be had.
    """
    review = ReviewSession(sites, reviewer)
    if len(sites) == 1:
        # What is wrong with its files is told before anybody opens the page.
        for note in review.of(0).notes:
            say(f"Note       {shown(note)}")
    with listening_on(port) as listening:
        guard = Guard(review_app(review), listening.getsockname()[1])
        server = web_server(guard)
        say(f"Review     {guard.address}")
        say("           for this machine only, and for whoever has this address; Ctrl-C ends it")
        with tempfile.TemporaryDirectory(prefix="feddiv-review-") as folder:
            if browser:
                webbrowser.open(door_file(Path(folder), guard.address))
            with suppress(KeyboardInterrupt):  # uvicorn raises it again, after an orderly end
                server.run(sockets=[listening])
    return review


def web_server(guard: Guard) -> uvicorn.Server:
    """What speaks HTTP. It keeps no log: the token would be in it."""
    return uvicorn.Server(
        uvicorn.Config(
            guard,
            log_level="error",
            access_log=False,
            lifespan="off",
            ws="none",
            server_header=False,
            timeout_graceful_shutdown=PATIENCE,
        )
    )


def listening_on(port: int) -> socket.socket:
    """A socket that takes connections already, so that a quick browser finds it."""
    listening = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    try:
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listening.bind((NAMES[0], port))
        listening.listen(128)
    except OSError as error:
        listening.close()
        if error.errno == errno.EADDRINUSE:
            raise UserError(
                f"--port {port}: is in use, perhaps by a review that still runs; name another "
                "port, or leave --port out for one that is free"
            ) from None
        raise UserError(f"--port {port}: cannot be had ({error.strerror or error})") from None
    return listening


def door_file(folder: Path, address: str) -> str:
    """A file that leads to the address: other users see the arguments of a browser's process,
    but not this file."""
    file = folder / "review.html"
    file.touch(mode=0o600)
    head = tag("head", tag("meta", http_equiv="refresh", content=f"0; url={address}"))
    file.write_text(f"<!doctype html>\n{tag('html', head, lang='en')}\n", "utf-8")
    return file.as_uri()
