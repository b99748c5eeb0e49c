"""Greeting: whether somebody offers disks over NBD where they are said to be offered."""

import asyncio
import contextlib
from typing import Final

from berth.domain.errors import DriverError

_GREETING: Final = b"NBDMAGIC"
_WITHIN_S: Final = 10.0


async def greeted(host: str, port: int, *, within_s: float = _WITHIN_S) -> None:
    """Connect to an NBD server, wait for its greeting and hang up.

    Raises:
        DriverError: there is none, or nothing comes in time.
    """
    where = f"{host}:{port}"
    try:
        async with asyncio.timeout(within_s):
            reader, writer = await asyncio.open_connection(host, port)
            try:
                found = await reader.readexactly(len(_GREETING))
            finally:
                writer.close()
                with contextlib.suppress(OSError):
                    await writer.wait_closed()
    except TimeoutError as error:
        raise DriverError(f"{where} offers no disks within {within_s:g} s") from error
    except (OSError, asyncio.IncompleteReadError) as error:
        raise DriverError(f"{where} offers no disks ({error})") from error
    if found != _GREETING:
        raise DriverError(f"{where} offers something else than disks")
