"""Runs OpenStack's client programs, each call in its own process, with `.venv-clients`.

The imports of such a program take a second. Here they happen once, and each line of standard input
is run in a fork: a JSON list of the program, its arguments and its environment. The answer is a
line with a JSON object: exit code, standard output and standard error.
"""

import json
import os
import signal
import sys
import tempfile
from typing import NoReturn

from novaclient import shell as nova_shell  # type: ignore[import-not-found] # .venv-clients has it
from openstackclient import shell as openstack_shell  # type: ignore[import-not-found]

from tests.e2e.preloading import preload

PROGRAMS = {"openstack": openstack_shell.main, "nova": nova_shell.main}
TIMEOUT_S = 60


def _call(program: str, words: list[str], out: int, err: int) -> NoReturn:
    """Run the program in this process and exit; after `TIMEOUT_S` an alarm ends it."""
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
    """Run one program and return its exit code, output and errors."""
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
    """Run the programs that standard input names until it ends."""
    preload()
    for line in sys.stdin:
        print(json.dumps(run(*json.loads(line))), flush=True)  # noqa: T201 - the answer


if __name__ == "__main__":
    main()
