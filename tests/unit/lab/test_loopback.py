"""Tests for choosing ports for servers that are about to start."""

import socket
import subprocess
import sys

import pytest

from berth.domain.errors import UnavailableError
from berth.lab import loopback
from berth.lab.loopback import free_port, free_ports


def test_each_is_another_one_below_those_of_connections() -> None:
    """Free ports are distinct and below the range of outgoing connections."""
    ports = free_ports(50)
    assert len(set(ports)) == 50
    assert all(20_000 <= port < 32_768 for port in ports)


def test_one_that_somebody_listens_on_is_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    """A port with a listener is left out, and an error says when no port is left."""
    taken = free_port()
    free_ports(64)  # The first one's mark is gone.
    monkeypatch.setattr(loopback, "_PORTS", range(taken, taken + 1))
    with socket.socket() as listener:
        listener.bind((loopback.HOST, taken))
        listener.listen()
        with pytest.raises(UnavailableError, match="cannot reserve 1 ports: only 0 of"):
            free_port()
    assert free_port() == taken


@pytest.mark.skipif(sys.platform != "linux", reason="ports are marked on Linux alone")
def test_one_that_another_process_was_given_is_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    """A port given to another process is left out until that process ends."""
    script = "from berth.lab.loopback import free_port; print(free_port(), flush=True); input()"
    with subprocess.Popen(
        [sys.executable, "-c", script], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as other:
        assert other.stdout is not None
        port = int(other.stdout.readline())
        monkeypatch.setattr(loopback, "_PORTS", range(port, port + 1))
        with pytest.raises(UnavailableError, match="only 0 of"):
            free_port()
        other.communicate("\n")
    assert free_port() == port
