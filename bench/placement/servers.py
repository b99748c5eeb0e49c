"""The two sides: two `berth placement` processes, and OpenStack Placement with two workers."""

import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from http.client import HTTPConnection, HTTPException
from pathlib import Path
from typing import Final

from bench.errors import BenchError
from bench.peer import ROOT
from bench.placement.database import Database, execute, fresh_database
from bench.placement.furnishing import furnish_berth, furnish_real
from bench.placement.processor import Meter
from bench.placement.scenes import Node
from berth.lab.loopback import free_port

ENVIRONMENT: Final = ROOT / ".venv-placement"
UWSGI: Final = ENVIRONMENT / "bin" / "uwsgi"
MISSING: Final = (
    "There is no .venv-placement with OpenStack Placement, so its column stays empty; "
    "`make placement-peer` creates it."
)
_WORKERS: Final = 2
_READY_S: Final = 120.0
_STOP_S: Final = 20.0
_LOG_CHARS: Final = 3_000


class ServerError(BenchError):
    """A server did not start; the message contains the end of its log."""


@dataclass(frozen=True, slots=True)
class Side:
    """The running server processes of one side; `ports` are on the loopback address."""

    ports: tuple[int, ...]
    pids: tuple[int, ...]
    meter: Meter


@contextmanager
def berth_side(
    nodes: Sequence[Node], *, allocations: int = 0, processes: int = _WORKERS
) -> Iterator[Side]:
    """Run `berth placement` on a new database with these providers.

    Args:
        nodes: the providers, parents before children.
        allocations: number of consumers with an allocation on each provider.
        processes: number of server processes.

    Raises:
        ServerError: it does not answer in time.
    """
    with ExitStack() as stack:
        database = stack.enter_context(fresh_database())
        furnish_berth(database.url, nodes, allocations)
        execute(database.url, "ANALYZE")
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="berth-bench-")))
        ports: list[int] = []
        pids: list[int] = []
        for number in range(processes):
            port = free_port()
            words = [str(Path(sys.executable).with_name("berth")), "placement"]
            words += ["--listen", f"127.0.0.1:{port}", "--ledger", database.url]
            words += ["--auth", "noauth2"]
            settings = {"BERTH_LOG_LEVEL": "warning"}
            log = folder / f"{number}.log"
            ports.append(port)
            pids.append(stack.enter_context(_running(words, settings, log, port)))
        yield _side(ports, pids, database)


@contextmanager
def real_side(nodes: Sequence[Node]) -> Iterator[Side]:
    """Run OpenStack Placement on a new database with these providers.

    Raises:
        ServerError: it does not answer in time.
    """
    with ExitStack() as stack:
        database = stack.enter_context(fresh_database())
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="berth-bench-")))
        url = database.url.replace("postgresql:", "postgresql+psycopg2:", 1)
        (folder / "placement.conf").write_text(
            "[api]\nauth_strategy = noauth2\n"
            f"[placement_database]\nsync_on_startup = true\nconnection = {url}\n",
            "utf-8",
        )
        port = free_port()
        words = [str(UWSGI), "--http-socket", f"127.0.0.1:{port}", "--master"]
        words += ["--processes", str(_WORKERS), "--need-app", "--die-on-term"]
        words += ["--buffer-size", "65535", "--disable-logging"]
        # uWSGI closes each connection without announcing it.
        words += ["--add-header", "Connection: close"]
        words += ["--module", "placement.wsgi.api:application"]
        settings = {"OS_PLACEMENT_CONFIG_DIR": str(folder)}
        pid = stack.enter_context(_running(words, settings, folder / "log", port))
        furnish_real(database.url, nodes)  # the server has created the tables
        execute(database.url, "ANALYZE")
        yield _side([port], [pid], database)


def _side(ports: list[int], pids: list[int], database: Database) -> Side:
    meter = Meter(tuple(pids), database.name)
    meter.cpu_s()
    return Side(tuple(ports), tuple(pids), meter)


@contextmanager
def _running(words: list[str], settings: dict[str, str], log: Path, port: int) -> Iterator[int]:
    """Run a server, and yield its process id once it answers."""
    inherited = {name: one for name, one in os.environ.items() if not name.startswith("BERTH_")}
    with log.open("wb") as output:
        process = subprocess.Popen(
            words,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            cwd=log.parent,
            env={**inherited, **settings},
        )
    try:
        _await_answer(process, port, log)
        yield process.pid
    finally:
        process.send_signal(signal.SIGTERM)
        try:
            process.wait(_STOP_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def _await_answer(process: subprocess.Popen[bytes], port: int, log: Path) -> None:
    """Wait for any answer to GET /, which needs no token."""
    ends_s = time.monotonic() + _READY_S
    while time.monotonic() < ends_s and process.poll() is None:
        connection = HTTPConnection("127.0.0.1", port, timeout=_READY_S)
        try:
            connection.request("GET", "/")
            connection.getresponse().read()
        except (OSError, HTTPException):
            time.sleep(0.05)
        else:
            return
        finally:
            connection.close()
    said = log.read_text("utf-8", errors="replace")[-_LOG_CHARS:]
    raise ServerError(f"{process.args!r} does not answer:\n{said}")
