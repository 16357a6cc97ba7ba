"""Who may talk to the review page: nobody but the browser that was given its address.

The page shows a site's samples. It listens on loopback, but so can be reached by every user of the
machine and, through a browser, by every page that is open there. So:

- The printed address has a token. It is exchanged for a cookie, which scripts cannot read and which
  is not sent along from other sites; the token is then gone from the address bar. Cookies know no
  ports: the cookie is bound to a folder with a random name, so that it is not sent to whatever else
  listens on this machine.
- The Host header has to be a name of this machine with our port: a name that somebody else lets
  point here (DNS rebinding) is none.
- What changes something has to come from our own page, by its Origin; what only reads must not say
  that it comes from elsewhere.
- Whoever lacks any of this gets one and the same answer, also for styles and scripts.
"""

from __future__ import annotations

import secrets
from collections.abc import Iterable
from http.cookies import CookieError, SimpleCookie
from typing import Final
from urllib.parse import parse_qs

from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import HTMLResponse, PlainTextResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from feddiv.pages import tag

COOKIE: Final = "feddiv-review"
NAMES: Final = ("127.0.0.1", "localhost", "[::1]")
OURS: Final = ("same-origin", "none")  # Sec-Fetch-Site of our page, and of an address typed in
READING: Final = ("GET", "HEAD")
POLICY: Final = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
# Nothing stays in the browser's cache: the samples are the site's.
HEADERS: Final = {
    "Content-Security-Policy": POLICY,
    "Cache-Control": "no-store",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
}


class Guard:
    """The page behind its checks, for the one port that it listens on."""

    def __init__(self, page: ASGIApp, port: int) -> None:
        self.page = page
        self.token = secrets.token_urlsafe(32)
        self.address = f"http://{NAMES[0]}:{port}/?token={self.token}"
        self._home = f"/{secrets.token_hex(8)}/"
        self._session = secrets.token_urlsafe(32)
        self._hosts = frozenset(f"{name}:{port}" for name in NAMES)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request, or refuse it; anything but HTTP is refused without an answer."""
        if scope["type"] != "http":
            return

        async def with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                MutableHeaders(scope=message).update(HEADERS)
            await send(message)

        answer = self._answer(scope)
        if answer is not None:
            await answer(scope, receive, with_headers)
            return
        rest = scope["path"][len(self._home) - 1 :]
        inner = {**scope, "path": rest, "raw_path": rest.encode(), "root_path": ""}
        await self.page(inner, receive, with_headers)

    def _answer(self, scope: Scope) -> Response | None:
        """None for a request that may pass."""
        headers, path = Headers(scope=scope), scope["path"]
        hosts = headers.getlist("host")
        if len(hosts) != 1 or hosts[0].lower() not in self._hosts:
            return _refused()
        if path == "/":
            return self._door(scope)
        if not path.startswith(self._home) or not self._knows(headers.getlist("cookie")):
            return _refused()
        if headers.get("sec-fetch-site", "none") not in OURS:
            return _refused()
        origins = headers.getlist("origin")
        if not origins and scope["method"] in READING:
            return None
        return None if origins == [f"http://{hosts[0].lower()}"] else _refused()

    def _door(self, scope: Scope) -> Response:
        """From the token to the cookie.

        The page goes on by itself: a redirect, asked for by another site, would lack the cookie.
        """
        query = parse_qs(scope["query_string"].decode("latin-1"))
        given = query.get("token", [""])
        if len(given) != 1 or not _same(given[0], self.token) or scope["method"] not in READING:
            return _refused()
        icon = f'<link rel="icon" href="{self._home}icon.svg">'  # or browsers ask at the door
        onward = tag("meta", http_equiv="refresh", content=f"0; url={self._home}")
        answer = HTMLResponse(
            f"<!doctype html>\n<html lang=en><head>{icon}{onward}</head></html>\n"
        )
        answer.set_cookie(COOKIE, self._session, path=self._home, httponly=True, samesite="strict")
        return answer

    def _knows(self, cookies: Iterable[str]) -> bool:
        for line in cookies:
            try:
                held = SimpleCookie(line).get(COOKIE)
            except CookieError:
                continue
            if held is not None and _same(held.value, self._session):
                return True
        return False


def _same(one: str, other: str) -> bool:
    return secrets.compare_digest(one.encode(), other.encode())


def _refused() -> Response:
    line = "Not for you: open the address that feddiv review printed when it was started last.\n"
    return PlainTextResponse(line, 403)
