"""Sites small enough to follow by hand, and the review page served to tests."""

import http.client
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from http.cookies import SimpleCookie
from pathlib import Path
from urllib.parse import urlsplit

import numpy as np
from PIL import Image

from feddiv.audits.folder import write_audit
from feddiv.audits.label_audit import LabelAudit
from feddiv.methods.contract import Assessment
from feddiv.review.guard import Guard
from feddiv.review.opening import reviewable
from feddiv.review.server import ReviewSession, review_app
from feddiv.review.serving import listening_on, web_server

CLASSES = ("cat", "dog", "eel")
WRONG = 6  # of a small site's samples, the first ones


def audited(folder: Path, names, classes=CLASSES, data=None, wrong=WRONG, given=None) -> Path:
    """An audit of samples with these names: the first ones are wrong, each class by the next."""
    n, c = len(names), len(classes)
    given = np.arange(n) % c if given is None else np.asarray(given)
    predicted = np.where(np.arange(n) < wrong, (given + 1) % c, given)
    quality = np.where(np.arange(n) < wrong, np.linspace(0.01, 0.05, n), np.linspace(0.99, 1, n))
    opinion = Assessment(
        predicted, quality, second_opinion=quality.copy(), confidence=np.full(n, 0.9)
    )
    audit = LabelAudit("north", tuple(classes), given, opinion, names.__getitem__, data=data)
    write_audit(folder, audit, page=False)
    return folder


def photos(at: Path, count: int = 12, classes=CLASSES, name="{0}.png") -> Path:
    """A site with images in class folders, of one colour each; `at/site` is its own folder."""
    names = []
    for number in range(count):
        label = classes[number % len(classes)]
        file = at / "data" / label / name.format(number)
        file.parent.mkdir(parents=True, exist_ok=True)
        Image.new("RGB", (80, 60), (number * 20 % 256, 90, 200)).save(file)
        names.append(f"{label}/{file.name}")
    return audited(at / "site", names, classes, data=at / "data")


def many(at: Path, count: int = 20_000) -> Path:
    """A site with this many grey images of 8 x 8 pixels in one file."""
    at.mkdir(parents=True, exist_ok=True)
    pixels = np.random.default_rng(0).integers(0, 255, (count, 8, 8, 1), np.uint8)
    labels = np.arange(count) % len(CLASSES)
    np.savez(at / "data.npz", x=pixels, y=labels, classes=np.array(CLASSES))
    names = [str(row) for row in range(count)]
    return audited(at / "site", names, data=at / "data.npz", wrong=count // 4)


@dataclass
class Served:
    """The page on a port, and what a browser would know of it."""

    guard: Guard
    review: ReviewSession
    port: int

    @property
    def address(self) -> str:
        return self.guard.address

    def ask(self, path, method="GET", body=None, **headers):
        """A request as it is; (status, headers, content). Host is right if nothing else is said."""
        wire = http.client.HTTPConnection("127.0.0.1", self.port, timeout=20)
        try:
            wire.putrequest(method, path, skip_host=True, skip_accept_encoding=True)
            said = {"Host": f"127.0.0.1:{self.port}"} | {
                name.replace("_", "-"): value for name, value in headers.items()
            }
            if body is not None:
                said["Content-Length"] = str(len(body))
            for name, value in said.items():
                if value is not None:
                    wire.putheader(name, value)
            wire.endheaders(body)
            answer = wire.getresponse()
            return answer.status, answer.headers, answer.read()
        finally:
            wire.close()

    def enter(self) -> tuple[str, str]:
        """Through the door: the folder of the page, and the cookie."""
        parts = urlsplit(self.address)
        status, headers, _ = self.ask(f"{parts.path}?{parts.query}")
        assert status == 200
        cookie = SimpleCookie(headers["Set-Cookie"])
        [held] = cookie.values()
        return held["path"], f"{held.key}={held.value}"


@dataclass
class Door:
    """What `Served.ask` needs of a server in another process."""

    address: str


def visitor(address: str) -> Served:
    """A page of a server in another process, by the address that it printed."""
    return Served(Door(address), None, urlsplit(address).port)


@contextmanager
def served(folder: Path, reviewer: str = "anna", **options) -> Iterator[Served]:
    """The page on what is in a folder, by a real server on a free port."""
    review = ReviewSession(reviewable(folder, **options), reviewer)
    with listening_on(0) as listening:
        port = listening.getsockname()[1]
        guard = Guard(review_app(review), port)
        server = web_server(guard)
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listening]}, daemon=True)
        thread.start()
        try:
            yield Served(guard, review, port)
        finally:
            server.should_exit = True
            thread.join()
