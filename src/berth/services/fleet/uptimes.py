"""The uptimes of hosts, read through their agents."""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from berth.domain.errors import BerthError
from berth.ports.bus import Bus, Command

_CHARS_MAX: Final = 255
_TIMEOUT_S: Final = 5.0
# A page of the list has up to 1000 hosts. At most `_CALLS_MAX` calls are in progress at a time, and
# a list takes at most `_LIST_S` seconds even if agents do not answer.
_CALLS_MAX: Final = 64
_LIST_S: Final = 10.0


@dataclass(frozen=True, slots=True)
class UptimeAsked:
    """A request for the uptime of a host."""


@dataclass(frozen=True, slots=True)
class UptimeTold:
    """The uptime of a host, as the program `uptime` prints it."""

    text: str


UPTIME: Command[UptimeAsked, UptimeTold] = Command("agent", "uptime", UptimeAsked, UptimeTold)
"""Read the uptime of a host; served like `CONSOLE`."""


async def read_uptime(bus: Bus, host: str) -> str:
    """Return the uptime of a host.

    Raises:
        UnavailableError: the agent of the host does not answer.
        DriverError: the driver cannot read the uptime.
    """
    told = await bus.call(UPTIME, UptimeAsked(), timeout_s=_TIMEOUT_S, server=host)
    return told.text[:_CHARS_MAX]


async def read_uptimes(bus: Bus, hosts: Sequence[str]) -> dict[str, str]:
    """Return the uptimes that agents report within `_LIST_S` seconds, by the name of the host."""
    slots = asyncio.Semaphore(_CALLS_MAX)
    found: dict[str, str] = {}

    async def read(host: str) -> None:
        async with slots:
            try:
                found[host] = await read_uptime(bus, host)
            except BerthError:
                return  # as in Nova, the list then shows no uptime for the host

    reads = [asyncio.ensure_future(read(host)) for host in hosts]
    try:
        if reads:
            await asyncio.wait(reads, timeout=_LIST_S)
    finally:
        for one in reads:
            one.cancel()
        await asyncio.gather(*reads, return_exceptions=True)
    return found
