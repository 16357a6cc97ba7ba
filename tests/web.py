"""A small web server with the habits, good and bad, of real ones."""

import gzip
import hashlib
import io
import tarfile
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from feddiv.data.published.benchmarks import Benchmark, Download, Piece


@dataclass
class Web:
    """Files by name; the first part of a path says how they are served."""

    files: dict[str, bytes]
    address: str = ""
    asked: list[tuple[str, str | None]] = field(default_factory=list)  # path and Range
    pace: float = 0.0  # seconds between pieces under /slow/

    def url(self, manner: str, name: str = "") -> str:
        return f"{self.address}/{manner}/{name}"

    def ranges(self) -> list[str | None]:
        return [span for _, span in self.asked]


@contextmanager
def serving(files: Mapping[str, bytes]) -> Iterator[Web]:
    web = Web(dict(files))

    class Handler(_Handler):
        pass

    Handler.web = web
    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    web.address = f"http://127.0.0.1:{server.server_address[1]}"
    thread = threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True)
    thread.start()
    try:
        yield web
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


class _Handler(BaseHTTPRequestHandler):
    web: Web

    def log_message(self, format: str, *args: object) -> None:
        pass

    def do_GET(self) -> None:
        _, manner, name = self.path.split("/", 2)
        span = self.headers.get("Range")
        times = sum(path == self.path for path, _ in self.web.asked)
        self.web.asked.append((self.path, span))
        content = self.web.files.get(name)
        if manner == "redirect":
            self._head(302, Location=f"/good/{name}", Content_Length="0")
        elif content is None or manner == "missing":
            self.send_error(404)
        elif manner == "busy" and times == 0:
            self._head(503, Content_Length="0")
        elif manner == "page":
            self._whole(b"<html>log in first</html>")
        elif manner == "corrupt":
            self._whole(content[:-1] + bytes([content[-1] ^ 1]))
        elif manner == "unruly":  # ignores Range
            self._whole(content)
        elif manner == "cut":  # never gives more than the first half, whatever is asked
            self._whole(content, upto=len(content) // 2)
        elif manner == "endless":
            self._head(200)
            self.wfile.write(content + b"more")
        elif manner == "elsewhere" and span:  # goes on at a byte of its own choice
            self._rest(content, int(span[6:-1]) // 2)
        elif manner == "past" and span:
            self._head(416, Content_Length="0")
        elif span:
            self._rest(content, int(span[6:-1]))
        elif manner == "flaky":
            self._whole(content, upto=len(content) // 3)
        else:
            self._whole(content)

    def _head(self, status: int, **headers: str) -> None:
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name.replace("_", "-"), value)
        self.end_headers()

    def _whole(self, content: bytes, upto: int | None = None) -> None:
        self._head(200, Content_Length=str(len(content)))
        self._send(content[:upto])

    def _rest(self, content: bytes, start: int) -> None:
        span = f"bytes {start}-{len(content) - 1}/{len(content)}"
        self._head(206, Content_Length=str(len(content) - start), Content_Range=span)
        self._send(content[start:])

    def _send(self, content: bytes) -> None:
        if "/slow/" not in self.path:
            self.wfile.write(content)
            return
        with suppress(ConnectionError):  # whoever asked has gone
            for start in range(0, len(content), 1000):
                self.wfile.write(content[start : start + 1000])
                time.sleep(self.web.pace)


def download(name: str, content: bytes, *urls: str) -> Download:
    return Download(name, len(content), hashlib.sha256(content).hexdigest(), urls)


def piece(name: str, content: bytes) -> Piece:
    return Piece(name, len(content), hashlib.md5(content).hexdigest())


def tar(members: Mapping[str, bytes], *more: tarfile.TarInfo) -> bytes:
    """A .tar.gz of these files, and of members without content."""
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w") as archive:
        for name, content in members.items():
            info = tarfile.TarInfo(name)
            info.size = len(content)
            archive.addfile(info, io.BytesIO(content))
        for info in more:
            archive.addfile(info)
    return gzip.compress(packed.getvalue(), compresslevel=1, mtime=0)


PIECES = {"meta": b"names", "train": bytes(range(256)) * 40, "test": b"\x01\x02" * 3000}


def packed_benchmark(
    archive: bytes | None = None, url: str = "http://127.0.0.1:9/", **changed: bytes
) -> tuple[Benchmark, bytes]:
    """A data set of three files in an archive; the last is the archive that is published."""
    pieces = {**PIECES, **changed}
    if archive is None:
        archive = tar({f"tiny-py/{name}": content for name, content in pieces.items()})
    return (
        Benchmark(
            name="tiny",
            title="three files",
            folder="tiny-py",
            pieces=tuple(piece(name, content) for name, content in pieces.items()),
            downloads=(download("tiny.tar.gz", archive, f"{url}tiny.tar.gz"),),
        ),
        archive,
    )
