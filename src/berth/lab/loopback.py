"""Finds free ports on the loopback address for servers that are about to start."""

import errno
import os
import random
import socket
import sys
from collections import deque
from contextlib import ExitStack
from typing import Final

from berth.domain.errors import UnavailableError

HOST: Final = "127.0.0.1"
# These ports are below the ephemeral ones, so no outgoing connection can take a port before its
# server listens.
_PORTS: Final = range(20_000, 32_768)
_MARKS_MAX: Final = 64
# The file descriptors of the sockets that reserve the latest ports, the oldest first.
_marks: Final = deque[int]()


def free_ports(count: int) -> list[int]:
    """Return distinct ports that were free at the time of the check.

    On Linux the ports are also reserved among all processes that use this function, until this
    process ends or has taken another 64 ports.

    Raises:
        UnavailableError: there are not enough free ports.
    """
    # Binding port 0 would be simpler, but another process could get the same port before the server
    # binds it: test runs and benchmarks start many servers simultaneously.
    ports = random.SystemRandom().sample(_PORTS, len(_PORTS))
    free: list[int] = []
    while ports and len(free) < count:
        port = ports.pop()
        if _take(port):
            free.append(port)
    if len(free) < count:
        where = f"{HOST}:{_PORTS.start}-{_PORTS.stop - 1}"
        raise UnavailableError(
            f"cannot reserve {count} ports: only {len(free)} of {where} are free; stop other "
            "servers"
        )
    return free


def free_port() -> int:
    """Return a port that was free at the time of the check; see `free_ports`.

    Raises:
        UnavailableError: no port is free.
    """
    return free_ports(1)[0]


def _take(port: int) -> bool:
    """Reserve a port and return True, or return False if it is reserved or in use."""
    with ExitStack() as stack:
        probe = stack.enter_context(socket.socket())
        mark = stack.enter_context(socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM))
        try:
            if sys.platform == "linux":
                # The kernel removes a socket in the abstract namespace when its process ends, so a
                # crash leaves no stale lock file.
                mark.bind(f"\0berth-port-{port}")
            probe.bind((HOST, port))
        except OSError as error:
            if error.errno != errno.EADDRINUSE:
                raise
            return False
        _marks.append(mark.detach())
    if len(_marks) > _MARKS_MAX:
        os.close(_marks.popleft())
    return True
