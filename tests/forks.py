"""Servers that are forks of one process that has Berth loaded (see forking.py)."""

import json
import os
import signal
import subprocess
import tempfile
import threading
import time
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any, Self

ROOT = Path(__file__).parents[1]
PYTHON = ROOT / ".venv" / "bin" / "python"
PLACEMENT = ("berth.app.placement",)
"""The modules that `berth placement` imports."""
ALL = (
    *PLACEMENT,
    "berth.app.processes",
    "berth.app.virt",
    "berth.adapters.bus.rabbitmq",
    "berth.adapters.ledger.postgres.postgres_ledger",
    # These create a ledger, speak HTTP, and start the server.
    "alembic.command",
    "mako.template",
    "httpcore",
    "uvicorn.lifespan.on",
)
"""The modules that all commands which run Berth import."""

_COMMAND_S = 60.0
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

    def start(  # noqa: PLR0913 - what a process is started with
        self,
        words: Sequence[str],
        environment: Mapping[str, str],
        folder: Path,
        log: Path,
        *,
        errors: Path | None = None,
        given: Path | None = None,
        namespace: str = "",
    ) -> Fork:
        """Start `berth WORDS…` and return its process.

        Args:
            words: the words of the command.
            environment: all its environment variables.
            folder: its working directory.
            log: the file of its output.
            errors: the file of its standard error; None appends it to the log.
            given: the file of its standard input; None is an empty one.
            namespace: the name of the network namespace to run in; empty for that of the tests.
        """
        asked = {
            "words": list(words),
            "environment": dict(environment),
            "folder": str(folder),
            "given": str(given or os.devnull),
            "output": str(log),
            "errors": str(errors or log),
            "namespace": namespace and f"/run/netns/{namespace}",
        }
        return Fork(self, self.ask(asked), words)

    def ask(self, line: object) -> Any:  # noqa: ANN401 - JSON, of any shape
        """Send a line to the forking process and return its answer."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        with self._lock:
            self._process.stdin.write(json.dumps(line) + "\n")
            self._process.stdin.flush()
            return json.loads(self._process.stdout.readline())


@cache
def forks() -> Forks:
    """Return the process that starts those of this session, which the end of the session ends."""
    return Forks(ALL)


def run_berth(
    *words: str,
    environment: Mapping[str, str] | None = None,
    folder: Path | None = None,
    given: str = "",
    timeout_s: float = _COMMAND_S,
) -> "subprocess.CompletedProcess[str]":
    """Run `berth WORDS…` to its end in a fork, and return its exit code, output and errors.

    Args:
        words: the words of the command.
        environment: all its environment variables; None for those of this process.
        folder: its working directory; None for that of this process.
        given: its standard input.
        timeout_s: the longest time it may take.

    Raises:
        TimeoutExpired: it took longer, and was killed.
    """
    with tempfile.TemporaryDirectory(prefix="berth-command-") as files:
        input_, output, errors = (Path(files) / name for name in ("input", "output", "errors"))
        for path, text in ((input_, given), (output, ""), (errors, "")):
            path.write_text(text, "utf-8")
        process = forks().start(
            words,
            os.environ if environment is None else environment,
            folder or Path.cwd(),
            output,
            errors=errors,
            given=input_,
        )
        try:
            code = process.wait(timeout_s)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
            raise
        return subprocess.CompletedProcess(words, code, output.read_text(), errors.read_text())
