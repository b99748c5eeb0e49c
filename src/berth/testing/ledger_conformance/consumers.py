"""Consumers and the allocations of each, whichever API created them."""

# ruff: noqa: S101 - a conformance suite is made of asserts

from dataclasses import replace

from berth.domain.inventory.allocation import Consumer, ConsumerAllocations
from berth.domain.inventory.resources import MEMORY_MB, VCPU
from berth.domain.ledger.write import Free, Put, Unit
from berth.ports.ledger import Ledger
from berth.testing.builders import (
    make_consumer,
    make_fleet,
    make_instance,
    make_share,
    make_take,
    make_uuid,
)
from berth.testing.ledger_conformance.claims import HOST_1, HOST_2
from berth.testing.ledger_conformance.fixtures import LedgerFixtures, commit
from berth.testing.ledger_conformance.reallocations import put

# The times have more digits than SQLite's JSON functions keep.
INSTANCE = replace(
    make_instance(1), created_at_s=1_700_000_000.1234567, updated_at_s=1_700_000_000.7654321
)
OF_INSTANCE = Consumer(
    INSTANCE.uuid,
    "project-1",
    "user-1",
    "INSTANCE",
    1,
    INSTANCE.created_at_s,
    INSTANCE.updated_at_s,
)
# The user's id contains quotes, because some ledgers build JSON in SQL.
OTHER = replace(make_consumer(1), user_id='user "2"', consumer_type=None)
SHARE = replace(make_share(1, on_1=2, on_2={VCPU: 1, MEMORY_MB: 64}), consumer=OTHER)
UNITS: list[Unit] = [*make_fleet(2), (make_take(1), Put(INSTANCE)), put(SHARE)]


class ConsumerTests(LedgerFixtures):
    """Tests of the reads in `ConsumerReader`."""

    async def test_a_consumer_is_read_with_all_its_allocations(self, ledger: Ledger) -> None:
        """A consumer is returned with its allocations and its own record."""
        await commit(ledger, *UNITS)
        stored = replace(OTHER, generation=1)
        assert await ledger.consumer_allocations(OTHER.uuid) == ConsumerAllocations(
            stored, SHARE.allocations
        )

    async def test_an_instance_is_a_consumer(self, ledger: Ledger) -> None:
        """The consumer has the project, user and times of the instance, to the last digit."""
        await commit(ledger, *UNITS)
        assert await ledger.consumer_allocations(INSTANCE.uuid) == ConsumerAllocations(
            OF_INSTANCE, {HOST_1: {VCPU: 1}}
        )

    async def test_a_record_overrides_the_instance(self, ledger: Ledger) -> None:
        """A client that replaces an instance's allocations may also give it another project."""
        await commit(ledger, *UNITS)
        consumer = replace(OTHER, uuid=INSTANCE.uuid, project_id="other")
        # `seen=1`: an instance is a consumer at generation 1.
        share = replace(make_share(1, seen=1, on_2=3), consumer=consumer)
        await commit(ledger, put(share))
        stored = replace(consumer, generation=2)
        assert await ledger.consumer_allocations(INSTANCE.uuid) == ConsumerAllocations(
            stored, {HOST_2: {VCPU: 3}}
        )
        assert await ledger.project_consumers("other") == [
            ConsumerAllocations(stored, {HOST_2: {VCPU: 3}})
        ]
        (left,) = await ledger.project_consumers("project-1")
        assert left.consumer.uuid == OTHER.uuid

    async def test_a_consumer_without_allocations_is_not_found(self, ledger: Ledger) -> None:
        """A consumer without allocations is not found, even if it is an instance."""
        await commit(ledger, *UNITS, (Put(make_instance(2)),))
        await commit(ledger, (Free(OTHER.uuid), Free(INSTANCE.uuid)))
        for uuid in (OTHER.uuid, INSTANCE.uuid, make_uuid("instance", 2), "unknown"):
            assert await ledger.consumer_allocations(uuid) is None
        assert await ledger.provider_consumers(HOST_1) == []
        assert await ledger.project_consumers("project-1") == []

    async def test_consumers_of_a_provider_come_with_their_allocations_on_it(
        self, ledger: Ledger
    ) -> None:
        """Only allocations on that provider are returned, sorted by consumer."""
        await commit(ledger, *UNITS)
        stored = replace(OTHER, generation=1)
        expected = [
            ConsumerAllocations(stored, {HOST_1: {VCPU: 2}}),
            ConsumerAllocations(OF_INSTANCE, {HOST_1: {VCPU: 1}}),
        ]
        assert await ledger.provider_consumers(HOST_1) == sorted(
            expected, key=lambda one: one.consumer.uuid
        )
        of_second = ConsumerAllocations(stored, {HOST_2: {VCPU: 1, MEMORY_MB: 64}})
        assert await ledger.provider_consumers(HOST_2) == [of_second]
        assert await ledger.provider_consumers("unknown") == []

    async def test_consumers_are_found_by_project_and_user(self, ledger: Ledger) -> None:
        """Consumers are found by project, or by project and user, whichever API created them."""
        await commit(ledger, *UNITS)
        ours = [holding.consumer.uuid for holding in await ledger.project_consumers("project-1")]
        assert ours == sorted([INSTANCE.uuid, OTHER.uuid])
        for user_id, uuid in (("user-1", INSTANCE.uuid), ('user "2"', OTHER.uuid)):
            (found,) = await ledger.project_consumers("project-1", user_id)
            assert found == await ledger.consumer_allocations(uuid)
        assert await ledger.project_consumers("project-1", "user-2") == []
        assert await ledger.project_consumers("project-2") == []

    async def test_a_claim_without_an_instance_has_no_project(self, ledger: Ledger) -> None:
        """A claim without an instance yields a consumer without a project."""
        await commit(ledger, *make_fleet(1), (make_take(3),))
        consumer = Consumer(make_uuid("instance", 3), "", "", generation=1)
        assert await ledger.consumer_allocations(consumer.uuid) == ConsumerAllocations(
            consumer, {HOST_1: {VCPU: 1}}
        )
        assert await ledger.project_consumers("") == []
