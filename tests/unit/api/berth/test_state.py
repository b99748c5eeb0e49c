"""The state."""

from dataclasses import fields

import msgspec

from berth.domain.ledger.change import Snapshot
from tests.unit.api.cloud import Stack
from tests.unit.api.conftest import MakeStack

PATH = "/berth/v1/state"


async def test_the_state_is_the_snapshot(stack: Stack) -> None:
    """Every section of it, as of one version."""
    await stack.server()
    group = {"server_group": {"name": "g", "policy": "affinity"}}
    await stack.ask("POST", "/v2.1/os-server-groups", group, version="2.64")
    body = (await stack.ask("GET", PATH)).body
    snapshot = await stack.ledger.snapshot(stack.clock.now_s())
    assert msgspec.convert(body, Snapshot) == snapshot
    assert list(body) == [field.name for field in fields(Snapshot)]


async def test_many_records_are_written_in_pieces(make_stack: MakeStack) -> None:
    """The pieces join to one document."""
    stack = await make_stack(hosts=600)
    assert len((await stack.ask("GET", PATH)).body["hosts"]) == 600


async def test_an_empty_state_is_a_state(make_stack: MakeStack) -> None:
    """With empty sections."""
    stack = await make_stack(hosts=0)
    assert msgspec.convert((await stack.ask("GET", PATH)).body, Snapshot).hosts == ()
