"""Listing instances: every field of the query, order and paging."""

# ruff: noqa: S101 - a conformance suite is made of asserts

from dataclasses import replace

import pytest

from berth.domain.compute.instance import Instance, Status
from berth.domain.errors import NotFoundError
from berth.domain.ledger.record import Kind
from berth.domain.ledger.write import Put, Remove
from berth.ports.ledger import InstanceQuery, Ledger
from berth.testing.builders import CREATED_AT_S, make_instance, make_uuid
from berth.testing.ledger_conformance.fixtures import LedgerFixtures, commit

ODD = replace(
    make_instance(2, host="host-2"),
    project_id="project-2",
    name="odd",
    status=Status.ERROR,
    group_uuid=make_uuid("group", 1),
    updated_at_s=CREATED_AT_S + 100,
)
"""One of three instances; it differs from the others in every field that a query may name."""


class ListingTests(LedgerFixtures):
    """Tests of `instances`."""

    @pytest.mark.parametrize(
        "query",
        [
            InstanceQuery(project_id=ODD.project_id),
            InstanceQuery(host=ODD.host),
            InstanceQuery(status=ODD.status),
            InstanceQuery(name=ODD.name),
            InstanceQuery(reservation_id=ODD.reservation_id),
            InstanceQuery(request_id=ODD.request_id),
            InstanceQuery(group_uuid=ODD.group_uuid),
            InstanceQuery(changed_since_s=ODD.updated_at_s),
            InstanceQuery(project_id=ODD.project_id, host=ODD.host, deleted=None),
        ],
        ids=str,
    )
    async def test_a_query_finds_by_each_field(self, ledger: Ledger, query: InstanceQuery) -> None:
        """Each field of a query selects the instances that equal it, and fields combine."""
        # ODD is neither first nor last, so a query that ignores its field returns too much.
        await commit(ledger, *[(Put(i),) for i in (make_instance(1), ODD, make_instance(3))])
        assert await ledger.instances(query) == [replace(ODD, revision=1)]

    async def test_a_query_follows_what_changes(self, ledger: Ledger) -> None:
        """An instance is found by its current values only."""
        await commit(ledger, (Put(make_instance(1)),))
        # Every queried field changes, even those that rarely do: a ledger may write these
        # separately.
        changed = replace(ODD, uuid=make_uuid("instance", 1), revision=1)
        await commit(ledger, (Put(changed),))
        for query in (
            InstanceQuery(name="odd"),
            InstanceQuery(host="host-2"),
            InstanceQuery(project_id="project-2"),
            InstanceQuery(request_id="req-2"),
        ):
            assert await ledger.instances(query) == [replace(changed, revision=2)]
        assert await ledger.instances(InstanceQuery(name="vm-1")) == []

    async def test_an_instance_made_anew_is_found_by_what_it_is_now(self, ledger: Ledger) -> None:
        """An instance removed and created again in one batch is found by its new values only."""
        await commit(ledger, (Put(make_instance(1)),))
        anew = replace(ODD, uuid=make_uuid("instance", 1))
        await commit(ledger, (Remove(Kind.INSTANCE, anew.uuid),), (Put(anew),))
        assert await ledger.instances(InstanceQuery(name="odd")) == [replace(anew, revision=1)]
        assert await ledger.instances(InstanceQuery(name="vm-1")) == []

    async def test_deleted_instances_are_listed_on_request(self, ledger: Ledger) -> None:
        """`deleted=False` omits deleted instances, True lists only those, and None lists all."""
        gone = replace(make_instance(2), status=Status.DELETED)
        await commit(ledger, (Put(make_instance(1)),), (Put(gone),))
        for deleted, expected in ((False, [1]), (True, [2]), (None, [2, 1])):
            found = await ledger.instances(InstanceQuery(deleted=deleted))
            assert [i.uuid for i in found] == [make_uuid("instance", n) for n in expected]

    async def test_soft_deleted_instances_may_count_as_deleted(self, ledger: Ledger) -> None:
        """With `soft_too`, soft-deleted instances are listed as deleted; otherwise they are not."""
        soft = replace(make_instance(2), status=Status.SOFT_DELETED, host="host-1")
        gone = replace(make_instance(3), status=Status.DELETED)
        await commit(ledger, (Put(make_instance(1)),), (Put(soft),), (Put(gone),))
        for soft_too, deleted, expected in (
            (False, False, [2, 1]),
            (False, True, [3]),
            (True, False, [1]),
            (True, True, [3, 2]),
            (True, None, [3, 2, 1]),
        ):
            found = await ledger.instances(InstanceQuery(deleted=deleted, soft_too=soft_too))
            assert [i.uuid for i in found] == [make_uuid("instance", n) for n in expected]
        (found_soft,) = await ledger.instances(InstanceQuery(status=Status.SOFT_DELETED))
        assert found_soft.uuid == soft.uuid

    async def test_pages_follow_one_another_newest_first(self, ledger: Ledger) -> None:
        """Pages by marker add up to the whole list, even if creation times are equal."""
        instances = [
            # Three instances share each time, so pages end among equal times.
            replace(make_instance(n), created_at_s=CREATED_AT_S + n // 3)
            for n in range(8)
        ]
        await commit(ledger, *[(Put(instance),) for instance in instances])
        whole = await ledger.instances(InstanceQuery())
        order = sorted(instances, key=lambda i: (i.created_at_s, i.uuid), reverse=True)
        assert [i.uuid for i in whole] == [i.uuid for i in order]
        paged: list[Instance] = []
        page = await ledger.instances(InstanceQuery(limit=3))
        while page:
            paged += page
            page = await ledger.instances(InstanceQuery(limit=3, marker=page[-1].uuid))
        assert paged == whole

    async def test_an_unknown_marker_is_an_error(self, ledger: Ledger) -> None:
        """A marker must be an existing instance."""
        with pytest.raises(NotFoundError):
            await ledger.instances(InstanceQuery(marker="unknown"))

    async def test_a_marker_of_another_project_is_an_error(self, ledger: Ledger) -> None:
        """The error is that of an unknown marker, so it reveals no other project's instances."""
        own = replace(make_instance(1), project_id="web")
        other = replace(make_instance(2), project_id="shop")
        await commit(ledger, (Put(own),), (Put(other),))
        with pytest.raises(NotFoundError):
            await ledger.instances(InstanceQuery(project_id="web", marker=other.uuid))
        page = await ledger.instances(InstanceQuery(project_id="web", marker=own.uuid))
        assert page == []
        everywhere = await ledger.instances(InstanceQuery(marker=other.uuid))
        assert [i.uuid for i in everywhere] == [own.uuid]

    async def test_instances_are_counted_by_status(self, ledger: Ledger) -> None:
        """Counts are current, without deleted instances and without zeros."""
        assert await ledger.status_counts() == {}
        for number, status in enumerate(
            (Status.ACTIVE, Status.ACTIVE, Status.ERROR, Status.DELETED), 1
        ):
            await commit(ledger, (Put(replace(make_instance(number), status=status)),))
        assert await ledger.status_counts() == {"ACTIVE": 2, "ERROR": 1}
        now = await ledger.get(Instance, make_uuid("instance", 1))
        assert now is not None
        await commit(ledger, (Put(replace(now, status=Status.ERROR)),))
        assert await ledger.status_counts() == {"ACTIVE": 1, "ERROR": 2}
