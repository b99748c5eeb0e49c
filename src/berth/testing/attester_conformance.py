"""Conformance suite of the attestation port: the behaviour required of every attester.

To test an attester, subclass the suite in a test module and override the `attester` fixture:

    class TestMyAttester(AttesterConformance):
        @pytest.fixture
        async def attester(self) -> Attester:
            return MyAttester(...)

The attester must know `node-1` as trusted, `node-2` as untrusted, and no other nodes. The tests
require pytest-asyncio in `auto` mode.
"""

# ruff: noqa: S101 - a conformance suite is made of asserts

import math

import pytest

from berth.ports.attestation import Attester


class AttesterConformance:
    """All conformance tests of an attester."""

    @pytest.fixture
    def attester(self) -> Attester:
        """Return the attester under test; each subclass overrides this fixture."""
        raise NotImplementedError("subclass the conformance suite and override `attester`")

    async def test_nodes_have_the_levels_of_the_service(self, attester: Attester) -> None:
        """Known nodes have the service's levels, each with a finite expiry time."""
        found = await attester.attest(["node-2", "node-1"])
        assert {node: one.level for node, one in found.items()} == {
            "node-1": "trusted",
            "node-2": "untrusted",
        }
        # An attestation without an end would keep a host trusted after the service has gone.
        assert all(math.isfinite(one.valid_until_s) for one in found.values())

    async def test_unknown_nodes_are_left_out(self, attester: Attester) -> None:
        """Unknown nodes are absent from the result and cause no error."""
        assert await attester.attest(["node-3"]) == {}
        assert list(await attester.attest(["node-3", "node-1"])) == ["node-1"]

    async def test_only_the_requested_nodes_are_attested(self, attester: Attester) -> None:
        """The result covers the requested nodes only, even when others are known."""
        assert await attester.attest([]) == {}
        assert list(await attester.attest(["node-1"])) == ["node-1"]
