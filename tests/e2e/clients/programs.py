"""Calls to the real programs, in forks of one process that has loaded them (see forking.py)."""

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
    """The result of a program.

    Attributes:
        line: the command line.
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
        """The output, parsed as JSON; the program must have succeeded."""
        assert self.code == 0, str(self)
        return json.loads(self.out)


class Programs:
    """Calls programs; a context manager that ends the process in which they are loaded."""

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
        """Return this object."""
        return self

    def __exit__(self, *_: object) -> None:
        """End the process in which the programs were run."""
        self._process.communicate(timeout=_STOP_S)

    def call(self, line: str, environment: Mapping[str, str]) -> Done:
        """Run a command line and return its result, which must not contain a traceback."""
        program, *words = shlex.split(line)
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps([program, words, dict(environment)]) + "\n")
        self._process.stdin.flush()
        said = json.loads(self._process.stdout.readline())
        done = Done(line, said["code"], said["out"], said["err"])
        assert "Traceback" not in done.out + done.err, str(done)
        return done
