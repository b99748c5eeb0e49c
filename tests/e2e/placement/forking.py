"""Runs `openstack` commands, each in its own process, with `.venv-placement`.

The imports of the command take a second. Here they happen once, and each line of standard input, a
JSON list of arguments, is run in a fork. The answer is a line with a JSON object: exit code,
standard output and standard error.
"""

import json
import os
import sys
import tempfile
from typing import NoReturn

from openstackclient import shell  # type: ignore[import-not-found] # .venv-placement has it

from tests.e2e.preloading import preload


def _call(words: list[str], out: int, err: int) -> NoReturn:
    """Run the command in this process and exit."""
    os.dup2(out, 1)
    os.dup2(err, 2)
    code = 1
    try:
        code = int(shell.main(words) or 0)
    except SystemExit as end:
        code = end.code if isinstance(end.code, int) else 1
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


def run(words: list[str]) -> dict[str, object]:
    """Run one command and return its exit code, output and errors."""
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
        process = os.fork()
        if process == 0:
            _call(words, out.fileno(), err.fileno())
        _, status = os.waitpid(process, 0)
        said = []
        for file in (out, err):
            file.seek(0)
            said.append(file.read().decode("utf-8", "replace"))
    return {"code": os.waitstatus_to_exitcode(status), "out": said[0], "err": said[1]}


def main() -> None:
    """Run the commands that standard input names until it ends."""
    preload()
    for line in sys.stdin:
        print(json.dumps(run(json.loads(line))), flush=True)  # noqa: T201 - the answer


if __name__ == "__main__":
    main()
