"""`feddiv data get` and `feddiv data check`, against a server on this machine."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.web import Web, packed_benchmark, serving

from feddiv.data.published.benchmarks import CATALOGUE, Benchmark


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("FEDDIV_CACHE", str(tmp_path / "cache"))
    monkeypatch.delenv("FEDDIV_DATA", raising=False)
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    return tmp_path / "cache"


@pytest.fixture
def web() -> Iterator[Web]:
    with serving({"tiny.tar.gz": packed_benchmark()[1]}) as web:
        yield web


@pytest.fixture
def tiny(web: Web, monkeypatch: pytest.MonkeyPatch) -> Benchmark:
    """A data set of three files, in the catalogue beside the others."""
    benchmark, _ = packed_benchmark(url=web.url("good"))
    monkeypatch.setitem(CATALOGUE, "tiny", benchmark)
    return benchmark


def states(out: str) -> dict[str, str]:
    lines = [line.split("  ") for line in out.splitlines() if not line.startswith(" ")]
    return {line[0].strip(): next(part for part in line[1:] if part).strip() for line in lines}


def test_get_then_check(command, tiny, web, cache):
    before = command("data", "check")
    assert before.code == 0
    assert states(before.out) == dict.fromkeys(CATALOGUE, "absent")

    got = command("data", "get", "tiny")
    assert got.code == 0
    assert got.out == f"tiny: downloaded and verified: {cache / 'tiny-py'}\n"
    assert "tiny.tar.gz: 0.0 MB" in got.err
    assert "tiny.tar.gz: 100%" in got.err

    after = command("data", "check", "tiny")
    assert after.code == 0
    assert after.out == f"tiny  whole  {cache / 'tiny-py'} (the cache)\n"
    again = command("data", "get", "tiny")
    assert again.out == f"tiny: already there, verified: {cache / 'tiny-py'}\n"
    assert len(web.asked) == 1


def test_check_names_what_is_damaged(command, tiny, cache, tmp_path, monkeypatch):
    command("data", "get", "tiny")
    monkeypatch.setenv("FEDDIV_DATA", str(tmp_path / "mine"))
    (tmp_path / "mine" / "tiny-py").mkdir(parents=True)
    (tmp_path / "mine" / "tiny-py" / "train").write_bytes(b"x")
    outcome = command("data", "check")
    assert outcome.code == 2
    assert "damaged" in outcome.out
    assert f"whole    {cache / 'tiny-py'} (the cache)" in outcome.out
    assert outcome.err == (
        f"feddiv: error: damaged: tiny in {tmp_path / 'mine' / 'tiny-py'} (meta is missing, "
        "train is cut off, 1 of 10,240 bytes, test is missing)\n"
    )
    assert command("data", "check", "cifar10").code == 2, "asked for by name, and not there"


def test_another_place_has_to_have_the_same_file(command, refused, tiny, web, cache):
    assert "HTTP 404" in refused("data", "get", "tiny", "--url", web.url("missing", "tiny.tar.gz"))
    assert command("data", "get", "tiny", "--url", web.url("redirect", "tiny.tar.gz")).code == 0
    assert [path for path, _ in web.asked][-1] == "/good/tiny.tar.gz"


def test_without_a_network_one_line_says_what_to_do(refused, monkeypatch, cache):
    with serving({}) as gone:
        benchmark, _ = packed_benchmark(url=gone.url("good"))
    monkeypatch.setitem(CATALOGUE, "tiny", benchmark)
    line = refused("data", "get", "tiny")
    assert f"fetch {benchmark.downloads[0].urls[0]} elsewhere" in line
    assert f"put it unchanged into {cache} and run `feddiv data get tiny` again" in line


def test_unknown_names_and_addresses(refused):
    allowed = "allowed are cifar10, cifar100, mnist, fashion_mnist, cifar-n"
    assert allowed in refused("data", "get", "cifar11")
    assert allowed in refused("data", "check", "cifar11")
    assert "--url=file:///x" in refused("data", "get", "cifar10", "--url", "file:///x")
    assert "NAME" in refused("data", "get")
    assert "fetch" in refused("data", "fetch")


def test_a_bare_data_prints_its_help(command):
    outcome = command("data")
    assert outcome.code == 0
    assert "get" in outcome.out
    assert "check" in outcome.out


PROGRAM = """
from feddiv.cli import main
from feddiv.data.published.benchmarks import CATALOGUE, Benchmark, Download, Piece
CATALOGUE["tiny"] = BENCHMARK
main(["data", "get", "tiny"])
"""


@pytest.mark.slow
def test_ctrl_c_keeps_what_has_come(command, web, cache, monkeypatch):
    content = os.urandom(400_000)
    benchmark, archive = packed_benchmark(url=web.url("slow"), train=content)
    web.files["tiny.tar.gz"], web.pace = archive, 0.05
    program = PROGRAM.replace("BENCHMARK", repr(benchmark))
    process = subprocess.Popen(
        [sys.executable, "-c", program], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    part = cache / "tiny.tar.gz.part"
    while not (part.exists() and part.stat().st_size):
        assert process.poll() is None, process.communicate()[1]
        time.sleep(0.01)
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=300)
    assert process.returncode == 130, err
    assert out == ""
    assert err.endswith("stopped; what has come is kept, go on with: feddiv data get tiny\n")
    kept = part.stat().st_size
    assert 0 < kept < len(archive)

    monkeypatch.setitem(CATALOGUE, "tiny", benchmark)
    share = kept / len(archive)
    assert f"begun, {share:.0%}" in command("data", "check").out
    web.pace = 0.0
    assert "going on at" in command("data", "get", "tiny").err
    assert web.ranges()[-1] == f"bytes={kept}-"
    assert (cache / "tiny-py" / "train").read_bytes() == content
