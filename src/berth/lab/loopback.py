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
# Below those that systems give to connections, since a server takes a while to listen.
_PORTS: Final = range(20_000, 32_768)
_MARKS_MAX: Final = 64
# File descriptors of the marks on the ports given last, the oldest first.
_marks: Final = deque[int]()


def free_ports(count: int) -> list[int]:
    """Return distinct ports that were free at the time of the check.

    On Linux the ports are also reserved among all processes that use this function, until this
    process ends or has taken another 64 ports.

    Raises:
        UnavailableError: there are not enough free ports.
    """
    # Binding port 0 would be simpler, but between the close and the server's own bind another
    # process could get the same port: test runs and benchmarks start many servers at once.
    ports = random.SystemRandom().sample(_PORTS, len(_PORTS))
    free: list[int] = []
    while ports and len(free) < count:
        port = ports.pop()
        if _take(port):
            free.append(port)
    if len(free) < count:
        where = f"{HOST}:{_PORTS.start}-{_PORTS.stop - 1}"
        raise UnavailableError(f"of the ports {where} {len(free)} are free, and {count} are needed")
    return free


def free_port() -> int:
    """Return a port that was free at the time of the check; see `free_ports`.

    Raises:
        UnavailableError: no port is free.
    """
    return free_ports(1)[0]


def _take(port: int) -> bool:
    """Reserve a port, and return False when it is reserved or in use."""
    with ExitStack() as stack:
        probe = stack.enter_context(socket.socket())
        mark = stack.enter_context(socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM))
        try:
            if sys.platform == "linux":
                # A socket in the abstract namespace: the kernel removes it with the process, so a
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
