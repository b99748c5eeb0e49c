"""Calls that are answered with their own body: what the client library and the broker can do.

`python -m bench.echo URL QUEUE` is the server. As in the tutorials of aio-pika, each call is one
message, and so is its answer.
"""

import asyncio
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import count

import aio_pika
import uvloop
from aio_pika.abc import AbstractIncomingMessage

from bench.errors import BenchError
from bench.peer import ROOT

_PREFETCH = 256
_STOP_S = 30.0


class EchoError(BenchError):
    """The server of the echo did not start."""


def measure_echo(url: str, queue: str, body: bytes, calls: int, in_flight: int) -> float:
    """Return how many calls per second are answered, with `in_flight` of them at a time.

    Raises:
        EchoError: the server did not start.
    """
    with _server(url, queue):
        return uvloop.run(_load(url, queue, body, calls, in_flight))


async def _load(url: str, queue: str, body: bytes, calls: int, in_flight: int) -> float:
    connection = await aio_pika.connect(url)
    async with connection:
        channel = await connection.channel()
        own = await channel.declare_queue(exclusive=True)
        waiting: dict[str | None, asyncio.Future[bytes]] = {}
        numbers = count()

        async def receive(message: AbstractIncomingMessage) -> None:
            waiting.pop(message.correlation_id).set_result(message.body)

        await own.consume(receive, no_ack=True)
        loop = asyncio.get_running_loop()

        async def call() -> None:
            number = str(next(numbers))
            answer = waiting[number] = loop.create_future()
            message = aio_pika.Message(body, correlation_id=number, reply_to=own.name)
            await channel.default_exchange.publish(message, routing_key=queue)
            await answer

        async def caller(share: int) -> None:
            for _ in range(share):
                await call()

        await caller(in_flight)  # the first calls are slower
        began_s = time.perf_counter()
        await asyncio.gather(*(caller(calls // in_flight) for _ in range(in_flight)))
        return calls // in_flight * in_flight / (time.perf_counter() - began_s)


@contextmanager
def _server(url: str, queue: str) -> Iterator[None]:
    command = [sys.executable, "-m", "bench.echo", url, queue]
    process = subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=ROOT
    )
    try:
        assert process.stdout is not None
        if process.stdout.readline().strip() != "ready":
            raise EchoError("the server of the echo did not start")
        yield
    finally:
        try:
            process.communicate(timeout=_STOP_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.communicate()


async def _serve(url: str, name: str) -> None:
    """Answer calls until the end of standard input."""
    connection = await aio_pika.connect(url)
    async with connection:
        channel = await connection.channel()
        await channel.set_qos(prefetch_count=_PREFETCH)
        queue = await channel.declare_queue(name, auto_delete=True)

        async def answer(message: AbstractIncomingMessage) -> None:
            async with message.process():
                await channel.default_exchange.publish(
                    aio_pika.Message(message.body, correlation_id=message.correlation_id),
                    routing_key=message.reply_to or "",
                )

        await queue.consume(answer)
        print("ready", flush=True)
        await asyncio.to_thread(sys.stdin.read)


if __name__ == "__main__":
    uvloop.run(_serve(sys.argv[1], sys.argv[2]))
