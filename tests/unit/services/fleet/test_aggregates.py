"""Tests for aggregates and their availability zones."""

import asyncio
from dataclasses import replace

import pytest

from berth.domain.compute.aggregate import AZ_KEY
from berth.domain.compute.instance import Instance
from berth.domain.errors import ConflictError, InvalidInputError, NotFoundError
from berth.domain.ledger.write import Put
from berth.services.fleet.aggregates import Aggregates
from berth.testing.builders import make_instance, make_uuid
from tests.unit.services.wiring import open_desk


@pytest.fixture
async def aggregates() -> Aggregates:
    """Return the use cases on a ledger with two hosts."""
    return (await open_desk()).aggregates


async def test_an_aggregate_is_made_read_and_removed(aggregates: Aggregates) -> None:
    """An aggregate is created, read and deleted; its id is not reused."""
    made = await aggregates.create("a", {"ssd": "true"})
    assert (made.aggregate_id, made.metadata) == (1, {"ssd": "true"})
    assert await aggregates.get(1) == made
    await aggregates.delete(1)
    with pytest.raises(NotFoundError):
        await aggregates.get(1)
    assert (await aggregates.create("a", {})).aggregate_id == 2


async def test_a_name_is_taken_once(aggregates: Aggregates) -> None:
    """An aggregate name must be unique, even among simultaneous requests."""
    await aggregates.create("a", {})
    await aggregates.create("b", {})
    with pytest.raises(ConflictError):
        await aggregates.create("a", {})
    with pytest.raises(ConflictError):
        await aggregates.rename(2, "a")
    assert (await aggregates.rename(2, "b")).name == "b"
    results = await asyncio.gather(
        *(aggregates.create("c", {}) for _ in range(2)), return_exceptions=True
    )
    assert sum(isinstance(result, ConflictError) for result in results) == 1


async def test_aggregates_are_listed_by_number(aggregates: Aggregates) -> None:
    """Aggregates are listed in the order of their ids."""
    for number in range(1, 12):
        await aggregates.create(f"a-{number}", {})
    assert [one.aggregate_id for one in await aggregates.all()] == list(range(1, 12))


async def test_hosts_come_and_go(aggregates: Aggregates) -> None:
    """Hosts are added and removed; wrong hosts and aggregates are refused."""
    await aggregates.create("a", {})
    changed = await aggregates.add_host(1, "host-1")
    assert changed.hosts == {"host-1"}
    assert changed.updated_at_s is not None
    with pytest.raises(ConflictError, match="already"):
        await aggregates.add_host(1, "host-1")
    with pytest.raises(NotFoundError):
        await aggregates.add_host(1, "nobody")
    with pytest.raises(NotFoundError):
        await aggregates.add_host(9, "host-1")
    with pytest.raises(InvalidInputError, match="still has hosts"):
        await aggregates.delete(1)
    assert (await aggregates.remove_host(1, "host-1")).hosts == frozenset()
    with pytest.raises(NotFoundError, match="no host in aggregate 1 named 'host-1'"):
        await aggregates.remove_host(1, "host-1")


async def test_hosts_added_at_once_are_all_there(aggregates: Aggregates) -> None:
    """Hosts that are added simultaneously are all kept."""
    await aggregates.create("a", {})
    await asyncio.gather(*(aggregates.add_host(1, f"host-{n}") for n in (1, 2)))
    assert (await aggregates.get(1)).hosts == {"host-1", "host-2"}


async def test_metadata_is_merged(aggregates: Aggregates) -> None:
    """Metadata is merged, and a value of None removes its key."""
    await aggregates.create("a", {"one": "1", "two": "2"})
    changed = await aggregates.set_metadata(1, {"one": None, "three": "3", "none": None})
    assert changed.metadata == {"two": "2", "three": "3"}


async def test_a_host_cannot_be_in_two_zones(aggregates: Aggregates) -> None:
    """A host cannot be in two availability zones, even through simultaneous changes."""
    await aggregates.create("a", {AZ_KEY: "az-1"})
    await aggregates.create("b", {AZ_KEY: "az-2"})
    await aggregates.create("c", {})
    await aggregates.add_host(1, "host-1")
    with pytest.raises(ConflictError, match="az-1, az-2"):
        await aggregates.add_host(2, "host-1")
    await aggregates.add_host(3, "host-1")
    with pytest.raises(ConflictError):
        await aggregates.set_metadata(3, {AZ_KEY: "az-2"})
    await aggregates.set_metadata(3, {AZ_KEY: "az-1"})
    results = await asyncio.gather(
        aggregates.add_host(1, "host-2"),
        aggregates.add_host(2, "host-2"),
        return_exceptions=True,
    )
    assert sum(isinstance(result, ConflictError) for result in results) == 1


async def test_a_host_stays_in_the_zone_that_its_servers_are_bound_to() -> None:
    """However the zone would change; servers that asked for no zone do not hinder it."""
    desk = await open_desk()
    aggregates = desk.aggregates
    for name, zone in (("a", "east"), ("b", "east"), ("c", "west"), ("d", "")):
        await aggregates.create(name, {AZ_KEY: zone} if zone else {})
    await aggregates.add_host(1, "host-1")
    base = replace(make_instance(1), host="host-1", node="host-1", revision=0)
    bound = replace(base, requested_zone="east")
    free = replace(base, uuid=make_uuid("instance", 9), requested_zone=None)
    await desk.ledger.commit([(Put(bound), Put(free))])

    async def leave(number: int) -> None:
        for change in (
            aggregates.remove_host(number, "host-1"),
            aggregates.set_metadata(number, {AZ_KEY: "west"}),
            aggregates.set_metadata(number, {AZ_KEY: None}),
        ):
            with pytest.raises(ConflictError, match=f"zone east, to which 1 server.*{bound.uuid}"):
                await change

    await leave(1)
    # The zone stays the same while another aggregate names it, and what else changes is no matter.
    await aggregates.add_host(2, "host-1")
    await aggregates.remove_host(1, "host-1")
    await aggregates.add_host(4, "host-1")
    await aggregates.set_metadata(2, {"ssd": "true"})
    await aggregates.remove_host(4, "host-1")
    await leave(2)
    stored = await desk.ledger.get(Instance, bound.uuid)
    assert stored is not None
    await desk.ledger.commit([(Put(replace(stored, requested_zone=None)),)])
    await aggregates.remove_host(2, "host-1")
    await aggregates.add_host(3, "host-1")


async def test_a_host_stays_in_the_default_zone_that_its_servers_are_bound_to() -> None:
    """A host without a zone of its own is in the default zone, which an aggregate may end."""
    desk = await open_desk()
    await desk.aggregates.create("a", {AZ_KEY: "east"})
    base = replace(make_instance(1), host="host-1", node="host-1", revision=0)
    await desk.ledger.commit([(Put(replace(base, requested_zone="nova")),)])
    with pytest.raises(ConflictError, match="zone nova"):
        await desk.aggregates.add_host(1, "host-1")
    assert (await desk.aggregates.add_host(1, "host-2")).hosts == {"host-2"}


async def test_force_lets_a_host_leave_the_zone_of_its_servers() -> None:
    """However the zone changes."""
    desk = await open_desk()
    aggregates = desk.aggregates
    await aggregates.create("a", {AZ_KEY: "east"})
    await aggregates.add_host(1, "host-1")
    base = replace(make_instance(1), host="host-1", node="host-1", revision=0)
    await desk.ledger.commit([(Put(replace(base, requested_zone="east")),)])
    await aggregates.set_metadata(1, {AZ_KEY: "west"}, force=True)
    await aggregates.set_metadata(1, {AZ_KEY: "east"})
    changed = await aggregates.remove_host(1, "host-1", force=True)
    assert changed.hosts == frozenset()
    await aggregates.set_metadata(1, {AZ_KEY: "west"})
    assert (await aggregates.add_host(1, "host-1", force=True)).hosts == {"host-1"}
