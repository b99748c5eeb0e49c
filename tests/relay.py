"""A proxy in its own thread, for tests that block while they wait for processes."""

import asyncio
import threading
from collections.abc import Callable, Generator
from contextlib import contextmanager
from urllib.parse import urlsplit

from tests.proxy import Proxy, proxying


class Relay:
    """A proxy that a test closes, silences and opens again; `relaying` makes it.

    Attributes:
        proxy: the proxy, whose attributes may be read and set from any thread.
    """

    def __init__(self, proxy: Proxy, loop: asyncio.AbstractEventLoop) -> None:
        self.proxy = proxy
        self._loop = loop

    def call(self, what: Callable[[], object]) -> None:
        """Schedule a call in the thread of the proxy."""
        self._loop.call_soon_threadsafe(what)

    def cut(self) -> None:
        """Break all connections; new ones are accepted."""
        asyncio.run_coroutine_threadsafe(self.proxy.cut(), self._loop).result()

    def close(self) -> None:
        """Break all connections and accept no new ones."""
        self.proxy.is_closed = True
        self.cut()

    def silence(self) -> None:
        """Let nothing through, while connections stay open."""
        self.proxy.is_silent = True

    def open(self) -> None:
        """Let new connections through; silenced ones that have lost data stay silent."""
        self.proxy.is_closed = self.proxy.is_silent = False

    def url(self, url: str) -> str:
        """Return the URL of a server with the address of this proxy."""
        parts = urlsplit(url)
        user = f"{parts.netloc.rpartition('@')[0]}@" if "@" in parts.netloc else ""
        return parts._replace(netloc=f"{user}127.0.0.1:{self.proxy.port}").geturl()


@contextmanager
def relaying(url: str, port: int) -> Generator[Relay]:
    """Run a proxy to the server of a URL; `port` is used if the URL names none."""
    parts = urlsplit(url)
    target = parts.hostname or "127.0.0.1", parts.port or port
    made: list[tuple[Relay, asyncio.Event]] = []
    began = threading.Event()

    async def run() -> None:
        ended = asyncio.Event()
        async with proxying(*target) as proxy:
            made.append((Relay(proxy, asyncio.get_running_loop()), ended))
            began.set()
            await ended.wait()

    thread = threading.Thread(target=asyncio.run, args=(run(),), name="relay")
    thread.start()
    began.wait()
    relay, ended = made[0]
    try:
        yield relay
    finally:
        relay.call(ended.set)
        thread.join()
