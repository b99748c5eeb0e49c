"""Starts `berth` processes as forks of a process that has its modules loaded; `.venv` runs this.

Imports take most of a start, and tests start hundreds of processes, so the modules that the
arguments name are imported once here. A line of standard input is either a JSON object with the
arguments of `start`, which is answered with the id of the new process; or a process id, which is
answered with its exit code, or null while it runs.
"""

import ctypes
import gc
import json
import os
import sys
import traceback
from dataclasses import dataclass
from importlib import import_module
from importlib.metadata import entry_points
from typing import NoReturn

from berth.cli.commands import serving as _command  # noqa: F401 - `berth` imports it
from berth.cli.main import main as berth

_CLONE_NEWNET = 0x40000000


@dataclass(frozen=True, slots=True, kw_only=True)
class Start:
    """What a process is started with.

    Attributes:
        words: the arguments of `berth`.
        environment: all its environment variables.
        folder: its working directory.
        given: the file that is its standard input.
        output: the file to which it appends its standard output.
        errors: the file to which it appends its standard error, which may be that of the output.
        namespace: the file of the network namespace it runs in; empty for that of this process.
    """

    words: list[str]
    environment: dict[str, str]
    folder: str
    given: str
    output: str
    errors: str
    namespace: str


def _be(start: Start) -> NoReturn:
    """Run `berth` in the forked process, and exit."""
    code = 1
    try:
        os.environ.clear()
        os.environ.update(start.environment)
        os.chdir(start.folder)
        os.dup2(os.open(start.given, os.O_RDONLY), 0)
        for number, path in ((1, start.output), (2, start.errors)):
            os.dup2(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644), number)
        if start.namespace:
            _enter(start.namespace)
        code = berth(start.words)
    except BaseException:  # noqa: BLE001 - the process must end here, whatever happens
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


def _enter(namespace: str) -> None:
    """Move this process into a network namespace."""
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.setns(os.open(namespace, os.O_RDONLY | os.O_CLOEXEC), _CLONE_NEWNET):
        raise OSError(ctypes.get_errno(), f"the namespace {namespace} cannot be entered")


def start(one: Start) -> int:
    """Start a process and return its id."""
    process = os.fork()
    if process == 0:
        _be(one)
    return process


def ended(process: int) -> int | None:
    """Return the exit code of a process, None while it runs; it can be read only once."""
    found, status = os.waitpid(process, os.WNOHANG)
    return os.waitstatus_to_exitcode(status) if found else None


def main() -> None:
    """Answer each line until standard input ends."""
    for name in sys.argv[1:]:
        import_module(name)
    for group in entry_points().groups:
        if group.startswith("berth."):  # the rules, which every scheduler loads
            for one in entry_points(group=group):
                one.load()
    gc.freeze()  # so that a fork's garbage collector copies no pages
    for line in sys.stdin:
        asked = json.loads(line)
        answer = ended(asked) if isinstance(asked, int) else start(Start(**asked))
        print(json.dumps(answer), flush=True)  # noqa: T201 - the answer


if __name__ == "__main__":
    main()
