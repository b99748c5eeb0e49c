"""Ports of the loopback address for servers that are about to start."""

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
    """Return ports that were free a moment ago, each another one.

    On Linux they are marked, so that no other process that asks here is given them before a
    server listens. The marks go with this process, or when it has been given another 64 ports.

    Raises:
        UnavailableError: there are not so many.
    """
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
    """Return a port that was free a moment ago.

    Raises:
        UnavailableError: there is none.
    """
    return free_ports(1)[0]


def _take(port: int) -> bool:
    """Mark a port, unless somebody else has, or listens on it."""
    with ExitStack() as stack:
        probe = stack.enter_context(socket.socket())
        mark = stack.enter_context(socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM))
        try:
            if sys.platform == "linux":
                # Such a name is no file: nothing is left behind, whatever happens.
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
