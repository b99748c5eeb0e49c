"""The conformance suite of the attestation port: what every attester must do.

To hold an attester to it, subclass in a test module and say how to make one:

    class TestMyAttester(AttesterConformance):
        @pytest.fixture
        async def attester(self) -> Attester:
            return MyAttester(...)

It has to know `node-1` as trusted and `node-2` as untrusted, and no other. Tests need
pytest-asyncio in its `auto` mode.
"""

# ruff: noqa: S101 - a conformance suite is made of asserts

import math

import pytest

from berth.ports.attestation import Attester


class AttesterConformance:
    """Everything that holds for any attester."""

    @pytest.fixture
    def attester(self) -> Attester:
        """Make an attester; to be said by whoever uses the suite."""
        raise NotImplementedError

    async def test_nodes_have_the_levels_that_the_service_says(self, attester: Attester) -> None:
        """Each with a time when it ends."""
        found = await attester.attest(["node-2", "node-1"])
        assert {node: one.level for node, one in found.items()} == {
            "node-1": "trusted",
            "node-2": "untrusted",
        }
        assert all(math.isfinite(one.valid_until_s) for one in found.values())

    async def test_unknown_nodes_are_left_out(self, attester: Attester) -> None:
        """They are no error."""
        assert await attester.attest(["node-3"]) == {}
        assert list(await attester.attest(["node-3", "node-1"])) == ["node-1"]

    async def test_nothing_is_said_that_was_not_asked(self, attester: Attester) -> None:
        """Not even of nodes that are known."""
        assert await attester.attest([]) == {}
        assert list(await attester.attest(["node-1"])) == ["node-1"]
