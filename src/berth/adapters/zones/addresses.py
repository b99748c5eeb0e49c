"""Addresses of a zone: its host's name looked up once for all who wait, and kept for a while.

A name server that does not answer keeps a thread of the loop busy for each question, whoever has
stopped waiting for it; there are few of them, and other zones have names, too.
"""

import asyncio
import socket
from collections.abc import Sequence
from ipaddress import ip_address
from typing import Final

KEPT_S: Final = 10.0
"""Seconds for which a name is not looked up again."""


class Addresses:
    """The addresses of one host.

    Args:
        host: name or address.
    """

    def __init__(self, host: str) -> None:
        self._host = host
        self._found: Sequence[str] = (host,) if _is_address(host) else ()
        self._until_s = float("inf") if self._found else 0.0
        self._looking: asyncio.Task[Sequence[str]] | None = None

    async def all(self) -> Sequence[str]:
        """Return the addresses, those to try first before others.

        Raises:
            OSError: the host has none.
            UnicodeError: no name server could be asked for its name.
        """
        loop = asyncio.get_running_loop()
        if loop.time() < self._until_s:
            return self._found
        if self._looking is None:
            self._looking = loop.create_task(self._look())
            self._looking.add_done_callback(self._end)
        # Whoever stops waiting leaves the look-up to others.
        return await asyncio.shield(self._looking)

    async def _look(self) -> Sequence[str]:
        found = await look_up(self._host)
        return tuple(dict.fromkeys(str(address[0]) for *_, address in found))

    def _end(self, done: "asyncio.Task[Sequence[str]]") -> None:
        self._looking = None
        if not done.cancelled() and done.exception() is None:
            self._found = done.result()
            self._until_s = done.get_loop().time() + KEPT_S


async def look_up(host: str) -> Sequence[tuple[int, int, int, str, tuple[object, ...]]]:
    """Ask for the addresses of a host, as `getaddrinfo` does."""
    return await asyncio.get_running_loop().getaddrinfo(host, None, type=socket.SOCK_STREAM)


def _is_address(host: str) -> bool:
    try:
        ip_address(host)
    except ValueError:
        return False
    return True
