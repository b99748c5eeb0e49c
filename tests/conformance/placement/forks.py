"""Servers that are forks of one process that has Berth loaded (see forking.py)."""

import json
import os
import signal
import subprocess
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Self

ROOT = Path(__file__).parents[3]
PYTHON = ROOT / ".venv" / "bin" / "python"

_POLL_S = 0.005


class Fork:
    """A forked process, with the methods of `subprocess.Popen` that start and stop a server.

    Attributes:
        args: the words of its command.
    """

    def __init__(self, forks: "Forks", pid: int, args: Sequence[str]) -> None:
        self.args = args
        self._forks = forks
        self._pid = pid
        self._code: int | None = None

    def poll(self) -> int | None:
        """Return the exit code, None while the process runs."""
        if self._code is None:
            self._code = self._forks.ask(self._pid)
        return self._code

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
            os.kill(self._pid, sig)

    def kill(self) -> None:
        """Send SIGKILL unless the process has ended."""
        self.send_signal(signal.SIGKILL)


class Forks:
    """The process that forks, as a context; its servers must be stopped before the context ends."""

    def __init__(self) -> None:
        self._process = subprocess.Popen(
            [str(PYTHON), "-m", "tests.conformance.placement.forking"],
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
        self._process.stdin.write(json.dumps(line) + "\n")
        self._process.stdin.flush()
        return json.loads(self._process.stdout.readline())
