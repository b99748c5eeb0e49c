"""The bus port's conformance suite on every adapter."""

from collections.abc import AsyncIterator, Awaitable, Callable
from typing import TypeVar

import pytest

from berth.adapters.bus.local import LocalBus
from berth.adapters.bus.rabbitmq import RabbitBroker, RabbitBus
from berth.ports.bus import Bus, Command
from berth.ports.telemetry import Telemetry
from berth.testing.bus_conformance import BusConformance
from tests.rabbit import riding

A = TypeVar("A")
R = TypeVar("R")


class Silence:
    """Telemetry that discards everything; see the port `Telemetry`."""

    def event(self, name: str, **fields: object) -> None:
        """Discard an event."""

    def warning(self, name: str, **fields: object) -> None:
        """Discard an event."""

    def failure(self, name: str, error: BaseException, **fields: object) -> None:
        """Discard a failure."""


_SILENCE: Telemetry = Silence()


class TestLocalBus(BusConformance):
    """The bus of one process, with encoding."""

    @pytest.fixture
    def bus(self) -> Bus:
        """Return a bus that encodes messages."""
        return LocalBus(_SILENCE)


class TestLocalBusThatDoesNotEncode(BusConformance):
    """The bus of one process, which passes on messages without encoding."""

    @pytest.fixture
    def bus(self) -> Bus:
        """Return a bus that does not encode messages."""
        return LocalBus(_SILENCE, encodes=False)


@pytest.mark.rabbitmq
class TestRabbitBus(BusConformance):
    """RabbitMQ, with caller and servers on one connection."""

    knows_all_servers = False

    @pytest.fixture
    async def bus(self, broker: RabbitBroker) -> AsyncIterator[Bus]:
        """Yield a connected bus."""
        async with riding(broker, _SILENCE) as bus:
            yield bus


class TwoEnds:
    """A bus made of two processes' buses, one for callers and one for servers."""

    def __init__(self, near: RabbitBus, far: RabbitBus) -> None:
        self._near = near
        self._far = far

    async def call(
        self, command: Command[A, R], args: A, *, timeout_s: float, server: str | None = None
    ) -> R:
        """Apply the servers' changes, and call by the callers' bus."""
        await self._far.apply_changes()
        return await self._near.call(command, args, timeout_s=timeout_s, server=server)

    async def cast(
        self, command: Command[A, R], args: A, *, timeout_s: float, server: str | None = None
    ) -> None:
        """Apply the servers' changes, and cast by the callers' bus."""
        await self._far.apply_changes()
        await self._near.cast(command, args, timeout_s=timeout_s, server=server)

    async def fanout(self, command: Command[A, R], args: A) -> None:
        """Apply the servers' changes, and send to all servers by the callers' bus."""
        await self._far.apply_changes()
        await self._near.fanout(command, args)

    def serve(
        self,
        command: Command[A, R],
        handler: Callable[[A], Awaitable[R]],
        *,
        server: str | None = None,
    ) -> Callable[[], None]:
        """Serve on the servers' bus."""
        return self._far.serve(command, handler, server=server)

    def serves(self, command: Command[A, R], *, server: str | None = None) -> bool:
        """Tell whether the callers' bus sees a server."""
        return self._near.serves(command, server=server)


@pytest.mark.rabbitmq
class TestRabbitBusBetweenTwo(BusConformance):
    """RabbitMQ, with caller and servers on two connections."""

    knows_all_servers = False

    @pytest.fixture
    async def bus(self, broker: RabbitBroker) -> AsyncIterator[Bus]:
        """Yield a bus made of two connected ones."""
        async with riding(broker, _SILENCE) as near, riding(broker, _SILENCE) as far:
            yield TwoEnds(near, far)
