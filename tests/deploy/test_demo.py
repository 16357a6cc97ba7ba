"""The demonstration: a real SuperLink and real SuperNodes over TLS, and nothing left of them."""

import csv
import os
import re
import signal
import socket
import subprocess
import sys
import sysconfig
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

pytest.importorskip("flwr")

from tests.deploy.marked import Marked

from feddiv.core.errors import UserError
from feddiv.data.texts.texts import Texts
from feddiv.deploy.demo import Limits, _made, demo
from feddiv.deploy.demo_sites import HABITS, Stock, write_demo_data
from feddiv.deploy.demo_stock import demo_digits, text_writer
from feddiv.deploy.deployment import init
from feddiv.deploy.processes import Failed, Processes
from feddiv.deploy.site_names import address

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(sys.platform != "linux", reason="looks into /proc"),
]

COMMAND = (
    "import signal; signal.signal(signal.SIGINT, signal.default_int_handler);"
    "from feddiv.cli import main; main()"
)
STOPPED = "feddiv: stopped, the server and the sites too\n"


class Demonstrations(Marked):
    """The command, with a mark of this test."""

    def demo(self, folder: Path, *arguments: str) -> subprocess.Popen[str]:
        return subprocess.Popen(
            [sys.executable, "-c", COMMAND, "deploy", "demo", *arguments],
            cwd=folder,
            env=self.environment | {"PYTHONUNBUFFERED": "1"},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )


@pytest.fixture
def marked(environment: dict[str, str]) -> Iterator[Demonstrations]:
    with Demonstrations(environment) as marked:
        yield marked


def follow(process: subprocess.Popen[str], until: str) -> str:
    """Read what it says up to a line with these words."""
    assert process.stdout is not None
    said = ""
    for line in process.stdout:
        said += line
        if until in line:
            return said
    raise AssertionError(f"{said}{process.stderr and process.stderr.read()}")


def test_the_sites_data_are_digits_in_folders_of_their_given_labels(tmp_path):
    data = write_demo_data(tmp_path, demo_digits())
    assert [site.name for site in data.sites] == list(HABITS)
    north, south, east = data.sites
    assert (north.wrong, len(south.wrong), len(east.wrong)) == (
        frozenset(),
        round(0.25 * south.samples),
        round(0.6 * east.samples),
    )
    assert len({north.samples, south.samples, east.samples}) == 3
    folders = {site.name: {path.name for path in site.data.iterdir()} for site in data.sites}
    assert folders["north"] == set(data.stock.classes)
    assert folders["east"] == set(data.stock.classes) - {"7"}
    names = [path.name for site in data.sites for path in site.data.glob("*/*.png")]
    assert len(names) == len(set(names)) == sum(site.samples for site in data.sites)
    image = Image.open(next(south.data.glob("*/*.png")))
    assert (image.mode, np.asarray(image).shape) == ("L", (8, 8))
    assert len(list(data.test.glob("*/*.png"))) == 360
    assert all((south.data / path).is_file() for path in south.wrong)


def test_texts_are_dealt_like_digits(tmp_path):
    texts = Texts.of([f"text {n}" for n in range(1300)])
    stock = Stock(
        what="texts",
        classes=("a", "b", "c", "d"),
        labels=np.arange(1300) % 4,
        test_labels=np.arange(8) % 4,
        ending=".txt",
        write=text_writer(texts),
        write_test=text_writer(texts),
        data={"encoder": "wordllama"},
        model="mlp",
    )
    data = write_demo_data(tmp_path, stock)
    _, south, east = data.sites
    assert len(south.wrong) == round(0.25 * south.samples)
    assert {path.name for path in east.data.iterdir()} == {"a", "c", "d"}
    for path in south.data.glob("*/*.txt"):
        number = int(path.stem)
        assert path.read_text() == f"text {number}"
        right = stock.classes[number % 4] == path.parent.name
        assert right == (path.relative_to(south.data).as_posix() not in south.wrong)
    assert len(list(data.test.glob("*/*.txt"))) == 8


def test_two_that_begin_in_the_same_second_have_folders_of_their_own(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    begun = []
    for _ in range(20):  # some of them in one second
        begun.append(_made(None))
        (begun[-1] / "data").mkdir()
    assert len(set(begun)) == 20
    with pytest.raises(UserError, match="is not empty"):
        _made(begun[0])
    with pytest.raises(UserError, match="cannot be written to"):
        _made(Path("/proc/nowhere"))


@pytest.mark.full
def test_three_sites_train_together_and_nothing_is_left(tmp_path, marked):
    process = marked.demo(tmp_path, "--out", "shown", "--rounds", "2")
    out, err = process.communicate(timeout=600)
    assert process.returncode == 0, err
    assert marked.find() == []
    assert "round 2 of 2: test accuracy" in out
    accuracy = re.search(r"^Test accuracy ([\d.]+)%", out, re.MULTILINE)
    assert accuracy is not None
    assert float(accuracy[1]) > 50  # a guess has 10
    for name in HABITS:
        audit = tmp_path / "shown" / "deployment" / "sites" / name / "site" / "labels.csv"
        assert str(audit) in out
        with audit.open(newline="") as opened:
            rows = list(csv.DictReader(opened))
        assert len(rows) == len(list((tmp_path / "shown" / "data" / name).glob("*/*.png")))


@pytest.mark.full
def test_ctrl_c_in_the_middle_takes_everything_down(tmp_path, marked):
    process = marked.demo(tmp_path)
    follow(process, "sites connected")
    assert len(marked.find(program="flower-supernode")) >= 3
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=60)
    assert marked.find() == []
    assert (process.returncode, err) == (130, STOPPED)


@pytest.mark.full
def test_a_site_that_dies_ends_the_demonstration_in_one_line(tmp_path, marked):
    process = marked.demo(tmp_path, "--out", "shown")
    follow(process, "sites connected")
    south = next(
        process
        for process in marked.find(program="flower-supernode")
        if b"sites/south/" in Path(f"/proc/{process}/cmdline").read_bytes()
        and b"keeper" not in Path(f"/proc/{process}/cmdline").read_bytes()
    )
    os.kill(south, signal.SIGKILL)
    _, err = process.communicate(timeout=60)
    assert marked.find() == []
    log = tmp_path / "shown" / "logs" / "south.log"
    assert (process.returncode, err) == (
        1,
        f"feddiv: south ended with exit code 137; its log: {log}\n",
    )
    assert log.is_file()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_a_stop_while_it_starts_leaves_nothing_also_by_sigkill(tmp_path, marked, number):
    process = marked.demo(tmp_path)
    follow(process, "with a wrong label")
    patience = time.monotonic() + 60
    while not marked.find(program="flower-superexec") and time.monotonic() < patience:
        time.sleep(0.1)
    process.send_signal(number)
    _, err = process.communicate(timeout=60)
    if number == signal.SIGTERM:
        assert marked.find() == []
        assert (process.returncode, err) == (143, STOPPED)
    patience = time.monotonic() + 20  # nobody waits for the keepers after SIGKILL
    while marked.find() and time.monotonic() < patience:
        time.sleep(0.1)
    assert marked.find() == []


def test_a_server_that_does_not_start_in_time_is_named_with_its_log(tmp_path):
    with pytest.raises(Failed) as failed:
        demo(tmp_path / "shown", 1, lambda line: None, Limits(listening=0.3))
    assert re.fullmatch(
        r"superlink did not listen on 127\.0\.0\.1:\d+ within 0\.3 s; "
        rf"its log: {re.escape(str(tmp_path))}/shown/logs/superlink\.log",
        str(failed.value),
    )


def test_a_port_in_use_ends_the_superlink_and_its_log_tells(tmp_path, environment):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        where = address(f"127.0.0.1:{taken.getsockname()[1]}")
        made = init(tmp_path / "deployment", ["north"], where)
        path = os.pathsep.join([sysconfig.get_path("scripts"), environment["PATH"]])
        with Processes(tmp_path, environment | {"PATH": path}) as processes:
            link = processes.start("superlink", [str(made.server / "superlink.sh")])
            with pytest.raises(Failed, match="superlink ended with exit code"):
                processes.wait_until(lambda: False, 60, link, "never")
    assert "address already in use" in (tmp_path / "superlink.log").read_text()
