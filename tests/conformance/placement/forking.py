"""Starts `berth`, each time as a fork of a process that has its modules loaded; `.venv` runs this.

A start takes most of a second of imports, and every file of the suite asks a server of its own.
Here they are done once. One line of standard input is a JSON list: words, environment, folder and
path of the log, which starts one, and the answer is its process id; or a process id, and the
answer is how it ended, or null while it runs.
"""

import gc
import json
import os
import sys
from typing import NoReturn

from berth.app import placement as _loaded  # noqa: F401 - `berth placement` imports it
from berth.cli.commands import serving as _command  # noqa: F401 - likewise
from berth.cli.main import main as berth


def _be(words: list[str], environment: dict[str, str], folder: str, log: str) -> NoReturn:
    """Be the process that was asked for."""
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
    """Start one and return its process id."""
    process = os.fork()
    if process == 0:
        _be(words, environment, folder, log)
    return process


def ended(process: int) -> int | None:
    """Return the exit code of one, or None; whoever has been told is not to ask again."""
    found, status = os.waitpid(process, os.WNOHANG)
    return os.waitstatus_to_exitcode(status) if found else None


def main() -> None:
    """Answer until standard input ends."""
    gc.freeze()  # so that no fork copies what it only looks at
    for line in sys.stdin:
        asked = json.loads(line)
        answer = ended(asked) if isinstance(asked, int) else start(*asked)
        print(json.dumps(answer), flush=True)  # noqa: T201 - the answer


if __name__ == "__main__":
    main()
