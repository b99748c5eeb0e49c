"""Runs programs of OpenStack, each call in a process of its own; `.venv-clients` runs this.

A start of such a program takes a second of imports. Here they are done once, and each line of
standard input has a fork of its own: a JSON list of the program, its words and its environment.
One line goes back: exit code, standard output and standard error.
"""

import gc
import importlib
import json
import os
import signal
import sys
import tempfile
from importlib.metadata import entry_points
from typing import NoReturn

from novaclient import shell as nova_shell  # type: ignore[import-not-found] # .venv-clients has it
from openstackclient import shell as openstack_shell  # type: ignore[import-not-found]

PROGRAMS = {"openstack": openstack_shell.main, "nova": nova_shell.main}
TIMEOUT_S = 60
GROUPS = "openstack."
"""What the names of groups of entry points begin with; the program loads them all at its start."""


def _call(program: str, words: list[str], out: int, err: int) -> NoReturn:
    """Be the program, for a while at most; it is asked nothing."""
    signal.alarm(TIMEOUT_S)
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.dup2(out, 1)
    os.dup2(err, 2)
    code = 1
    try:
        code = int(PROGRAMS[program](words) or 0)
    except SystemExit as end:
        code = end.code if isinstance(end.code, int) else 1
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


def run(program: str, words: list[str], environment: dict[str, str]) -> dict[str, object]:
    """Run one program and return what it said."""
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
        process = os.fork()
        if process == 0:
            os.environ.update(environment)
            _call(program, words, out.fileno(), err.fileno())
        _, status = os.waitpid(process, 0)
        said = []
        for file in (out, err):
            file.seek(0)
            said.append(file.read().decode("utf-8", "replace"))
    return {"code": os.waitstatus_to_exitcode(status), "out": said[0], "err": said[1]}


def main() -> None:
    """Answer until standard input ends."""
    points = entry_points()
    for group in points.groups:
        if group.startswith(GROUPS):
            for point in points.select(group=group):
                importlib.import_module(point.module)
    gc.freeze()  # so that no fork copies what it only looks at
    for line in sys.stdin:
        print(json.dumps(run(*json.loads(line))), flush=True)  # noqa: T201 - the answer


if __name__ == "__main__":
    main()
