"""Runs files of Placement's own suite in worker processes of `.venv-placement`."""

import json
import os
import subprocess
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import asdict
from pathlib import Path
from queue import SimpleQueue
from types import TracebackType
from typing import IO, Any, Self

from tests.conformance.placement.reporting import FileReport
from tests.conformance.placement.servers import ENVIRONMENT, MISSING, PYTHON, ROOT, Choice

JOBS_MAX = 2
_GABBITS = "lib/python*/site-packages/placement/tests/functional/gabbits/*.yaml"


class RunError(Exception):
    """The suite could not be run; the message says why."""


def suite_files(names: Iterable[str] = ()) -> list[Path]:
    """Return the files of the installed suite, the longest first.

    Args:
        names: the names of files, with or without `.yaml`; without names, all files.

    Raises:
        RunError: the environment is missing, or a name is not a file of the suite.
    """
    if not PYTHON.exists():
        raise RunError(MISSING)
    found = {path.stem: path for path in ENVIRONMENT.glob(_GABBITS)}
    if not found:
        raise RunError(f"{ENVIRONMENT.name} has no gabbi files: is openstack-placement installed?")
    wanted = [name.removesuffix(".yaml") for name in names] or list(found)
    if strangers := sorted(set(wanted) - set(found)):
        raise RunError(
            f"not in the suite: {', '.join(strangers)}; it has {', '.join(sorted(found))}"
        )
    return sorted({found[name] for name in wanted}, key=lambda path: -path.stat().st_size)


class Worker:
    """A process that runs files one after another; use it as a context."""

    def __init__(self) -> None:
        self._process = subprocess.Popen(
            [str(PYTHON), "-m", "tests.conformance.placement.worker"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            cwd=ROOT,
            text=True,
            env={**os.environ, "PYTHONPATH": f"{ROOT / 'src'}"},
        )

    def __enter__(self) -> Self:
        """Return the worker."""
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """End the worker, which stops its server first."""
        if error is not None:
            self._process.terminate()
        self._pipe(self._process.stdin).close()
        self._process.wait()
        self._pipe(self._process.stdout).close()

    def run(self, path: Path, choice: Choice) -> FileReport:
        """Run one file against a server of its own.

        Raises:
            RunError: the worker has ended; its output is on standard error.
        """
        into = self._pipe(self._process.stdin)
        into.write(json.dumps({"path": str(path), "choice": asdict(choice)}) + "\n")
        into.flush()
        line = self._pipe(self._process.stdout).readline()
        if not line:
            raise RunError(f"worker.py ended with exit code {self._process.wait()} at {path.name}")
        answer: dict[str, Any] = json.loads(line)
        return FileReport.of(answer)

    @staticmethod
    def _pipe(pipe: IO[str] | None) -> IO[str]:
        assert pipe is not None
        return pipe


def run_files(paths: Sequence[Path], choice: Choice, jobs: int = JOBS_MAX) -> Iterator[FileReport]:
    """Run files and yield their reports in the order of `paths`.

    Args:
        paths: the files, from `suite_files`.
        choice: the server to ask; each file has a fresh one.
        jobs: the number of files that run concurrently.

    Raises:
        RunError: a worker has ended.
    """
    with ExitStack() as stack:
        idle: SimpleQueue[Worker] = SimpleQueue()
        for _ in range(min(jobs, JOBS_MAX, len(paths))):
            idle.put(stack.enter_context(Worker()))

        def run(path: Path) -> FileReport:
            worker = idle.get()
            try:
                return worker.run(path, choice)
            finally:
                idle.put(worker)

        pool = ThreadPoolExecutor(JOBS_MAX)
        try:
            yield from pool.map(run, paths)
        finally:
            pool.shutdown(wait=False, cancel_futures=True)
