"""Conformance suite of the bus port: the behaviour required of every message bus.

To test a bus, subclass the suite in a test module and override the `bus` fixture:

    class TestMyBus(BusConformance):
        @pytest.fixture
        async def bus(self) -> AsyncIterator[Bus]:
            async with MyBus.open("amqp://localhost") as bus:
                yield bus

The fixture's bus must have no servers. A bus that cannot know the servers of other processes sets
`knows_all_servers` to False. The tests require pytest-asyncio in `auto` mode.
"""

# ruff: noqa: S101 - a conformance suite is made of asserts

from typing import ClassVar

import pytest

from berth.ports.bus import Bus
from berth.testing.bus_conformance.batches import BatchTests
from berth.testing.bus_conformance.calls import CallTests, ContextTests, FailureTests
from berth.testing.bus_conformance.casts import CastTests
from berth.testing.bus_conformance.letters import ASK, OTHER, PATIENCE_S, Letter, Reply, answering

__all__ = ["BusConformance"]


class BusConformance(BatchTests, CallTests, CastTests, ContextTests, FailureTests):
    """All conformance tests of a bus."""

    knows_all_servers: ClassVar[bool] = True
    """Whether `serves` returns False for every command without a server."""

    @pytest.fixture
    def bus(self) -> Bus:
        """Return a bus without servers; each subclass overrides this fixture."""
        raise NotImplementedError("subclass the conformance suite and override `bus`")

    async def test_a_bus_tells_whether_a_command_is_served(self, bus: Bus) -> None:
        """`serves` is true while any server runs; stopping a server is idempotent."""
        stop = bus.serve(ASK, answering(""))
        also_stop = bus.serve(ASK, answering(""))
        bus.serve(OTHER, answering(""), server="host-1")
        assert bus.serves(ASK)
        assert bus.serves(OTHER, server="host-1")
        # The second stop must not remove the other server of the same command.
        stop()
        stop()
        assert bus.serves(ASK)
        assert await bus.call(ASK, Letter("x"), timeout_s=PATIENCE_S) == Reply("x")
        also_stop()
        if self.knows_all_servers:
            assert not bus.serves(ASK)
            assert not bus.serves(OTHER)
