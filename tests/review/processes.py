"""`feddiv review` as a process of its own."""

import re
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path


@dataclass
class Started:
    """A server in another process."""

    process: subprocess.Popen
    address: str
    lines: list[str] = field(default_factory=list)

    def kill(self) -> None:
        """As a power cut would."""
        self.process.kill()
        self.process.wait()

    def interrupt(self) -> int:
        """Ctrl-C; the exit code."""
        self.process.send_signal(signal.SIGINT)
        return self.process.wait(30)


@contextmanager
def started(folder: Path, *arguments: str) -> Iterator[Started]:
    command = [sys.executable, "-m", "feddiv", "review", str(folder), "--no-browser", *arguments]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    lines = []
    try:
        for line in process.stdout:
            lines.append(line)
            if found := re.search(r"http://\S+", line):
                break
        else:
            raise AssertionError(f"no address: {lines}")
        result = Started(process, found[0], lines)
        reader = threading.Thread(target=lambda: lines.extend(process.stdout), daemon=True)
        reader.start()
        yield result
        if process.poll() is not None:
            reader.join()
    finally:
        process.kill()
        process.wait()
        process.stdout.close()
