"""Fetching one published file: what is there already is kept, what comes is verified."""

import http.client
import re
import socket
import ssl
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Sequence
from http import HTTPStatus
from pathlib import Path
from typing import Any, Final

from feddiv.core.errors import UserError
from feddiv.core.files import settle
from feddiv.data.published.benchmarks import Download
from feddiv.data.published.integrity import is_published

TIMEOUT: Final = 30.0  # seconds without a byte
WAITS: Final = (1.0, 3.0, 9.0)  # seconds before each new try that brought nothing more
_LONGEST_WAIT: Final = 30.0
_CHUNK: Final = 1 << 18
WHOLE: Final = re.compile(r"[0-9]{1,18}")
_PASSING: Final = frozenset({408, 425, 429, 500, 502, 503, 504})  # may be well again in a moment


class Progress:
    """Whoever looks on; this one says nothing."""

    def begins(self, name: str, size: int, present: int) -> None:
        """A server gives a file of `size` bytes, of which `present` are here already."""

    def reaches(self, present: int) -> None:
        """So many bytes of the file are here now; fewer than before if it starts anew."""

    def notes(self, line: str) -> None:
        """Something happened that a person may want to know."""


class Unavailable(Exception):
    """None of the places gave the file, and why."""


class _Hopeless(Exception):
    """This place will not give the file, however often it is asked."""


class _Passing(Exception):
    """This try failed; another one may not.

    `wait` is what the server asks for, in seconds; `restart`: what is here cannot be added to.
    """

    def __init__(self, reason: str, wait: float = 0.0, restart: bool = False) -> None:
        super().__init__(reason)
        self.wait, self.restart = min(wait, _LONGEST_WAIT), restart


def fetch(
    wanted: Download,
    folder: Path,
    urls: Sequence[str],
    progress: Progress,
    waits: Sequence[float] = WAITS,
) -> Path:
    """The verified file in `folder`, from the first of these places that gives it.

    Until it is whole and verified it is called `.part`; a later call goes on from there.
    """
    target = folder / wanted.name
    if is_published(target, wanted):
        return target
    part = target.with_name(f"{target.name}.part")
    reasons: dict[str, str] = {}  # by place
    for url in urls:
        continued = _length(part) > 0
        for _ in range(2):
            try:
                _fetch_from(url, wanted, part, progress, waits)
            except _Hopeless as reason:
                reasons[url] = str(reason)
                break
            if is_published(part, wanted):
                settle(part)
                part.replace(target)
                settle(folder)
                return target
            part.unlink()
            if not continued:
                reasons[url] = "wrong checksum, another file is offered there"
                break
            # The earlier part may be to blame: it could be of another file, or of another place.
            progress.notes(f"{wanted.name}: wrong checksum after going on, starting anew")
            continued = False
    if len(set(reasons.values())) == 1:
        raise Unavailable(f"{', '.join(reasons)}: {next(iter(reasons.values()))}")
    raise Unavailable("; ".join(f"{url}: {reason}" for url, reason in reasons.items()))


def _length(part: Path) -> int:
    return part.stat().st_size if part.is_file() else 0


def _fetch_from(
    url: str, wanted: Download, part: Path, progress: Progress, waits: Sequence[float]
) -> None:
    """Ask until as many bytes are here as there should be."""
    if _length(part) > wanted.size:
        part.unlink()
    before = most = _length(part)
    tries = 0
    while _length(part) < wanted.size:
        try:
            with _ask(url, _length(part), reached=most > before) as answer:
                _receive(answer, wanted, part, progress)
        except _Passing as reason:
            if _length(part) > most:
                most, tries = _length(part), 0
            if reason.restart:
                part.unlink(missing_ok=True)
            if tries == len(waits):
                raise _Hopeless(f"{reason}, {tries + 1} tries in vain") from None
            wait = max(waits[tries], reason.wait)
            progress.notes(f"{wanted.name}: {reason}, next try in {wait:.0f} s")
            time.sleep(wait)
            tries += 1


def _ask(url: str, start: int, reached: bool) -> Any:
    """An answer that gives the file, from byte `start` on if the server can do that."""
    headers = {"User-Agent": "feddiv", "Accept-Encoding": "identity"}
    if start:
        headers["Range"] = f"bytes={start}-"
    try:
        return _opener().open(urllib.request.Request(url, headers=headers), timeout=TIMEOUT)
    except urllib.error.HTTPError as error:
        error.close()
        if error.code == HTTPStatus.REQUESTED_RANGE_NOT_SATISFIABLE and start:
            raise _Passing("the server cannot go on there", restart=True) from None
        reason = f"HTTP {error.code} {error.reason}"
        if error.code in _PASSING:
            raise _Passing(reason, wait=_asked_wait(error.headers)) from None
        raise _Hopeless(reason) from None
    except (OSError, http.client.HTTPException) as error:
        cause = getattr(error, "reason", error)
        nobody_there = isinstance(cause, socket.gaierror | ConnectionRefusedError)
        never = isinstance(cause, ssl.SSLCertVerificationError | http.client.InvalidURL)
        if never or (nobody_there and not reached):  # nothing to hope for in a few seconds
            raise _Hopeless(_words(cause)) from None
        raise _Passing(_words(cause)) from None


def _receive(answer: Any, wanted: Download, part: Path, progress: Progress) -> None:
    """Add what comes to the part."""
    start = _length(part)
    goes_on = answer.status == HTTPStatus.PARTIAL_CONTENT
    if goes_on and _first_byte(answer) != start:
        raise _Passing("the server goes on at another byte than asked", restart=True)
    present = start if goes_on else 0
    length = str(answer.headers.get("Content-Length", ""))
    offered = _number(length)
    if offered is not None and present + offered != wanted.size:
        raise _Hopeless(
            f"offers {present + offered:,} bytes, the published file has {wanted.size:,}"
        )
    progress.begins(wanted.name, wanted.size, present)
    # A server that ignores Range sends the file from its beginning.
    with part.open("ab" if goes_on else "wb", buffering=0) as file:
        # Where the length was not said, the end is when no more comes.
        while (present < wanted.size or not length) and (chunk := _read(answer)):
            present += len(chunk)
            if present > wanted.size:
                raise _Hopeless(f"sends more than the {wanted.size:,} bytes of the published file")
            file.write(chunk)
            progress.reaches(present)
    if present < wanted.size:
        raise _Passing(f"the connection ended after {present:,} of {wanted.size:,} bytes")


def _read(answer: Any) -> bytes:
    """The bytes that have come, so that a stop loses none; an error is the connection's."""
    try:
        return bytes(answer.read1(_CHUNK))
    except (OSError, http.client.HTTPException) as error:
        raise _Passing(_words(error)) from None


def _words(error: object) -> str:
    return str(getattr(error, "strerror", None) or error) or type(error).__name__


def _first_byte(answer: Any) -> int | None:
    """Where a partial answer begins: "bytes 100-199/200" begins at 100."""
    unit, _, span = str(answer.headers.get("Content-Range", "")).partition(" ")
    return _number(span.partition("-")[0]) if unit == "bytes" else None


def _asked_wait(headers: Any) -> float:
    return float(_number(str(headers.get("Retry-After", ""))) or 0)


def _number(text: str) -> int | None:
    """A count in a header; what is none, or longer than any, is not there."""
    return int(text) if WHOLE.fullmatch(text) else None


def _opener() -> urllib.request.OpenerDirector:
    """HTTP and HTTPS with redirects and the proxies of the environment; no file:, no ftp:."""
    opener = urllib.request.OpenerDirector()
    for handler in (
        urllib.request.ProxyHandler(),
        urllib.request.HTTPHandler(),
        urllib.request.HTTPSHandler(),
        urllib.request.HTTPRedirectHandler(),
        urllib.request.HTTPDefaultErrorHandler(),
        urllib.request.HTTPErrorProcessor(),
        urllib.request.UnknownHandler(),
    ):
        opener.add_handler(handler)
    return opener


def check_url(url: str) -> None:
    """Refuse what is not the address of a file on the web."""
    try:
        parts = urllib.parse.urlsplit(url)
        host, _ = (parts.hostname or "").encode("idna"), parts.port
    except ValueError as error:  # also what Unicode says
        raise UserError(f"--url={url}: is no address ({error})") from None
    if parts.scheme not in ("http", "https") or not host:
        raise UserError(f"--url={url}: has to begin with https:// or http:// and name a host")
    if not url.isascii() or not url.isprintable() or " " in url:
        raise UserError(f"--url={url}: other characters than ASCII are written as %XX")
