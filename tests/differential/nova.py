"""The peer process: the real Nova in an interpreter of its own, asked over two pipes."""

import os
import subprocess
from pathlib import Path
from types import TracebackType
from typing import IO, Self

import msgspec

from tests.differential.answers import Answer
from tests.differential.wire import Json

ROOT = Path(__file__).parents[2]
PYTHON = ROOT / ".venv-nova" / "bin" / "python"
SCRIPT = ROOT / "bench" / "peers" / "nova" / "serve.py"
MISSING = "There is no .venv-nova to run the real Nova in; `make nova` makes it."


class FilterFacts(msgspec.Struct):
    """What Nova says of a filter beside its code."""

    once_per_request: bool
    run_on_rebuild: bool


class WeigherFacts(msgspec.Struct):
    """What Nova says of a weigher beside its code: fixed ends and the default multiplier."""

    floor: float | None
    ceiling: float | None
    multiplier: float


class Facts(msgspec.Struct):
    """What the peer says of itself when it starts."""

    version: str
    filters: dict[str, FilterFacts]
    weighers: dict[str, WeigherFacts]


class Nova:
    """One running peer; use it as a context.

    Attributes:
        facts: what it says of itself.
    """

    def __init__(self) -> None:
        self._process = subprocess.Popen(
            [str(PYTHON), str(SCRIPT)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            cwd=ROOT,
            env={**os.environ, "PYTHONHASHSEED": "0"},  # it walks through sets, and may raise
        )
        self.facts = msgspec.json.decode(self._read(), type=Facts)

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

    def ask(self, case: Json) -> Answer:
        """Return the peer's answer to a case.

        Raises:
            RuntimeError: the peer has ended; what it said is on standard error.
        """
        into = self._pipe(self._process.stdin)
        into.write(msgspec.json.encode(case) + b"\n")
        into.flush()
        return msgspec.json.decode(self._read(), type=Answer, strict=False)

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
