"""A complete Berth in its own process, and the processor time that it uses."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import httpx

from bench.errors import BenchError
from berth.lab.loopback import free_port

_READY_S = 120.0
_POLL_S = 0.1
_STOP_S = 30.0
_LOG_CHARS = 3000


class ServiceError(BenchError):
    """Berth did not start, or a request to it failed."""


@dataclass(frozen=True, slots=True)
class Service:
    """A running process of Berth."""

    host: str
    port: int
    pid: int

    @property
    def url(self) -> str:
        """The base URL of its HTTP API."""
        return f"http://{self.host}:{self.port}"

    def cpu_s(self) -> float | None:
        """Return the CPU seconds of all its threads so far; None without /proc."""
        return cpu_s_of(self.pid)


def cpu_s_of(pid: int) -> float | None:
    """Return the CPU seconds of all threads of a process so far; None without /proc."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text("utf-8")
    except OSError:
        return None
    user, system = text.rpartition(")")[2].split()[11:13]
    return (int(user) + int(system)) / os.sysconf("SC_CLK_TCK")


@contextmanager
def berth_up(folder: Path, *, fake_hosts: int) -> Iterator[Service]:
    """Start Berth on a SQLite ledger in `folder`, wait until it answers, and stop it at the end.

    Raises:
        ServiceError: it does not answer in time; the message contains the end of its log.
    """
    host, port = "127.0.0.1", free_port()
    berth = Path(sys.executable).with_name("berth")
    command = [str(berth), "up", "--fake-hosts", str(fake_hosts)]
    settings = {
        "BERTH_API_LISTEN": f"{host}:{port}",
        "BERTH_LEDGER_DATA_DIR": str(folder),
        "BERTH_LOG_LEVEL": "warning",
    }
    with running(
        Service(host, port, 0), command, settings, folder / "berth.log", path="/v2.1/flavors"
    ) as service:
        yield service


@contextmanager
def running(  # noqa: PLR0913 - the command and the conditions for readiness
    at: Service,
    command: Sequence[str],
    settings: Mapping[str, str],
    log: Path,
    *,
    path: str = "/readyz",
    says: str = "",
    ready_s: float = _READY_S,
) -> Iterator[Service]:
    """Run a process of Berth, wait until it is ready, and stop it at the end.

    Args:
        at: address of the process; its pid is ignored.
        command: the command line.
        settings: environment variables, in addition to those of this process.
        log: file for the output.
        path: path that must answer with success before the process counts as ready.
        says: text that must be in the log before the process counts as ready.
        ready_s: seconds after which the process is given up.

    Raises:
        ServiceError: it is not ready in time; the message contains the end of its log.
    """
    with log.open("wb") as output:
        process = subprocess.Popen(
            command, env={**os.environ, **settings}, stdout=output, stderr=subprocess.STDOUT
        )
    try:
        ends_s = time.monotonic() + ready_s
        while not (_answers(f"{at.url}{path}") and says in _text_of(log)):
            if time.monotonic() > ends_s or process.poll() is not None:
                said = _text_of(log)[-_LOG_CHARS:]
                raise ServiceError(f"`{' '.join(command[-3:])}` is not ready at {at.url}:\n{said}")
            time.sleep(_POLL_S)
        yield Service(at.host, at.port, process.pid)
    finally:
        process.send_signal(signal.SIGTERM)
        try:
            process.wait(_STOP_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def _answers(url: str) -> bool:
    try:
        return httpx.get(url, trust_env=False).is_success
    except httpx.TransportError:
        return False


def _text_of(log: Path) -> str:
    return log.read_text("utf-8", errors="replace")
