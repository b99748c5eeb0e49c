"""Conformance tests of errors, which travel from a server to its caller."""

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
    """Tests of errors that a handler raises."""

    @pytest.mark.parametrize(
        "error", [ConflictError("it changed"), InvalidInputError("server.name", "is too long")]
    )
    async def test_an_error_comes_back_with_type_and_fields(
        self, bus: Bus, error: BerthError
    ) -> None:
        """The caller receives the server's error with its type, message and fields."""
        bus.serve(ASK, refusing(error))
        with pytest.raises(type(error)) as caught:
            await bus.call(ASK, Letter("x"), timeout_s=PATIENCE_S)
        assert str(caught.value) == str(error)
        # Callers read the fields, such as the name of the invalid input.
        assert vars(caught.value) == vars(error)

    async def test_a_mistake_in_a_server_comes_back_as_unavailable(self, bus: Bus) -> None:
        """An unexpected exception becomes `UnavailableError`, and the bus keeps working."""
        # The outcome is unknown, because the handler may have done part of its work.
        stop = bus.serve(ASK, refusing(ZeroDivisionError("oh")))
        with pytest.raises(UnavailableError):
            await bus.call(ASK, Letter("x"), timeout_s=PATIENCE_S)
        stop()
        bus.serve(ASK, answering(""))
        assert await bus.call(ASK, Letter("x"), timeout_s=PATIENCE_S) == Reply("x")
