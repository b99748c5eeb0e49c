"""Tests for server groups and their members."""

from dataclasses import replace

import pytest

from berth.domain.compute.instance import Status
from berth.domain.errors import ConflictError, NotFoundError
from berth.domain.ledger.write import Put
from berth.services.servers.server_groups import ServerGroups
from berth.testing.builders import make_instance, make_server_group
from tests.unit.services.wiring import TappedLedger

GROUP = make_server_group(1)
OTHER = replace(make_server_group(2), project_id="project-2")


@pytest.fixture
def ledger() -> TappedLedger:
    """Return an empty ledger."""
    return TappedLedger()


@pytest.fixture
def groups(ledger: TappedLedger) -> ServerGroups:
    """Return the use cases."""
    return ServerGroups(ledger)


async def test_a_group_belongs_to_its_project(groups: ServerGroups) -> None:
    """A group is visible to its project and to administrators only."""
    for group in (GROUP, OTHER):
        await groups.create(group)
    assert await groups.of_project("project-1") == [GROUP]
    assert await groups.of_project(None) == [GROUP, OTHER]
    assert await groups.get(GROUP.uuid, "project-1") == GROUP
    assert await groups.get(GROUP.uuid, None) == GROUP
    for call in (groups.get, groups.delete):
        with pytest.raises(NotFoundError):
            await call(GROUP.uuid, "project-2")


async def test_a_group_is_made_once_and_removed(groups: ServerGroups) -> None:
    """A group's uuid is taken until the group is deleted."""
    await groups.create(GROUP)
    with pytest.raises(ConflictError):
        await groups.create(GROUP)
    await groups.delete(GROUP.uuid, "project-1")
    with pytest.raises(NotFoundError):
        await groups.get(GROUP.uuid, None)


async def test_members_are_the_instances_that_name_it(
    groups: ServerGroups, ledger: TappedLedger
) -> None:
    """The members of a group are its instances that are not deleted, oldest first."""
    await groups.create(GROUP)
    for number in (2, 1, 3, 4):
        group_uuid = None if number == 4 else GROUP.uuid
        await ledger.write(Put(replace(make_instance(number), group_uuid=group_uuid)))
    gone = replace(make_instance(3), group_uuid=GROUP.uuid, status=Status.DELETED, revision=1)
    await ledger.write(Put(gone))
    assert await groups.members(GROUP) == [make_instance(n).uuid for n in (1, 2)]
