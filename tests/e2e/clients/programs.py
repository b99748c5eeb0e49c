"""Calls of the real programs, in forks of one process that has them loaded (see forking.py)."""

import json
import shlex
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Self

from tests.e2e.clients.clouds import PYTHON, ROOT, client_environment

_STOP_S = 20


@dataclass(frozen=True)
class Done:
    """What a program said.

    Attributes:
        line: as it was typed.
        code: its exit code.
        out: its standard output.
        err: its standard error.
    """

    line: str
    code: int
    out: str
    err: str

    def __str__(self) -> str:
        return f"{self.line}\nexit code {self.code}\n{self.out}\n{self.err}"

    @property
    def json(self) -> Any:  # noqa: ANN401 - JSON, of any shape
        """The output, read as JSON."""
        assert self.code == 0, str(self)
        return json.loads(self.out)


class Programs:
    """Calls programs; a context."""

    def __init__(self) -> None:
        self._process = subprocess.Popen(
            [str(PYTHON), "-m", "tests.e2e.clients.forking"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            cwd=ROOT,
            env=client_environment({}),
            text=True,
        )

    def __enter__(self) -> Self:
        """Return it."""
        return self

    def __exit__(self, *_: object) -> None:
        """End the process in which the programs were run."""
        self._process.communicate(timeout=_STOP_S)

    def call(self, line: str, environment: Mapping[str, str]) -> Done:
        """Call a program as it is typed, and never see a traceback."""
        program, *words = shlex.split(line)
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps([program, words, dict(environment)]) + "\n")
        self._process.stdin.flush()
        said = json.loads(self._process.stdout.readline())
        done = Done(line, said["code"], said["out"], said["err"])
        assert "Traceback" not in done.out + done.err, str(done)
        return done
