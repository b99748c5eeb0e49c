"""A peer process: a program in its own interpreter that answers lines of JSON over two pipes."""

import os
import subprocess
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import IO, Self

import msgspec

ROOT = Path(__file__).parents[2]


class Peer:
    """A running peer; use it as a context.

    Args:
        python: the interpreter.
        script: the program; its first line of output describes it, each other one is an answer.
        environ: added to the environment of this process.

    Attributes:
        hello: the first line of output.
    """

    def __init__(
        self, python: Path, script: Path, environ: Mapping[str, str] | None = None
    ) -> None:
        self._name = script.name
        self._process = subprocess.Popen(
            [str(python), str(script)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            cwd=ROOT,
            env={**os.environ, **(environ or {})},
        )
        self.hello = self._read()

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

    def tell(self, value: object) -> bytes:
        """Write a value as a line of JSON, and return the line that answers it.

        Raises:
            RuntimeError: the peer has ended; its output is on standard error.
        """
        into = self._pipe(self._process.stdin)
        into.write(msgspec.json.encode(value) + b"\n")
        into.flush()
        return self._read()

    def _read(self) -> bytes:
        line = self._pipe(self._process.stdout).readline()
        if not line:
            code = self._process.wait(timeout=10)
            raise RuntimeError(f"{self._name} ended with exit code {code}")
        return line

    @staticmethod
    def _pipe(pipe: IO[bytes] | None) -> IO[bytes]:
        assert pipe is not None
        return pipe
