"""Servers that are forks of one process that has Berth loaded (see forking.py)."""

import json
import os
import signal
import subprocess
import threading
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Self

ROOT = Path(__file__).parents[1]
PYTHON = ROOT / ".venv" / "bin" / "python"
PLACEMENT = ("berth.app.placement",)
"""The modules that `berth placement` imports."""
ALL = (
    "berth.app.processes",
    "berth.app.virt",
    "berth.adapters.bus.rabbitmq",
    "berth.adapters.ledger.postgres.postgres_ledger",
)
"""The modules that the other commands which run Berth import."""

_POLL_S = 0.005


class Fork:
    """A forked process, with the methods of `subprocess.Popen` that start and stop a server.

    Attributes:
        pid: its process id.
        args: the words of its command.
        returncode: the exit code, None before the end of the process was noticed.
    """

    def __init__(self, forks: "Forks", pid: int, args: Sequence[str]) -> None:
        self.pid = pid
        self.args = args
        self.returncode: int | None = None
        self._forks = forks

    def poll(self) -> int | None:
        """Return the exit code, None while the process runs."""
        if self.returncode is None:
            self.returncode = self._forks.ask(self.pid)
        return self.returncode

    def wait(self, timeout: float | None = None) -> int:
        """Wait for the end of the process and return its exit code.

        Raises:
            TimeoutExpired: the process still runs after the timeout.
        """
        deadline_s = None if timeout is None else time.monotonic() + timeout
        while (code := self.poll()) is None:
            if deadline_s is not None and time.monotonic() > deadline_s:
                raise subprocess.TimeoutExpired(self.args, timeout or 0.0)
            time.sleep(_POLL_S)
        return code

    def send_signal(self, sig: int) -> None:
        """Send a signal unless the process has ended."""
        if self.poll() is None:
            os.kill(self.pid, sig)

    def kill(self) -> None:
        """Send SIGKILL unless the process has ended."""
        self.send_signal(signal.SIGKILL)


class Forks:
    """The process that forks, as a context; its servers must be stopped before the context ends.

    Args:
        modules: what it imports before it forks.
    """

    def __init__(self, modules: Sequence[str]) -> None:
        self._lock = threading.Lock()
        self._process = subprocess.Popen(
            [str(PYTHON), "-m", "tests.forking", *modules],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            cwd=ROOT,
            text=True,
        )

    def __enter__(self) -> Self:
        """Return the context."""
        return self

    def __exit__(self, *_: object) -> None:
        """End the process."""
        self._process.communicate()

    def start(
        self, words: Sequence[str], environment: Mapping[str, str], folder: Path, log: Path
    ) -> Fork:
        """Start `berth WORDS…` in a folder and return its process."""
        return Fork(self, self.ask([words, dict(environment), str(folder), str(log)]), words)

    def ask(self, line: object) -> Any:  # noqa: ANN401 - JSON, of any shape
        """Send a line to the forking process and return its answer."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        with self._lock:
            self._process.stdin.write(json.dumps(line) + "\n")
            self._process.stdin.flush()
            return json.loads(self._process.stdout.readline())
