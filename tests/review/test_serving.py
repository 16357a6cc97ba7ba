"""The command: what it refuses in one line, and what is left when it is killed."""

import json
import os
import shutil
import socket
import subprocess
import sys
import threading
from contextlib import suppress
from pathlib import Path

import pytest
from tests.review.processes import started
from tests.review.sites import photos, visitor

from feddiv.cli import main
from feddiv.core.errors import UserError
from feddiv.data.corrections import read
from feddiv.review.opening import check_writable, reviewable

pytestmark = pytest.mark.slow


@pytest.fixture
def site(tmp_path):
    return photos(tmp_path, count=300)


def test_nothing_decided_is_lost_when_it_is_killed(site):
    """A page decides one label after the other; the server is killed somewhere in between."""
    answered = []
    with started(site, "--reviewer", "anna") as server:
        page = visitor(server.address)
        home, cookie = page.enter()
        enough = threading.Event()

        def decide() -> None:
            with suppress(OSError):
                for place in range(300):
                    body = json.dumps({"places": [place], "choice": "suggested"}).encode()
                    path, own = f"{home}api/0/decide", f"http://127.0.0.1:{page.port}"
                    status, _, _ = page.ask(path, "POST", body, Cookie=cookie, Origin=own)
                    assert status == 200
                    answered.append(place)
                    if place == 20:
                        enough.set()

        expert = threading.Thread(target=decide)
        expert.start()
        assert enough.wait(60)
        server.kill()
        expert.join()
    assert 20 < len(answered) < 300
    names = reviewable(site)[0].open().names
    kept = {each.sample for each in read(site / "corrections.csv").decisions}
    assert kept >= {names[place] for place in answered}

    with started(site, "--reviewer", "anna") as server:
        page = visitor(server.address)
        home, cookie = page.enter()
        news = json.loads(page.ask(f"{home}api/0/news", Cookie=cookie)[2])
        assert set(map(int, news["states"])) >= set(answered)
        assert news["undo"]["actions"] >= len(answered)
        assert server.interrupt() == 0
    assert any("corrections.csv" in line for line in server.lines)
    assert not any("Traceback" in line for line in server.lines)


def test_a_line_that_a_crash_left_by_half_is_told(site):
    (site / "corrections.csv").write_text("sample,given_label,deci")
    with started(site) as server:
        assert any("its last line is written by half" in line for line in server.lines)
        page = visitor(server.address)
        home, cookie = page.enter()
        shown = json.loads(page.ask(f"{home}api/0/list", Cookie=cookie)[2])
        assert "its last line is written by half" in shown["notes"][-1]


def refusal(capsys, *arguments) -> str:
    with pytest.raises(SystemExit) as ended:
        main(["review", "--no-browser", *map(str, arguments)])
    assert ended.value.code == 2
    said = capsys.readouterr()
    [line] = said.err.splitlines()
    assert "http://" not in said.out
    return line


def test_a_port_in_use(site, capsys):
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        port = other.getsockname()[1]
        said = refusal(capsys, site, "--port", port)
        assert (
            f"--port {port}: is in use, perhaps by a review that still runs; name another" in said
        )


def test_nothing_to_review(tmp_path, site, capsys):
    assert "there is no such folder" in refusal(capsys, tmp_path / "none")
    assert "is no run and has no labels.csv" in refusal(capsys, tmp_path / "data")
    assert "--client 3" in refusal(capsys, site, "--client", "3")
    (tmp_path / "broken").mkdir()
    (tmp_path / "broken" / "labels.csv").write_text("a,b\n1,2\n")
    assert "is no list of labels" in refusal(capsys, tmp_path / "broken")
    assert "--reviewer" in refusal(capsys, site, "--reviewer", " ")
    assert "--data" in refusal(capsys, site, "--data", tmp_path / "none")


def test_a_file_of_other_data_is_told_before_anybody_decides(site, capsys):
    file = site / "corrections.csv"
    row = "x,y,skip,,z,2026-01-01T00:00:00Z"
    file.write_text(f"sample,given_label,decision,label,reviewer,time\n{row}\n")
    before = file.read_bytes()
    assert "other data" in refusal(capsys, site)
    assert file.read_bytes() == before


def test_a_folder_that_cannot_be_written(site):
    check_writable(site / "not" / "yet")
    with pytest.raises(UserError, match="cannot be written"):  # nobody can, not even root
        check_writable(Path("/proc/self"))
    (site / "corrections.csv").symlink_to(site / "elsewhere.csv")
    with pytest.raises(UserError, match="is a link, and no file elsewhere is written to"):
        check_writable(site)


def _as_somebody() -> list[str]:
    """What takes from root that it may write everywhere."""
    if os.geteuid() != 0:
        return []
    setpriv = shutil.which("setpriv")
    if setpriv is None:
        pytest.skip("root may write everywhere, and there is no setpriv to change that")
    without = "-dac_override,-dac_read_search"
    return [setpriv, f"--bounding-set={without}", f"--inh-caps={without}"]


@pytest.mark.parametrize("locked", ["folder", "file"])
def test_a_folder_that_is_read_only(site, locked):
    row = "cat/0.png,cat,skip,,z,2026-01-01T00:00:00Z"
    file = site / "corrections.csv"
    file.write_text(f"sample,given_label,decision,label,reviewer,time\n{row}\n")
    before = file.read_bytes()
    place = site if locked == "folder" else file
    place.chmod(0o500)
    command = [sys.executable, "-m", "feddiv", "review", str(site), "--no-browser"]
    try:
        done = subprocess.run(_as_somebody() + command, capture_output=True, text=True, timeout=60)
    finally:
        place.chmod(0o700)
    assert done.returncode == 2
    [line] = done.stderr.splitlines()
    assert f"{place}: cannot be written, so no decision could be kept (Permission denied)" in line
    assert file.read_bytes() == before


def test_without_the_extra_it_says_how_to_get_it(site, capsys, monkeypatch):
    monkeypatch.setitem(sys.modules, "uvicorn", None)
    assert "pip install 'feddiv[review]'" in refusal(capsys, site)
