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
    """Telemetry that nobody reads; see the port `Telemetry`."""

    def event(self, name: str, **fields: object) -> None:
        """Forget an event."""

    def failure(self, name: str, error: BaseException, **fields: object) -> None:
        """Forget a failure."""


_SILENCE: Telemetry = Silence()


class TestLocalBus(BusConformance):
    """The bus of one process."""

    @pytest.fixture
    def bus(self) -> Bus:
        """Make a bus that encodes."""
        return LocalBus(_SILENCE)


class TestLocalBusThatDoesNotEncode(BusConformance):
    """The same, handing over what it is given."""

    @pytest.fixture
    def bus(self) -> Bus:
        """Make a bus that does not encode."""
        return LocalBus(_SILENCE, encodes=False)


@pytest.mark.rabbitmq
class TestRabbitBus(BusConformance):
    """RabbitMQ, with caller and servers on one connection."""

    knows_all_servers = False

    @pytest.fixture
    async def bus(self, broker: RabbitBroker) -> AsyncIterator[Bus]:
        """Open a bus."""
        async with riding(broker, _SILENCE) as bus:
            yield bus


class TwoEnds:
    """Two processes' buses as one: servers are on the one, callers on the other."""

    def __init__(self, near: RabbitBus, far: RabbitBus) -> None:
        self._near = near
        self._far = far

    async def call(
        self, command: Command[A, R], args: A, *, timeout_s: float, server: str | None = None
    ) -> R:
        """Call from here, as soon as it is served there."""
        await self._far.apply_changes()
        return await self._near.call(command, args, timeout_s=timeout_s, server=server)

    async def cast(
        self, command: Command[A, R], args: A, *, timeout_s: float, server: str | None = None
    ) -> None:
        """Likewise."""
        await self._far.apply_changes()
        await self._near.cast(command, args, timeout_s=timeout_s, server=server)

    async def fanout(self, command: Command[A, R], args: A) -> None:
        """Likewise."""
        await self._far.apply_changes()
        await self._near.fanout(command, args)

    def serve(
        self,
        command: Command[A, R],
        handler: Callable[[A], Awaitable[R]],
        *,
        server: str | None = None,
    ) -> Callable[[], None]:
        """Serve there."""
        return self._far.serve(command, handler, server=server)

    def serves(self, command: Command[A, R], *, server: str | None = None) -> bool:
        """Ask here."""
        return self._near.serves(command, server=server)


@pytest.mark.rabbitmq
class TestRabbitBusBetweenTwo(BusConformance):
    """RabbitMQ, with caller and servers on two connections."""

    knows_all_servers = False

    @pytest.fixture
    async def bus(self, broker: RabbitBroker) -> AsyncIterator[Bus]:
        """Open two."""
        async with riding(broker, _SILENCE) as near, riding(broker, _SILENCE) as far:
            yield TwoEnds(near, far)
