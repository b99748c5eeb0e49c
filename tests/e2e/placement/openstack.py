"""The `openstack` command of `.venv-placement`, one process per call (see forking.py)."""

import json
import os
import re
import subprocess
from configparser import ConfigParser
from typing import Any, Self

from tests.conformance.placement.servers import ENVIRONMENT, PYTHON, ROOT

_POINTS = "lib/python*/site-packages/osc_placement-*.dist-info/entry_points.txt"
_STOP_S = 20


def all_commands() -> set[str]:
    """Return the commands of osc-placement, as they are typed."""
    (path,) = ENVIRONMENT.glob(_POINTS)
    points = ConfigParser(delimiters=("=",))
    points.read(path, "utf-8")
    return {name.replace("_", " ") for name in points["openstack.placement.v1"]}


class RefusedError(Exception):
    """The command failed; the message contains what it printed."""


class Openstack:
    """Calls the command and records the subcommands; a context manager.

    Attributes:
        called: the subcommands so far, as they are typed.
    """

    def __init__(self, url: str, version: str | None) -> None:
        """Prepare calls to one server.

        Args:
            url: URL of the server.
            version: microversion to request; None lets the client negotiate.
        """
        self._options = ["--os-auth-type", "admin_token", "--os-endpoint", url]
        self._options += ["--os-token", "admin"]
        if version is not None:
            self._options += ["--os-placement-api-version", version]
        self._commands = sorted(all_commands(), key=len, reverse=True)
        self.called: set[str] = set()
        clean = {name: value for name, value in os.environ.items() if not name.startswith("OS_")}
        self._process = subprocess.Popen(
            [str(PYTHON), "-m", "tests.e2e.placement.forking"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            cwd=ROOT,
            env={**clean, "NO_PROXY": "127.0.0.1", "no_proxy": "127.0.0.1"},
            text=True,
        )

    def __enter__(self) -> Self:
        """Return this object."""
        return self

    def __exit__(self, *_: object) -> None:
        """End the process in which the commands were run."""
        self._process.communicate(timeout=_STOP_S)

    def say(self, line: str, *words: str) -> None:
        """Call a command and ignore its output.

        Raises:
            RefusedError: it failed.
        """
        self._call([*line.split(), *words])

    def ask(self, line: str, *words: str) -> Any:  # noqa: ANN401 - JSON, of any shape
        """Call a command and return its output, parsed as JSON.

        Raises:
            RefusedError: it failed.
        """
        return json.loads(self._call([*line.split(), *words, "--format", "json"]))

    def _call(self, words: list[str]) -> str:
        typed = " ".join(words)
        self.called.add(
            next(one for one in self._commands if re.match(rf"{re.escape(one)}( |$)", typed))
        )
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps([*self._options, *words]) + "\n")
        self._process.stdin.flush()
        done = json.loads(self._process.stdout.readline())
        if done["code"]:
            raise RefusedError(f"openstack {typed}: {done['err']}")
        shown: str = done["out"]
        return shown
