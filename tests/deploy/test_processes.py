"""Real processes that die, hang, hide their children or are killed with whoever started them."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from feddiv.deploy.keeper import GRACE
from feddiv.deploy.processes import Failed, Processes

pytestmark = [
    pytest.mark.slow,
    pytest.mark.usefixtures("terminal"),
    pytest.mark.skipif(os.name != "posix", reason="processes of POSIX"),
]

# The first thread ends before the process, as it may at an end of any kind: it is a zombie for now.
LEADERLESS = """
import ctypes, os, pathlib, sys, threading, time
def last():
    time.sleep(1)
    os._exit(3)
threading.Thread(target=last).start()
pathlib.Path(sys.argv[1]).write_text(str(os.getpid()))
ctypes.CDLL(None).syscall({"x86_64": 60, "aarch64": 93}[os.uname().machine], 0)  # exit(2)
"""
SLEEP = "import time; time.sleep(600)"
# A helper as Flower starts them: in a session of its own. It notes its number and won't be asked.
STUBBORN = """
import os, pathlib, signal, sys, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
pathlib.Path(sys.argv[1]).write_text(str(os.getpid()))
time.sleep(600)
"""
PARENT = f"""
import subprocess, sys, time
subprocess.Popen([sys.executable, "-c", {STUBBORN!r}, sys.argv[1]], start_new_session=True)
time.sleep(float(sys.argv[2]))
"""
STARTER = f"""
import os, pathlib, sys, time
from feddiv.core import interrupts
from feddiv.deploy.processes import Processes
with interrupts.handled(), interrupts.allowed():
    with Processes(pathlib.Path("logs"), os.environ) as processes:
        processes.start("one", [sys.executable, "-c", {PARENT!r}, sys.argv[1], "600"])
        time.sleep(600)
"""


def python(code: str, *arguments: object) -> list[str]:
    return [sys.executable, "-c", code, *map(str, arguments)]


def number(file: Path) -> int:
    """The process that wrote its number there."""
    patience = time.monotonic() + 20
    while not (file.exists() and file.read_text()):
        assert time.monotonic() < patience
        time.sleep(0.05)
    return int(file.read_text())


def alive(process: int) -> bool:
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    return True


def gone(process: int, within: float) -> bool:
    patience = time.monotonic() + within
    while alive(process) and time.monotonic() < patience:
        time.sleep(0.05)
    return not alive(process)


@pytest.fixture
def processes(tmp_path: Path, environment: dict[str, str]) -> Processes:
    return Processes(tmp_path / "logs", environment)


def test_a_child_that_dies_is_named_with_its_log_and_the_others_end(processes, tmp_path):
    failure = "import sys; print('out of luck', flush=True); sys.exit(3)"
    with processes:
        other = processes.start("other", python(SLEEP))
        processes.start("one", python(failure))
        with pytest.raises(Failed) as failed:
            processes.wait_until(lambda: False, 20, other, "never")
    log = tmp_path / "logs" / "one.log"
    assert str(failed.value) == f"one ended with exit code 3; its log: {log}"
    assert log.read_text() == "out of luck\n"
    assert other.code == 128 + signal.SIGTERM


def test_a_child_killed_by_a_signal_has_the_shells_code(processes):
    with processes:
        one = processes.start("one", ["sh", "-c", "kill -KILL $$"])
        with pytest.raises(Failed, match="exit code 137"):
            processes.wait_until(lambda: False, 20, one, "never")


def test_a_child_that_hangs_is_waited_for_so_long_and_no_longer(processes):
    begun = time.monotonic()
    told = r"^one did not listen within 0\.5 s; its log: .*one\.log$"
    with processes:
        one = processes.start("one", python(SLEEP))
        with pytest.raises(Failed, match=told):
            processes.wait_until(lambda: False, 0.5, one, "did not listen")
    assert one.code is not None
    assert time.monotonic() - begun < GRACE


def test_a_command_that_does_not_exist_is_told_in_its_log(processes, tmp_path):
    with pytest.raises(Failed, match="exit code 1; its log"), processes:
        processes.ask("one", [str(tmp_path / "nothing")], 20)
    assert "No such file" in (tmp_path / "logs" / "one.log").read_text()


def test_the_answer_of_a_command_is_what_it_said_on_stdout(processes):
    both = "import sys; print('yes'); print('warning', file=sys.stderr)"
    with processes:
        assert processes.ask("one", python(both), 20) == "yes\n"
        assert processes.ask("one", python("print('no')"), 20) == "no\n"
        processes.check()  # that they ended is no trouble


def test_a_command_that_ends_badly_or_late_is_named(processes):
    with processes:
        with pytest.raises(Failed, match=r"^one failed with exit code 4; its log: "):
            processes.ask("one", python("raise SystemExit(4)"), 20)
        with pytest.raises(Failed, match=r"^two did not end within 0\.3 s; its log: "):
            processes.ask("two", python(SLEEP), 0.3)


def test_helpers_in_sessions_of_their_own_are_ended_also_if_they_refuse(processes, tmp_path):
    note = tmp_path / "number"
    with processes:
        processes.start("one", python(PARENT, note, 600))
        helper = number(note)
        assert os.getsid(helper) == helper
    assert not alive(helper)


@pytest.mark.skipif(sys.platform != "linux", reason="orphans are adopted on Linux only")
def test_a_helper_that_outlives_its_parent_is_ended_too(processes, tmp_path):
    note = tmp_path / "number"
    with processes:
        one = processes.start("one", python(PARENT, note, 1))
        helper = number(note)
        processes.wait_until(lambda: one.code is not None, 20, one, "did not end", ends=one)
        assert one.code == 0
        assert not alive(helper)


@pytest.mark.parametrize("killer", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGKILL])
def test_however_the_starter_ends_nothing_is_left(tmp_path, environment, killer):
    note = tmp_path / "number"
    starter = subprocess.Popen(
        python("import signal; signal.signal(2, signal.default_int_handler)\n" + STARTER, note),
        cwd=tmp_path,
        env=environment,
        stderr=subprocess.DEVNULL,
    )
    helper = number(note)
    starter.send_signal(killer)
    starter.wait(20)
    # After SIGKILL nobody waits for the keeper, which gives its flock some time.
    assert gone(helper, GRACE + 3 if killer == signal.SIGKILL else 0)


@pytest.mark.skipif(sys.platform != "linux", reason="the kernel's parent-death signal")
def test_a_command_dies_with_its_keeper(processes, tmp_path):
    note = tmp_path / "number"
    with processes:
        one = processes.start("one", python(STUBBORN, note))
        command = number(note)
        os.kill(one.keeper.pid, signal.SIGKILL)
        one.keeper.wait(20)
        assert gone(command, 5) or _zombie(command)


def _zombie(process: int) -> bool:
    """Dead, and left to whoever adopts orphans on this machine."""
    return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0] == "Z"


@pytest.mark.skipif(
    sys.platform != "linux" or os.uname().machine not in ("x86_64", "aarch64"),
    reason="a call of the kernel by its number",
)
def test_the_exit_code_of_a_command_that_is_just_ending_is_waited_for(processes, tmp_path):
    note = tmp_path / "number"
    with processes:
        one = processes.start("one", python(LEADERLESS, note))
        process = number(note)
        while not _zombie(process):
            time.sleep(0.01)
    assert one.code == 3
