import hashlib
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from tests.web import Web, download, serving

from feddiv.core.errors import UserError
from feddiv.data.published.benchmarks import CATALOGUE
from feddiv.data.published.download import Progress, Unavailable, check_url, fetch

CONTENT = np.random.default_rng(0).bytes(300_001)
NAME = "data.bin"
WANTED = download(NAME, CONTENT)
NO_WAIT = (0.0, 0.0, 0.0)


@pytest.fixture
def web(monkeypatch: pytest.MonkeyPatch) -> Iterator[Web]:
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    with serving({NAME: CONTENT}) as web:
        yield web


class Seen(Progress):
    def __init__(self) -> None:
        self.began: list[int] = []
        self.reached: list[int] = []
        self.lines: list[str] = []

    def begins(self, name: str, size: int, present: int) -> None:
        assert (name, size) == (NAME, len(CONTENT))
        self.began.append(present)

    def reaches(self, present: int) -> None:
        self.reached.append(present)

    def notes(self, line: str) -> None:
        self.lines.append(line)


def get(web: Web, folder: Path, *manners: str) -> Seen:
    seen = Seen()
    fetch(WANTED, folder, [web.url(manner, NAME) for manner in manners], seen, NO_WAIT)
    assert (folder / NAME).read_bytes() == CONTENT
    assert [file.name for file in folder.iterdir()] == [NAME]
    return seen


def refused(web: Web, folder: Path, *manners: str) -> str:
    urls = [web.url(manner, NAME) for manner in manners]
    with pytest.raises(Unavailable) as caught:
        fetch(WANTED, folder, urls, Progress(), NO_WAIT)
    assert not (folder / NAME).exists()
    return str(caught.value)


def leave_part(folder: Path, content: bytes) -> Path:
    part = folder / f"{NAME}.part"
    part.write_bytes(content)
    return part


def test_a_file_is_fetched_and_verified_once(web: Web, tmp_path: Path) -> None:
    seen = get(web, tmp_path, "good")
    assert seen.began == [0]
    assert seen.reached[-1] == len(CONTENT)
    get(web, tmp_path, "good")
    assert web.ranges() == [None], "a verified file is not fetched again"


def test_a_file_that_is_there_but_wrong_is_replaced(web: Web, tmp_path: Path) -> None:
    (tmp_path / NAME).write_bytes(CONTENT[::-1])
    get(web, tmp_path, "good")


def test_a_partial_file_is_gone_on_with(web: Web, tmp_path: Path) -> None:
    leave_part(tmp_path, CONTENT[:100_000])
    seen = get(web, tmp_path, "good")
    assert web.ranges() == ["bytes=100000-"]
    assert seen.began == [100_000]


def test_a_whole_part_only_needs_its_name(web: Web, tmp_path: Path) -> None:
    leave_part(tmp_path, CONTENT)
    get(web, tmp_path, "good")
    assert web.asked == []


def test_a_server_may_ignore_the_range(web: Web, tmp_path: Path) -> None:
    leave_part(tmp_path, CONTENT[:100_000])
    seen = get(web, tmp_path, "unruly")
    assert web.ranges() == ["bytes=100000-"]
    assert seen.began == [0]


@pytest.mark.parametrize("manner", ["elsewhere", "past"])
def test_a_server_that_cannot_go_on_is_asked_for_all(web: Web, tmp_path: Path, manner: str) -> None:
    leave_part(tmp_path, CONTENT[:100_000])
    get(web, tmp_path, manner)
    assert web.ranges() == ["bytes=100000-", None]


@pytest.mark.parametrize(
    "part", [b"of another file", CONTENT[::-1], CONTENT + b"more"], ids=["short", "full", "long"]
)
def test_a_wrong_part_is_thrown_away(web: Web, tmp_path: Path, part: bytes) -> None:
    leave_part(tmp_path, part)
    get(web, tmp_path, "good")
    assert web.ranges()[-1] is None


def test_a_connection_that_ends_early_is_gone_on_with(web: Web, tmp_path: Path) -> None:
    seen = get(web, tmp_path, "flaky")
    assert web.ranges() == [None, "bytes=100000-"]
    assert seen.lines == [
        "data.bin: the connection ended after 100,000 of 300,001 bytes, next try in 0 s"
    ]


def test_a_file_that_is_always_cut_off_is_given_up(web: Web, tmp_path: Path) -> None:
    assert "the connection ended after 150,000 of 300,001 bytes, 4 tries in vain" in refused(
        web, tmp_path, "cut"
    )
    assert len(web.asked) == 4
    assert (tmp_path / f"{NAME}.part").stat().st_size == 150_000
    get(web, tmp_path, "good")
    assert web.ranges()[-1] == "bytes=150000-"


def test_a_busy_server_is_asked_again(web: Web, tmp_path: Path) -> None:
    seen = get(web, tmp_path, "busy")
    assert seen.lines == ["data.bin: HTTP 503 Service Unavailable, next try in 0 s"]


def test_a_redirect_is_followed(web: Web, tmp_path: Path) -> None:
    leave_part(tmp_path, CONTENT[:7])
    get(web, tmp_path, "redirect")
    assert web.asked == [(f"/redirect/{NAME}", "bytes=7-"), (f"/good/{NAME}", "bytes=7-")]


@pytest.mark.parametrize(
    ("manner", "reason", "requests"),
    [
        ("missing", "HTTP 404 Not Found", 1),
        ("corrupt", "wrong checksum, another file is offered there", 1),
        ("page", "offers 25 bytes, the published file has 300,001", 1),
        ("endless", "sends more than the 300,001 bytes of the published file", 1),
    ],
)
def test_what_is_not_the_file_is_refused(
    web: Web, tmp_path: Path, manner: str, reason: str, requests: int
) -> None:
    assert refused(web, tmp_path, manner) == f"{web.url(manner, NAME)}: {reason}"
    assert len(web.asked) == requests
    if manner != "endless":
        assert not list(tmp_path.iterdir())


def test_the_next_place_is_tried(web: Web, tmp_path: Path) -> None:
    get(web, tmp_path, "missing", "corrupt", "page", "good")
    assert [path.split("/")[1] for path, _ in web.asked] == ["missing", "corrupt", "page", "good"]


def test_without_a_server_there_is_no_waiting(tmp_path: Path) -> None:
    with serving({}) as gone:
        urls = [gone.url("good", NAME)]
    with pytest.raises(Unavailable, match="Connection refused"):
        fetch(WANTED, tmp_path, urls, Progress(), waits=(600.0,))
    with pytest.raises(Unavailable):
        fetch(WANTED, tmp_path, ["http://no-such-host.invalid/x"], Progress(), waits=(600.0,))
    assert not list(tmp_path.iterdir())


def test_only_the_web_is_asked(tmp_path: Path) -> None:
    (tmp_path / "secret").write_bytes(CONTENT)
    for url in (f"file://{tmp_path}/secret", "ftp://host/x", "https://", "no url"):
        with pytest.raises(UserError, match=r"--url=.*: has to begin with https://"):
            check_url(url)
    with pytest.raises(Unavailable):
        fetch(WANTED, tmp_path, [f"file://{tmp_path}/secret"], Progress(), ())
    check_url("http://host/folder/")


def test_the_size_counts_too(web: Web, tmp_path: Path) -> None:
    longer = replace(WANTED, size=len(CONTENT) + 1)
    with pytest.raises(Unavailable, match="offers 300,001 bytes"):
        fetch(longer, tmp_path, [web.url("good", NAME)], Progress(), NO_WAIT)


def test_the_catalogue_is_consistent() -> None:
    for name, benchmark in CATALOGUE.items():
        assert benchmark.name == name
        pieces = [piece.name for piece in benchmark.pieces]
        assert len(set(pieces)) == len(pieces)
        if benchmark.archive is None:
            assert [d.name.removesuffix(".gz") for d in benchmark.downloads] == pieces
        for each in benchmark.downloads:
            assert len(each.sha256) == len(hashlib.sha256().hexdigest())
            assert all(url.endswith(f"/{each.name}") for url in each.urls)
            assert bool(each.urls) != bool(each.requirement), "an address, or pip's own"
            for url in each.urls:
                check_url(url)
