"""A whole Berth as a process of its own, and what it takes of the processor."""

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import httpx

from bench.errors import BenchError

_READY_S = 120.0
_POLL_S = 0.1
_STOP_S = 15.0
_LOG_CHARS = 3000


class ServiceError(BenchError):
    """Berth did not start, or did not do what it was asked to."""


@dataclass(frozen=True, slots=True)
class Service:
    """A running `berth up`."""

    host: str
    port: int
    pid: int

    @property
    def url(self) -> str:
        """Where it answers."""
        return f"http://{self.host}:{self.port}"

    def cpu_s(self) -> float | None:
        """Return the CPU seconds that all its threads took so far; None where no /proc is."""
        try:
            text = Path(f"/proc/{self.pid}/stat").read_text("utf-8")
        except OSError:
            return None
        user, system = text.rpartition(")")[2].split()[11:13]
        return (int(user) + int(system)) / os.sysconf("SC_CLK_TCK")


@contextmanager
def berth_up(folder: Path, *, fake_hosts: int) -> Iterator[Service]:
    """Start Berth on a SQLite ledger in `folder`, wait until it answers, and stop it at the end.

    Raises:
        ServiceError: it does not answer in time; the message holds the end of its log.
    """
    host, port = "127.0.0.1", free_port()
    berth = Path(sys.executable).with_name("berth")
    command = [str(berth), "up", "--fake-hosts", str(fake_hosts)]
    settings = {
        "BERTH_API_LISTEN": f"{host}:{port}",
        "BERTH_LEDGER_DATA_DIR": str(folder),
        "BERTH_LOG_LEVEL": "warning",
    }
    log = folder / "berth.log"
    with log.open("wb") as output:
        process = subprocess.Popen(
            command, env={**os.environ, **settings}, stdout=output, stderr=subprocess.STDOUT
        )
    try:
        service = Service(host, port, process.pid)
        _await_ready(service, process, log)
        yield service
    finally:
        process.send_signal(signal.SIGTERM)
        try:
            process.wait(_STOP_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def free_port() -> int:
    """Return a port of the loopback address that nobody listens on now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def _await_ready(service: Service, process: subprocess.Popen[bytes], log: Path) -> None:
    ends_s = time.monotonic() + _READY_S
    while time.monotonic() < ends_s and process.poll() is None:
        try:
            if httpx.get(f"{service.url}/v2.1/flavors", trust_env=False).is_success:
                return
        except httpx.TransportError:
            pass
        time.sleep(_POLL_S)
    said = log.read_text("utf-8", errors="replace")[-_LOG_CHARS:]
    raise ServiceError(f"`berth up` does not answer at {service.url}:\n{said}")
