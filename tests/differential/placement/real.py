"""The peer process: the real Placement in an interpreter of its own, asked over two pipes."""

import json
import subprocess
from pathlib import Path
from types import TracebackType
from typing import IO, NamedTuple, Self

ROOT = Path(__file__).parents[3]
PYTHON = ROOT / ".venv-placement" / "bin" / "python"
SCRIPT = ROOT / "bench" / "peers" / "placement_peer.py"
MISSING = "There is no .venv-placement with the real Placement; `make placement-peer` makes it."


class Said(NamedTuple):
    """What an API answers: the status, and the JSON of the body."""

    status: int
    json: object


class Real:
    """One running peer; use it as a context."""

    def __init__(self) -> None:
        self._process = subprocess.Popen(
            [str(PYTHON), str(SCRIPT)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, cwd=ROOT
        )
        self._read()  # its version

    def __enter__(self) -> Self:
        """Return the peer."""
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """End the process."""
        self._pipe(self._process.stdin).close()
        self._process.wait(timeout=10)
        self._pipe(self._process.stdout).close()

    def empty(self) -> None:
        """Have it forget all providers and allocations."""
        self._send({"empty": True})

    def ask(self, method: str, path: str, body: object = None, *, version: str = "1.39") -> Said:
        """Return its answer to a request of an administrator.

        Raises:
            RuntimeError: the peer has ended; what it said is on standard error.
        """
        return self._send({"method": method, "path": path, "body": body, "version": version})

    def _send(self, line: object) -> Said:
        into = self._pipe(self._process.stdin)
        into.write(json.dumps(line).encode() + b"\n")
        into.flush()
        said = json.loads(self._read())
        return Said(said["status"], said["json"])

    def _read(self) -> bytes:
        line = self._pipe(self._process.stdout).readline()
        if not line:
            code = self._process.wait(timeout=10)
            raise RuntimeError(f"{SCRIPT.name} ended with exit code {code}")
        return line

    @staticmethod
    def _pipe(pipe: IO[bytes] | None) -> IO[bytes]:
        assert pipe is not None
        return pipe
