"""A light load: keep-alive clients, each of which creates one server after another.

It runs in its own process, so it takes no time from the measuring process:
`python -m bench.load PLAN`, with the JSON of a `LoadPlan`; it prints the JSON of a `Load`.
"""

import asyncio
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import partial
from typing import cast

import httptools
import msgspec
import uvloop

from bench.timing import percentile

ACCEPTED = 202
_ANSWER_S = 60.0
_ERROR_CHARS = 500


@dataclass(frozen=True, slots=True)
class LoadPlan:
    """A number of clients and a duration; the names of created servers begin with `prefix`."""

    host: str
    port: int
    flavor: str
    prefix: str
    clients: int
    seconds: float


@dataclass(frozen=True, slots=True)
class Load:
    """The result of a load; times are from request to complete answer, in milliseconds.

    `cpu_us` is the load's own CPU time per create. `errors` counts failed creates, and `error`
    describes the first of them.
    """

    creates: int
    errors: int
    seconds: float
    p50_ms: float
    p99_ms: float
    cpu_us: float
    error: str = ""

    @property
    def per_s(self) -> float:
        """Creates per second of wall time."""
        return self.creates / self.seconds


@dataclass(slots=True)
class _Tally:
    """The answers that all clients have received so far; times are in seconds."""

    ends_s: float
    times_s: list[float] = field(default_factory=list[float])
    errors: int = 0
    error: str = ""


class _Client(asyncio.Protocol):
    """One connection, which sends the next request after the answer to the previous one."""

    def __init__(
        self, requests: Iterator[bytes], tally: _Tally, done: asyncio.Future[None]
    ) -> None:
        self._requests = requests
        self._tally = tally
        self._done = done
        self._transport: asyncio.Transport | None = None
        self._began_s = 0.0
        self._body = bytearray()
        self._parser = httptools.HttpResponseParser(self)

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Send the first request."""
        # uvloop's transports are not subclasses of asyncio's.
        self._transport = cast("asyncio.Transport", transport)
        self._send()

    def data_received(self, data: bytes) -> None:
        """Parse a part of an answer."""
        self._parser.feed_data(data)

    def on_body(self, body: bytes) -> None:
        """Keep a part of the body, which may contain an error message."""
        self._body += body

    def on_message_complete(self) -> None:
        """Count the answer, and send the next request until the duration is over."""
        now_s = time.perf_counter()
        status = self._parser.get_status_code()
        if status == ACCEPTED:
            self._tally.times_s.append(now_s - self._began_s)
        else:
            self._fail(f"{status} {self._body[:_ERROR_CHARS].decode(errors='replace')}")
        self._body.clear()
        self._parser = httptools.HttpResponseParser(self)
        if now_s < self._tally.ends_s:
            self._send()
        elif self._transport is not None:
            self._transport.close()

    def connection_lost(self, exc: Exception | None) -> None:
        """Stop; a connection that is lost before the end of the load is an error."""
        if exc is not None or time.perf_counter() < self._tally.ends_s:
            self._fail(f"the connection was lost: {exc}")
        if not self._done.done():
            self._done.set_result(None)

    def _send(self) -> None:
        if self._transport is not None:
            request = next(self._requests)
            self._began_s = time.perf_counter()
            self._transport.write(request)

    def _fail(self, error: str) -> None:
        self._tally.errors += 1
        self._tally.error = self._tally.error or error


def create_requests(plan: LoadPlan) -> Iterator[bytes]:
    """Yield requests without end, each for one server with a new name."""
    number = 0
    while True:
        name = f"{plan.prefix}-{number}"
        server = {"name": name, "flavorRef": plan.flavor, "networks": "none"}
        body = msgspec.json.encode({"server": server})
        head = (
            "POST /v2.1/servers HTTP/1.1\r\n"
            f"Host: {plan.host}:{plan.port}\r\n"
            "OpenStack-API-Version: compute 2.96\r\n"
            "Content-Type: application/json\r\n"
            f"Content-Length: {len(body)}\r\n\r\n"
        )
        yield head.encode() + body
        number += 1


async def run_load(plan: LoadPlan) -> Load:
    """Run the load on the server and return the result."""
    loop = asyncio.get_running_loop()
    began_s, began_cpu_s = time.perf_counter(), time.process_time()
    tally = _Tally(ends_s=began_s + plan.seconds)
    requests = create_requests(plan)
    futures = [loop.create_future() for _ in range(plan.clients)]
    for done in futures:
        client = partial(_Client, requests, tally, done)
        await loop.create_connection(client, plan.host, plan.port)
    async with asyncio.timeout(plan.seconds + _ANSWER_S):
        await asyncio.gather(*futures)
    seconds = time.perf_counter() - began_s
    times_ms = [1e3 * one for one in tally.times_s] or [0.0]
    return Load(
        creates=len(tally.times_s),
        errors=tally.errors,
        seconds=round(seconds, 4),
        p50_ms=round(percentile(times_ms, 0.5), 3),
        p99_ms=round(percentile(times_ms, 0.99), 3),
        cpu_us=round((time.process_time() - began_cpu_s) * 1e6 / len(times_ms), 1),
        error=tally.error,
    )


def main(arguments: list[str]) -> None:
    """Run the load of the plan on the command line, and print the result."""
    plan = msgspec.json.decode(arguments[0], type=LoadPlan)
    sys.stdout.buffer.write(msgspec.json.encode(uvloop.run(run_load(plan))))


if __name__ == "__main__":
    main(sys.argv[1:])
