"""The review page's answers: lists, samples, decisions. `guard.py` says who gets any."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from functools import partial
from importlib import resources
from typing import Any, Final

from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from feddiv.core.errors import UserError
from feddiv.core.files import Unreadable, json_object
from feddiv.pages.page import PACKAGE
from feddiv.review.decisions import Decisions, check_choice
from feddiv.review.opening import ListedLabels

SIDES: Final = (192, 384, 1600)  # pixels of images: of the grid, of fine screens, on their own
MOST_ASKED: Final = 500  # samples in one answer
MOST_BYTES: Final = 4 << 20  # of what a page sends
MISSING: Final = "missing.svg"  # in the place of an image that is not there
TYPES: Final = {
    ".css": "text/css; charset=utf-8",
    ".html": "text/html; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".svg": "image/svg+xml",
}


class ReviewSession:
    """The sites that can be reviewed, opened when they are asked for."""

    def __init__(self, sites: Sequence[ListedLabels], reviewer: str) -> None:
        self.sites, self.reviewer = sites, reviewer
        self._open: dict[int, Decisions] = {}
        self._turn = threading.Lock()

    def of(self, site: int) -> Decisions:
        """The list of a site and what was decided about it."""
        if not 0 <= site < len(self.sites):
            raise HTTPException(404)
        with self._turn:
            if site not in self._open:
                self._open[site] = Decisions(self.sites[site].open(), self.reviewer)
            return self._open[site]

    def opened(self) -> list[Decisions]:
        """Those that somebody has looked at."""
        return list(self._open.values())

    def described(self) -> dict[str, Any]:
        """The sites by name, with how many of their labels are expected to be wrong."""
        sites = [
            {"name": site.name, "labels": site.labels, "wrong": site.wrong} for site in self.sites
        ]
        return {"sites": sites, "reviewer": self.reviewer}


def review_app(review: ReviewSession) -> Starlette:
    """The page without its guard. Samples are known by numbers, files by a fixed list."""
    files = _files()

    def file(request: Request) -> Response:
        name = request.path_params.get("name", "review.html")
        if name not in files:
            raise HTTPException(404)
        content, kind = files[name]
        return Response(content, media_type=kind)

    def sites(request: Request) -> Response:
        return JSONResponse(review.described())

    def listed(request: Request) -> Response:
        decisions = _site(review, request)
        labels, news = decisions.labels, decisions.news()
        notes = [*labels.notes, *decisions.notes]
        return JSONResponse(labels.described() | {"notes": notes, "news": news})

    def samples(request: Request) -> Response:
        decisions = _site(review, request)
        whole = request.query_params.get("whole") == "1"
        places = _places(request.query_params.get("places", ""), len(decisions.labels))
        return JSONResponse([_sample(decisions, place, whole=whole) for place in places])

    def image(request: Request) -> Response:
        labels, place = _site(review, request).labels, request.path_params["place"]
        side = request.query_params.get("side", "")
        if not place < len(labels) or side not in map(str, SIDES):
            raise HTTPException(404)
        found = labels.looks.picture(place, int(side))
        if found is None:  # an error would fill the browser's console
            return Response(files[MISSING][0], media_type=files[MISSING][1])
        return Response(found[0], media_type=f"image/{found[1]}")

    def news(request: Request) -> Response:
        asked = request.query_params
        since = asked.get("since", "0")
        number = int(since) if since.isascii() and since.isdigit() and len(since) < 16 else since
        seen = _seen({"since": number, "epoch": asked.get("epoch", "")})
        return JSONResponse(_site(review, request).news(*seen))

    routes = [
        Route("/", file),
        Route("/api/sites", sites),
        Route("/api/{site:int}/list", listed),
        Route("/api/{site:int}/samples", samples),
        Route("/api/{site:int}/image/{place:int}", image),
        Route("/api/{site:int}/news", news),
        *(
            Route(f"/api/{{site:int}}/{verb}", partial(_changed, review, verb), methods=["POST"])
            for verb in ("decide", "undo", "redo")
        ),
        Route("/{name}", file),
    ]
    return Starlette(
        routes=routes,
        exception_handlers={UserError: _problem, HTTPException: _missing},
    )


async def _changed(review: ReviewSession, verb: str, request: Request) -> Response:
    """Decide, undo or redo; the answer comes when it is on the disk."""
    content = b""
    async for piece in request.stream():
        content += piece
        if len(content) > MOST_BYTES:
            raise HTTPException(413)
    try:
        body = json_object(content)
    except Unreadable as problem:
        raise UserError(f"what was sent {problem}") from None
    return JSONResponse(await run_in_threadpool(_done, review, verb, request, body))


def _done(
    review: ReviewSession, verb: str, request: Request, body: dict[str, Any]
) -> dict[str, Any]:
    decisions, seen = _site(review, request), _seen(body)  # before anything is written
    if verb == "decide":
        decisions.decide(*check_choice(decisions.labels, body))
        return decisions.news(*seen)
    places = decisions.undo() if verb == "undo" else decisions.redo()
    first = min(places, default=None)
    return decisions.news(*seen) | {"turned": {"count": len(places), "place": first}}


def _seen(asked: dict[str, Any]) -> tuple[int, str]:
    """Up to where a page knows the decisions: how many rows, of which epoch."""
    since = asked.get("since", 0)
    if type(since) is not int or since < 0:
        raise UserError(f"since: {since!r} is no number of rows")
    return since, str(asked.get("epoch", ""))


def _site(review: ReviewSession, request: Request) -> Decisions:
    return review.of(request.path_params["site"])


def _places(text: str, count: int) -> list[int]:
    """Numbers of samples with commas between them."""
    parts = text.split(",")[: MOST_ASKED + 1]
    numbers = all(part.isascii() and part.isdigit() and len(part) < 10 for part in parts)
    if len(parts) > MOST_ASKED or not numbers:
        raise HTTPException(404)
    places = [int(part) for part in parts]
    if max(places) >= count:
        raise HTTPException(404)
    return places


def _sample(decisions: Decisions, place: int, *, whole: bool) -> dict[str, Any]:
    labels = decisions.labels
    said: dict[str, Any] = {"place": place, "name": labels.names[place]}
    if whole:
        said["said"] = decisions.said(place)
    return said | labels.looks.described(place, whole=whole)


def _files() -> dict[str, tuple[bytes, str]]:
    """All that the page is made of, by name."""
    shipped = [resources.files(PACKAGE).joinpath(name) for name in ("page.css", "page.js")]
    shipped += resources.files("feddiv.review").joinpath("static").iterdir()
    return {
        each.name: (each.read_bytes(), TYPES[ending])
        for each in shipped
        for ending in TYPES
        if each.name.endswith(ending)
    }


def _problem(request: Request, problem: Exception) -> Response:
    return JSONResponse({"problem": str(problem)}, 400)


def _missing(request: Request, problem: Exception) -> Response:
    status = problem.status_code if isinstance(problem, HTTPException) else 500
    return JSONResponse({"problem": "there is no such thing"}, status)
