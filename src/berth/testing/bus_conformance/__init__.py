"""The conformance suite of the bus port: what every message bus must do.

To hold a bus to it, subclass in a test module and say how to make one:

    class TestMyBus(BusConformance):
        @pytest.fixture
        async def bus(self) -> AsyncIterator[Bus]:
            async with MyBus.open("amqp://localhost") as bus:
                yield bus

The fixture's bus must be empty: nobody serves anything on it. A bus that cannot know what other
processes serve says so (`knows_all_servers`). Tests need pytest-asyncio in its `auto` mode.
"""

# ruff: noqa: S101 - a conformance suite is made of asserts

from typing import ClassVar

import pytest

from berth.ports.bus import Bus
from berth.testing.bus_conformance.calls import CallTests
from berth.testing.bus_conformance.casts import CastTests
from berth.testing.bus_conformance.contexts import ContextTests
from berth.testing.bus_conformance.failing import FailureTests
from berth.testing.bus_conformance.letters import ASK, OTHER, PATIENCE_S, Letter, Reply, answering

__all__ = ["BusConformance"]


class BusConformance(CallTests, CastTests, ContextTests, FailureTests):
    """Everything that holds for any bus."""

    knows_all_servers: ClassVar[bool] = True
    """It says of a command that nobody serves, unasked, that nobody does."""

    @pytest.fixture
    def bus(self) -> Bus:
        """Make a bus; to be said by whoever uses the suite."""
        raise NotImplementedError

    async def test_a_bus_tells_whether_a_command_is_served(self, bus: Bus) -> None:
        """From the first server's start to the last one's end; ending twice does no harm."""
        stop = bus.serve(ASK, answering(""))
        also_stop = bus.serve(ASK, answering(""))
        bus.serve(OTHER, answering(""), server="host-1")
        assert bus.serves(ASK)
        assert bus.serves(OTHER, server="host-1")
        stop()
        stop()
        assert bus.serves(ASK)
        assert await bus.call(ASK, Letter("x"), timeout_s=PATIENCE_S) == Reply("x")
        also_stop()
        if self.knows_all_servers:
            assert not bus.serves(ASK)
            assert not bus.serves(OTHER)
