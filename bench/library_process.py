"""A process that places instances through the library: `python -m bench.library_process`.

It opens the ledger, follows it, and prints `ready`. For the first line on standard input it places
its instances and prints `done`; it ends at the end of standard input.
"""

import asyncio
import sys

import uvloop

from bench.library import open_desk, place_round
from berth.adapters.system import keep_freed_memory
from berth.config.policy_file import load_policy

_WARM_UP = 64
"""How many instances are placed first, so that the engine has cached the request's profile."""


async def _main(url: str, name: str, count: int, in_flight: int) -> None:
    async with open_desk(url, load_policy(None)) as desk:
        await place_round(desk, f"{name}-warm", _WARM_UP, in_flight, {})
        print("ready", flush=True)
        await asyncio.to_thread(sys.stdin.readline)
        await place_round(desk, name, count, in_flight, {})
        print("done", flush=True)
        # The CPU time of the process and of its connections is read before they end.
        await asyncio.to_thread(sys.stdin.read)


if __name__ == "__main__":
    keep_freed_memory()
    uvloop.run(_main(sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4])))
