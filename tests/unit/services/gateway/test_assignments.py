"""What the first view of a host costs, and what it contains."""

from dataclasses import replace

import pytest

from berth.domain.compute.instance import Status, Task
from berth.domain.compute.migration import Stage
from berth.domain.ledger.write import Put, Write
from berth.ports.gateway import HostView
from berth.services.gateway.assignments import Assignments
from berth.testing.builders import make_instance, make_migration, make_uuid
from tests.unit.services.wiring import Desk, open_desk


async def views_of(
    desk: Desk, host: str, *writes: Write, deletes_disks: bool = False
) -> list[HostView]:
    """Return the views that an agent gets that connects after some writes."""
    assignments = Assignments(desk.ledger, desk.replica)
    desk.follower.subscribers.append(assignments)
    await desk.follower.start()
    for write in writes:
        await desk.ledger.write(write)
    await desk.follower.catch_up()
    views: list[HostView] = []
    desk.ledger.reads.clear()
    await assignments.open(host, views.append, deletes_disks=deletes_disks)
    return views


async def test_a_host_without_instances_costs_no_read() -> None:
    """The tables show that there is nothing to read, and of which version that is true."""
    desk = await open_desk()
    views = await views_of(desk, "host-1", Put(make_instance(1, host="host-2")))
    assert views == [HostView(await desk.ledger.version(), is_complete=True)]
    assert desk.ledger.reads == []


async def test_a_host_with_instances_costs_one_read() -> None:
    """The instances of the host are read together."""
    desk = await open_desk()
    puts = [Put(make_instance(number, host="host-1")) for number in (1, 2)]
    (view,) = await views_of(desk, "host-1", *puts)
    assert {one.uuid for one in view.instances} == {make_uuid("instance", n) for n in (1, 2)}
    assert desk.ledger.reads == ["instances host-1"]


async def test_the_instances_of_a_host_that_is_unknown_are_read() -> None:
    """An agent may connect before its host is in the table."""
    desk = await open_desk()
    (view,) = await views_of(desk, "host-7", Put(make_instance(1, host="host-7")))
    assert [one.uuid for one in view.instances] == [make_uuid("instance", 1)]


@pytest.mark.parametrize("host", ["host-1", "host-2"])
async def test_a_move_is_in_the_views_of_both_hosts(host: str) -> None:
    """The destination also gets the instance, which is on the source; an ended move is in none."""
    desk = await open_desk()
    move = make_migration(1, of=1)
    instance = make_instance(1, host="host-1")
    ended = replace(make_migration(2, of=1), stage=Stage.COMPLETED)
    (view,) = await views_of(
        desk, host, Put(replace(instance, migration_uuid=move.uuid)), Put(move), Put(ended)
    )
    assert view.migrations == (move,)
    assert [one.uuid for one in view.instances] == [instance.uuid]


async def test_a_host_that_deletes_stored_disks_learns_only_what_it_needs() -> None:
    """A deleted shelved server is shown to any host, without names, tenant, size and user data."""
    desk = await open_desk()
    shelved = replace(
        make_instance(1, host=None),
        status=Status.SHELVED_OFFLOADED,
        task=Task.DELETING,
        disks="stored:1",
        metadata={"secret": "m"},
        hints={"secret": ("h",)},
        extra={"user_data": "secret"},
    )
    (view,) = await views_of(desk, "host-1", Put(shelved), deletes_disks=True)
    (shown,) = view.instances
    assert (shown.uuid, shown.disks, shown.task) == (shelved.uuid, "stored:1", Task.DELETING)
    assert (shown.name, shown.project_id, shown.user_id, shown.flavor.vcpus) == ("", "", "", 0)
    assert (shown.metadata, shown.hints, shown.extra, shown.image) == ({}, {}, {}, None)
    standing = await desk.gateway().standing("host-1", shelved.uuid)
    assert standing.instance == replace(shown, revision=standing.revision)
