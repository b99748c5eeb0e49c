"""The load: clients that write plain HTTP and parse only what they need of an answer.

Both sides get the same load. A connection is kept as long as the server keeps it.
"""

import asyncio
import itertools
import random
import re
import time
from collections.abc import Callable, Generator, Iterator
from dataclasses import dataclass, field
from typing import Final, cast

import httptools
import msgspec
import uvloop

from bench.errors import BenchError
from bench.placement.scenes import ASKED
from berth.domain.uuids import named_uuid

CONFLICT: Final = 409
_ANSWER_S: Final = 300.0
_ERROR_CHARS: Final = 500
_HEAD: Final = (
    "{method} {path} HTTP/1.1\r\nHost: 127.0.0.1\r\nX-Auth-Token: admin\r\n"
    "OpenStack-API-Version: placement 1.39\r\nAccept: application/json\r\n"
)
_CANDIDATE: Final = re.compile(rb'"allocations": ?\{"([0-9a-f-]{36})"')
_REQUESTS_SHARE: Final = 3  # the first third of an answer contains only candidates


class LoadError(BenchError):
    """A server gave an unexpected answer or none."""


@dataclass(frozen=True, slots=True)
class Answer:
    """An HTTP response."""

    status: int
    body: bytes


Operation = Generator[bytes, Answer, None]
"""Yields requests and receives their answers; the last answer is the result."""


@dataclass(frozen=True, slots=True)
class Effort:
    """A number of clients and a duration; each client completes at least one operation."""

    clients: int
    seconds: float


@dataclass(slots=True)
class Load:
    """The result; `cpu_s` is the load's own CPU time, `conflicts` the number of 409 answers."""

    seconds: float = 0.0
    cpu_s: float = 0.0
    times_ms: list[float] = field(default_factory=list[float])
    conflicts: int = 0


def put_load(ports: tuple[int, ...], make: Callable[[], Operation], effort: Effort) -> Load:
    """Let clients run one operation after another, and return the result.

    Args:
        ports: ports of the server's processes; clients are spread over them.
        make: starts the next operation.
        effort: number of clients and duration.

    Raises:
        LoadError: an answer was neither 2xx nor 409, or there was none.
    """
    return uvloop.run(_put_load(ports, make, effort))


async def _put_load(ports: tuple[int, ...], make: Callable[[], Operation], effort: Effort) -> Load:
    load = Load()
    began_s, began_cpu_s = time.perf_counter(), time.process_time()
    ends_s = began_s + effort.seconds
    spread = itertools.islice(itertools.cycle(ports), effort.clients)
    try:
        async with asyncio.timeout(effort.seconds + _ANSWER_S):
            await asyncio.gather(*(_client(port, make, load, ends_s) for port in spread))
    except (OSError, TimeoutError) as error:
        raise LoadError(f"no answer: {error!r}") from error
    load.seconds = time.perf_counter() - began_s
    load.cpu_s = time.process_time() - began_cpu_s
    return load


async def _client(port: int, make: Callable[[], Operation], load: Load, ends_s: float) -> None:
    line = _Line(port)
    try:
        while True:
            began_s = time.perf_counter()
            answer = await _operate(line, make())
            now_s = time.perf_counter()
            if answer.status == CONFLICT:
                load.conflicts += 1
            elif answer.status >= 300:
                said = answer.body[:_ERROR_CHARS].decode(errors="replace")
                raise LoadError(f"{answer.status} {said}")
            else:
                load.times_ms.append(1e3 * (now_s - began_s))
            if now_s >= ends_s:
                return
    finally:
        line.close()


async def _operate(line: "_Line", operation: Operation) -> Answer:
    answer = await line.ask(next(operation))
    try:
        while True:
            answer = await line.ask(operation.send(answer))
    except StopIteration:
        return answer


class _Line:
    """A client's connection, which is opened again when the server has closed it."""

    def __init__(self, port: int) -> None:
        self._port = port
        self._connection: _Connection | None = None

    async def ask(self, request: bytes) -> Answer:
        if self._connection is None:
            loop = asyncio.get_running_loop()
            _, self._connection = await loop.create_connection(_Connection, "127.0.0.1", self._port)
        answer = await self._connection.ask(request)
        if not self._connection.is_kept:
            self.close()
        return answer

    def close(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None


class _Connection(asyncio.Protocol):
    def __init__(self) -> None:
        self.is_kept = True
        self._transport: asyncio.Transport | None = None
        self._answer: asyncio.Future[Answer] | None = None
        self._parts: list[bytes] = []
        self._parser = httptools.HttpResponseParser(self)

    def ask(self, request: bytes) -> asyncio.Future[Answer]:
        self._answer = asyncio.get_running_loop().create_future()
        if self._transport is not None:
            self._transport.write(request)
        return self._answer

    def close(self) -> None:
        if self._transport is not None:
            self._transport.close()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        # uvloop's transports are not subclasses of asyncio's.
        self._transport = cast("asyncio.Transport", transport)

    def data_received(self, data: bytes) -> None:
        self._parser.feed_data(data)

    def on_body(self, body: bytes) -> None:
        self._parts.append(body)

    def on_message_complete(self) -> None:
        answer = Answer(self._parser.get_status_code(), b"".join(self._parts))
        self.is_kept = self._parser.should_keep_alive()
        self._parts.clear()
        self._parser = httptools.HttpResponseParser(self)
        if self._answer is not None and not self._answer.done():
            self._answer.set_result(answer)

    def connection_lost(self, exc: Exception | None) -> None:
        if self._answer is not None and not self._answer.done():
            self._answer.set_exception(exc or ConnectionResetError("the server hung up"))


def get(path: str) -> Operation:
    """GET a path."""
    yield get_request(path)


def in_turn(paths: tuple[str, ...]) -> Callable[[], Operation]:
    """Return a function that starts a GET of the next path each time, in a cycle."""
    endless = itertools.cycle(paths)
    return lambda: get(next(endless))


def claim(provider: str, consumer: str) -> Operation:
    """Claim from a provider for a new consumer."""
    yield claim_request(provider, consumer)


def schedule(path: str, consumer: str, rng: random.Random) -> Operation:
    """GET candidates and claim one of them."""
    answer = yield get_request(path)
    if answer.status == 200:
        yield claim_request(one_candidate(answer.body, rng), consumer)


def one_candidate(body: bytes, rng: random.Random) -> str:
    """Return the provider of one of the candidates in an answer.

    Raises:
        LoadError: the answer contains no candidates.
    """
    start = rng.randrange(1 + len(body) // _REQUESTS_SHARE)
    found = _CANDIDATE.search(body, start) or _CANDIDATE.search(body)
    if found is None:
        raise LoadError("an answer without candidates")
    return found[1].decode()


def consumers(prefix: str) -> Iterator[str]:
    """Return an endless iterator of consumer uuids, which differ for each prefix."""
    return (named_uuid(f"bench:{prefix}-{number}") for number in itertools.count())


def get_request(path: str) -> bytes:
    """Return the bytes of a GET."""
    return (_HEAD.format(method="GET", path=path) + "\r\n").encode()


def claim_request(provider: str, consumer: str) -> bytes:
    """Return the bytes of a PUT of allocations for a new consumer."""
    body = msgspec.json.encode(
        {
            "allocations": {provider: {"resources": ASKED}},
            "project_id": "bench-project",
            "user_id": "bench-user",
            "consumer_generation": None,
            "consumer_type": "INSTANCE",
        }
    )
    head = _HEAD.format(method="PUT", path=f"/allocations/{consumer}")
    ending = f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
    return (head + ending).encode() + body
