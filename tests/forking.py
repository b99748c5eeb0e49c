"""Starts `berth` processes as forks of a process that has its modules loaded; `.venv` runs this.

Imports take most of a start, and tests start hundreds of processes, so the modules that the
arguments name are imported once here. A line of standard input is either a JSON list of words,
environment, folder and log path, which starts a process and is answered with its id; or a process
id, which is answered with its exit code, or null while it runs.
"""

import gc
import json
import os
import sys
from importlib import import_module
from typing import NoReturn

from berth.cli.commands import serving as _command  # noqa: F401 - `berth` imports it
from berth.cli.main import main as berth


def _be(words: list[str], environment: dict[str, str], folder: str, log: str) -> NoReturn:
    """Run `berth` in the forked process, and exit."""
    os.environ.clear()
    os.environ.update(environment)
    os.chdir(folder)
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    os.dup2(os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644), 1)
    os.dup2(1, 2)
    code = 1
    try:
        code = berth(words)
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


def start(words: list[str], environment: dict[str, str], folder: str, log: str) -> int:
    """Start a process and return its id."""
    process = os.fork()
    if process == 0:
        _be(words, environment, folder, log)
    return process


def ended(process: int) -> int | None:
    """Return the exit code of a process, None while it runs; it can be read only once."""
    found, status = os.waitpid(process, os.WNOHANG)
    return os.waitstatus_to_exitcode(status) if found else None


def main() -> None:
    """Answer each line until standard input ends."""
    for name in sys.argv[1:]:
        import_module(name)
    gc.freeze()  # so that a fork's garbage collector copies no pages
    for line in sys.stdin:
        asked = json.loads(line)
        answer = ended(asked) if isinstance(asked, int) else start(*asked)
        print(json.dumps(answer), flush=True)  # noqa: T201 - the answer


if __name__ == "__main__":
    main()
