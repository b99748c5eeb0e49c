"""A proxy in a thread of its own: tests that wait for processes turn it from outside."""

import asyncio
import threading
from collections.abc import Callable, Generator
from contextlib import contextmanager
from urllib.parse import urlsplit

from tests.proxy import Proxy, proxying


class Relay:
    """A way to a server that a test closes, silences and opens again. Made by `relaying`.

    Attributes:
        proxy: may be read, and set, from any thread.
    """

    def __init__(self, proxy: Proxy, loop: asyncio.AbstractEventLoop) -> None:
        self.proxy = proxy
        self._loop = loop

    def call(self, what: Callable[[], object]) -> None:
        """Have something done in the thread."""
        self._loop.call_soon_threadsafe(what)

    def cut(self) -> None:
        """Break all connections; new ones are taken."""
        asyncio.run_coroutine_threadsafe(self.proxy.cut(), self._loop).result()

    def close(self) -> None:
        """Break all connections and take none."""
        self.proxy.is_closed = True
        self.cut()

    def silence(self) -> None:
        """Let nothing through: whoever waits for an answer is told nothing."""
        self.proxy.is_silent = True

    def open(self) -> None:
        """Let new connections through; those that were silenced stay so."""
        self.proxy.is_closed = self.proxy.is_silent = False

    def url(self, url: str) -> str:
        """Return the URL of a server, by this way."""
        parts = urlsplit(url)
        user = f"{parts.netloc.rpartition('@')[0]}@" if "@" in parts.netloc else ""
        return parts._replace(netloc=f"{user}127.0.0.1:{self.proxy.port}").geturl()


@contextmanager
def relaying(url: str, port: int) -> Generator[Relay]:
    """Run a way to the server of a URL, or to a port where it names none."""
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
