"""Errors: what a server raises reaches its caller."""

# ruff: noqa: S101 - a conformance suite is made of asserts

import pytest

from berth.domain.errors import BerthError, ConflictError, InvalidInputError, UnavailableError
from berth.ports.bus import Bus
from berth.testing.bus_conformance.letters import (
    ASK,
    PATIENCE_S,
    Letter,
    Reply,
    answering,
    refusing,
)


class FailureTests:
    """Errors on any bus."""

    @pytest.mark.parametrize(
        "error", [ConflictError("it changed"), InvalidInputError("server.name", "is too long")]
    )
    async def test_an_error_comes_back_with_type_and_fields(
        self, bus: Bus, error: BerthError
    ) -> None:
        """The caller can tell what the server meant."""
        bus.serve(ASK, refusing(error))
        with pytest.raises(type(error)) as caught:
            await bus.call(ASK, Letter("x"), timeout_s=PATIENCE_S)
        assert str(caught.value) == str(error)
        assert vars(caught.value) == vars(error)

    async def test_a_mistake_in_a_server_comes_back_as_unavailable(self, bus: Bus) -> None:
        """Nobody knows what was done; the server goes on serving."""
        stop = bus.serve(ASK, refusing(ZeroDivisionError("oh")))
        with pytest.raises(UnavailableError):
            await bus.call(ASK, Letter("x"), timeout_s=PATIENCE_S)
        stop()
        bus.serve(ASK, answering(""))
        assert await bus.call(ASK, Letter("x"), timeout_s=PATIENCE_S) == Reply("x")
