"""A virtual host for tests on a RabbitMQ server, and buses on it."""

import asyncio
import os
import secrets
import shutil
import subprocess
from collections.abc import AsyncGenerator, Callable, Generator, Sequence
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from random import Random

import aio_pika
import pytest
from yarl import URL

from berth.adapters.bus.rabbitmq import BrokerConnection, RabbitBroker, RabbitBus
from berth.adapters.bus.signing import MessageSigner
from berth.adapters.system import NoMetrics
from berth.ports.telemetry import Metrics, Telemetry

_URL = "amqp://guest:guest@127.0.0.1:5672/"
_UP_S = 30.0


@dataclass(frozen=True)
class FixedKeys:
    """The keys of tests; implements `SigningKeys`."""

    all: Sequence[bytes] = (bytes(range(32)),)


def bus_signer(*keys: bytes, accepts_unsigned: bool = False) -> MessageSigner:
    """Return a signer with some keys, or with the key that all tests share."""
    return MessageSigner(
        FixedKeys(keys) if keys else FixedKeys(), accepts_unsigned=accepts_unsigned
    )


async def remove(broker: RabbitBroker) -> None:
    """Remove the exchanges of a prefix; RabbitMQ removes the queues itself."""
    connection = await aio_pika.connect(broker.url)
    channel = await connection.channel()
    for exchange in (broker.commands, broker.fanout, broker.notifications):
        await channel.exchange_delete(exchange)
    await connection.close()


@contextmanager
def own_broker() -> Generator[RabbitBroker]:
    """Make a virtual host and remove it at the end.

    The server is that of `BERTH_TEST_RABBITMQ_URL`. If it cannot be reached, the test is skipped.
    If `rabbitmqctl` cannot add a virtual host, the result is the one of the URL with a prefix that
    no other test uses.
    """
    url = os.environ.get("BERTH_TEST_RABBITMQ_URL", _URL)
    name = f"berth_test_{os.getpid()}_{secrets.token_hex(4)}"
    try:
        asyncio.run(_look(url))
    except (OSError, TimeoutError, aio_pika.exceptions.AMQPError) as error:
        shown = RabbitBroker(url).safe_url
        pytest.skip(f"no RabbitMQ server at {shown}: {type(error).__name__}")
    if not _is_here(url) or not _ctl("add_vhost", name):
        yield RabbitBroker(url, prefix=name)
        return
    try:
        _ctl("set_permissions", "-p", name, URL(url).user or "guest", ".*", ".*", ".*")
        yield RabbitBroker(str(URL(url).with_path(f"/{name}")))
    finally:
        _ctl("delete_vhost", name)


@asynccontextmanager
async def riding(
    broker: RabbitBroker,
    telemetry: Telemetry,
    signer: MessageSigner | None = None,
    metrics: Metrics | None = None,
) -> AsyncGenerator[RabbitBus]:
    """Run a bus on its own connection; by default it has the key that all tests share."""
    line = BrokerConnection(broker, telemetry, Random())
    bus = RabbitBus(line, secrets.token_hex(4), signer or bus_signer(), metrics or NoMetrics())
    async with running(line):
        yield bus


@asynccontextmanager
async def running(line: BrokerConnection) -> AsyncGenerator[None]:
    """Run a connection until the body ends; the body begins when it is up."""
    task = asyncio.create_task(line.run())
    try:
        async with asyncio.timeout(_UP_S):
            await line.up.wait()
        yield
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


async def until(true: Callable[[], bool]) -> None:
    """Wait until `true` returns True, or raise TimeoutError after 30 seconds."""
    async with asyncio.timeout(_UP_S):
        while not true():  # noqa: ASYNC110 - no event is set
            await asyncio.sleep(0.02)


async def _look(url: str) -> None:
    connection = await aio_pika.connect(url, timeout=5)
    await connection.close()


def is_own(broker: RabbitBroker) -> bool:
    """Return whether the virtual host was made for the tests, so they may administer it."""
    return URL(broker.url).path != URL(os.environ.get("BERTH_TEST_RABBITMQ_URL", _URL)).path


def shell(command: str, told: str = "") -> str:
    """Run a command of `rabbitmqctl` as an operator types it, and return its output."""
    done = subprocess.run(
        ["sh", "-c", command],
        input=told,
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert done.returncode == 0, f"{command}: {done.stderr}"
    return done.stdout


def _is_here(url: str) -> bool:
    return URL(url).host in ("127.0.0.1", "localhost") and shutil.which("rabbitmqctl") is not None


def _ctl(*words: str) -> bool:
    """Run `rabbitmqctl` with some arguments and return whether it succeeded."""
    done = subprocess.run(
        ["rabbitmqctl", "-q", *words], capture_output=True, check=False, timeout=60
    )
    return done.returncode == 0
