"""The server action endpoint never answers with an internal error."""

import asyncio

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from berth.api.compute.handlers.servers.server_actions import ACTIONS
from berth.api.microversion import MAX
from tests.unit.api.cloud import Stack

NAMES = sorted(name for name in ACTIONS if not name.startswith("os-get"))
"""All actions except those that query an agent, because this cloud has no agent."""
FIELDS = [
    "host",
    "force",
    "block_migration",
    "disk_over_commit",
    "onSharedStorage",
    "adminPass",
    "availability_zone",
    "locked_reason",
    "state",
    "type",
    "flavorRef",
    "imageRef",
    "name",
    "metadata",
    "personality",
    "user_data",
]
WORDS = ["host-1", "auto", "SOFT", "HARD", "active", "error", "small", "large", "nova", "true"]
VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-1, 2**64)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.sampled_from(WORDS)
    | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.text(max_size=3), inner),
    max_leaves=4,
)
ARGUMENTS = VALUES | st.dictionaries(st.sampled_from(FIELDS), VALUES, max_size=4)


@pytest.fixture(scope="module")
def furnished() -> tuple[Stack, str]:
    """Return a cloud with an active server, and the server's uuid."""

    async def furnish() -> str:
        await stack.start()
        await stack.flavor()
        await stack.flavor("large", vcpus=4)
        uuid = await stack.server()
        await stack.activate(uuid)
        return uuid

    stack = Stack()
    return stack, asyncio.run(furnish())


@settings(max_examples=200, deadline=None)
@given(name=st.sampled_from(NAMES), args=ARGUMENTS, minor=st.integers(1, MAX[1]))
def test_no_arguments_are_a_fault(
    furnished: tuple[Stack, str], name: str, args: object, minor: int
) -> None:
    """Any arguments of any action get a success or a 400, 404 or 409, and no failure is logged."""
    stack, uuid = furnished

    async def act() -> int:
        # This ends the action of an earlier example, so that this one may begin.
        await stack.activate(uuid)
        path = f"/v2.1/servers/{uuid}/action"
        return (await stack.ask("POST", path, {name: args}, version=f"2.{minor}")).status

    assert asyncio.run(act()) in {200, 202, 204, 400, 404, 409}
    assert stack.told.failures == []
