"""The export of the state."""

from dataclasses import fields

import msgspec

from berth.domain.ledger.change import Snapshot
from tests.unit.api.cloud import Stack
from tests.unit.api.conftest import MakeStack

PATH = "/berth/v1/state"


async def test_the_state_is_the_snapshot(stack: Stack) -> None:
    """The exported state equals the ledger's snapshot, with all its sections."""
    await stack.server()
    group = {"server_group": {"name": "g", "policy": "affinity"}}
    await stack.ask("POST", "/v2.1/os-server-groups", group, version="2.64")
    body = (await stack.ask("GET", PATH)).body
    snapshot = await stack.ledger.snapshot(stack.clock.now_s())
    assert msgspec.convert(body, Snapshot) == snapshot
    assert list(body) == [field.name for field in fields(Snapshot)]


async def test_many_records_are_written_in_pieces(make_stack: MakeStack) -> None:
    """A state that is sent in several pieces is one JSON document."""
    stack = await make_stack(hosts=600)
    assert len((await stack.ask("GET", PATH)).body["hosts"]) == 600


async def test_an_empty_state_is_a_state(make_stack: MakeStack) -> None:
    """Without records, the sections are empty."""
    stack = await make_stack(hosts=0)
    assert msgspec.convert((await stack.ask("GET", PATH)).body, Snapshot).hosts == ()
