"""Records: saving, removing, reading and listing them, and drawing their ids."""

# ruff: noqa: S101 - a conformance suite is made of asserts

import asyncio
from dataclasses import replace

import pytest

from berth.domain.compute.aggregate import Aggregate
from berth.domain.compute.decision import Decision
from berth.domain.compute.flavor import Flavor, FlavorAccess
from berth.domain.compute.host import Host, Service
from berth.domain.compute.host_identity import HostIdentity, HostKey
from berth.domain.compute.instance import Instance, Status, Task
from berth.domain.compute.key_pair import KeyPair, KeyRing, KeyType
from berth.domain.compute.maintenance import Drain, Maintenance, ServerMove
from berth.domain.compute.quota import Quota
from berth.domain.compute.server_image import ServerImage
from berth.domain.inventory.provider import Provider
from berth.domain.inventory.resources import (
    DISK_GB,
    MEMORY_MB,
    VCPU,
    Inventory,
    ResourceClass,
    Trait,
)
from berth.domain.ledger.audit_trail import NO_ENTRIES, AuditEntry, chain, head_of
from berth.domain.ledger.record import RECORD_TYPES, Kind, PendingRequest, Record, key_of
from berth.domain.ledger.write import Add, Committed, Free, Heartbeats, Put, Remove
from berth.domain.zones.zone import RemoteInstance, RemoteInstanceStage, Zone
from berth.ports.ledger import HEARTBEATS_KEPT_MS, HeartbeatReport, InstanceQuery, Ledger
from berth.testing.builders import (
    CREATED_AT_S,
    make_action,
    make_aggregate,
    make_decision,
    make_flavor,
    make_fleet,
    make_host,
    make_instance,
    make_migration,
    make_pending_request,
    make_provider,
    make_server_group,
    make_service,
    make_take,
    make_uuid,
)
from berth.testing.ledger_conformance.fixtures import LedgerFixtures, commit, refused

PLAIN: list[Record] = [
    make_host(1),
    make_service(1),
    make_aggregate(1),
    make_server_group(1),
    make_flavor(1),
    make_pending_request(1),
    make_decision(1),
    ResourceClass("CUSTOM_FPGA", 1, CREATED_AT_S),
    Trait("CUSTOM_RAID", 2, CREATED_AT_S),
    make_migration(1),
    make_action(1),
    Quota("project-1", instances=3),
    HostIdentity("host-1", (HostKey("A" * 43 + "=", 1.0),), revoked_at_s=2.0),
    FlavorAccess("flavor-1", ("shop", "web")),
    Maintenance(
        "host-1", "new disk", drain=Drain(moves=(ServerMove(make_uuid("instance", 1), "web-1"),))
    ),
    ServerImage("image-1", "n", "p", "u", make_uuid("instance", 1), {"a": "b"}, rotation=2),
    chain(NO_ENTRIES, [AuditEntry(1, "DELETE /x", "u", "p", roles=("admin",), targets={"a": "ü"})]),
    KeyRing("user-1", (KeyPair("mine", KeyType.SSH, "ssh-rsa AAAA", "00:11", 1.0),)),
    Zone(1, "west", "http://west"),
    RemoteInstance(
        make_uuid("instance", 1), 1, RemoteInstanceStage.THERE, "p", "u", "r-1", "req-1"
    ),
]
"""A record of every kind that the ledger stores exactly as it is given."""


class RecordTests(LedgerFixtures):
    """Tests of `Add`, `Put`, `Remove` and `Heartbeats`, and of reading records."""

    @pytest.mark.parametrize("record", PLAIN, ids=lambda record: type(record).__name__)
    async def test_a_record_is_read_as_it_was_put(self, ledger: Ledger, record: Record) -> None:
        """Every field of a record is read back, by key and in the list of its kind."""
        noun, key = type(record), key_of(record)
        assert await ledger.get(noun, key) is None
        await commit(ledger, (Put(record),))
        assert await ledger.get(noun, key) == record
        assert await ledger.all(noun) == [record]

    async def test_every_kind_starts_empty(self, ledger: Ledger) -> None:
        """A new ledger has no records, no allocations and version 0."""
        for kind, noun in RECORD_TYPES.items():
            assert await ledger.get(noun, "1") is None
            if kind is not Kind.INSTANCE:
                assert await ledger.all(noun) == []
        assert await ledger.instances(InstanceQuery(deleted=None)) == []
        assert await ledger.allocations() == []
        assert await ledger.version() == 0

    async def test_remote_instances_are_found_by_project_and_reservation(
        self, ledger: Ledger
    ) -> None:
        """Remote instances are found by project, by reservation, or by both."""
        mine, later, theirs = [
            RemoteInstance(
                make_uuid("instance", index),
                1,
                RemoteInstanceStage.THERE,
                project,
                "u",
                group,
                "req",
            )
            for index, project, group in ((1, "p", "r-1"), (2, "p", "r-2"), (3, "q", "r-1"))
        ]
        await commit(ledger, (Put(theirs),), (Put(later),), (Put(mine),))
        # The order is not that of the commits: lists are sorted by the instances' uuids.
        assert await ledger.remote_instances() == [mine, later, theirs]
        assert await ledger.remote_instances(project_id="p") == [mine, later]
        assert await ledger.remote_instances(reservation_id="r-1") == [mine, theirs]
        assert await ledger.remote_instances(project_id="q", reservation_id="r-2") == []

    async def test_audit_blocks_are_found_by_the_numbers_of_entries(self, ledger: Ledger) -> None:
        """The newest block, the block of an entry, and the blocks from an entry on are found."""
        assert await ledger.audit_block() is None
        assert await ledger.audit_blocks(1, 10) == []
        blocks = [chain(NO_ENTRIES, [AuditEntry(at_ms, "op") for at_ms in range(3)])]
        blocks.append(chain(head_of(blocks[-1]), [AuditEntry(1, "op", user_id="ünï\n")]))
        blocks += [chain(head_of(blocks[-1]), [AuditEntry(n, "op") for n in range(7)])]
        await commit(ledger, *((Add(block),) for block in reversed(blocks)))
        assert await ledger.audit_block() == blocks[2]
        numbers = {1: 0, 3: 0, 4: 1, 5: 2, 11: 2, 1000: 2}
        for number, index in numbers.items():
            assert await ledger.audit_block(number) == blocks[index]
        assert await ledger.audit_block(0) is None
        assert await ledger.audit_blocks(1, 2) == blocks[:2]
        assert await ledger.audit_blocks(2, 10) == blocks[1:]
        assert await ledger.audit_blocks(6, 10) == []

    async def test_an_audit_block_is_stored_once(self, ledger: Ledger) -> None:
        """Of two processes that continue the same head, one is refused."""
        first, second = (chain(NO_ENTRIES, [AuditEntry(at_ms, "op")]) for at_ms in (1, 2))
        outcomes = await ledger.commit([(Add(first),), (Add(second),)])
        assert [isinstance(one, Committed) for one in outcomes] == [True, False]
        assert await ledger.audit_blocks(1, 10) == [first]

    async def test_decisions_on_a_request_include_those_on_further_attempts(
        self, ledger: Ledger
    ) -> None:
        """The ids of derived requests begin with the request's; ids that only look alike do not."""
        ids = ("req-1", "req-1.a.2", "req-1/1", "req-1.a/3", "req-10", "req-1-b", "req-1A", "req-2")
        made = [replace(make_decision(n), request_id=one) for n, one in enumerate(ids)]
        await commit(ledger, *((Put(one),) for one in made))
        assert await ledger.decisions("req-1") == [made[3], made[2], made[1], made[0]]
        assert await ledger.decisions("req-1.a") == [made[3], made[1]]
        assert await ledger.decisions("req") == []

    async def test_put_replaces(self, ledger: Ledger) -> None:
        """Putting an existing record replaces it, within one commit as well."""
        first, second = make_host(1), replace(make_host(1), host_ip="192.0.2.1")
        await commit(ledger, (Put(first),), (Put(second),))
        assert await ledger.all(Host) == [second]

    async def test_add_refuses_what_exists(self, ledger: Ledger) -> None:
        """Adding an existing record is a conflict, even if it was added in the same commit."""
        # All kinds are tested, because ledgers may store providers and instances in another way.
        for record in (*PLAIN, make_provider(1), make_instance(1)):
            first, second = await ledger.commit([(Add(record),), (Add(record),)])
            assert isinstance(first, Committed)
            assert not isinstance(second, Committed)
            assert second.conflict

    async def test_removing_what_is_not_there_is_refused(self, ledger: Ledger) -> None:
        """A record can be removed once; a second removal is refused."""
        for record in PLAIN:
            kind, key = (
                next(k for k, t in RECORD_TYPES.items() if t is type(record)),
                key_of(record),
            )
            await commit(ledger, (Put(record),), (Remove(kind, key),))
            assert await ledger.get(type(record), key) is None
            assert (await refused(ledger, (Remove(kind, key),))).conflict
            # After a removal, the key is free again.
            await commit(ledger, (Add(record),))

    # --- instances ---

    async def test_every_save_of_an_instance_increments_its_revision(self, ledger: Ledger) -> None:
        """A new instance has revision 0 and is stored at 1; the next save makes it 2."""
        instance = make_instance(1)
        await commit(ledger, (Put(instance),))
        saved = await ledger.get(Instance, instance.uuid)
        assert saved is not None
        assert saved == replace(instance, revision=1)
        await commit(ledger, (Put(replace(saved, status=Status.ACTIVE)),))
        again = await ledger.get(Instance, instance.uuid)
        assert again == replace(instance, status=Status.ACTIVE, revision=2)

    async def test_a_save_with_an_old_revision_is_refused(self, ledger: Ledger) -> None:
        """Of two writers that read the same revision, the second has to read again."""
        await commit(ledger, (Put(make_instance(1)),))
        saved = replace(make_instance(1), revision=1)
        mine, theirs = replace(saved, name="mine"), replace(saved, name="theirs")
        # The units are in one batch, so the second must see the revision that the first leaves.
        first, second = await ledger.commit([(Put(mine),), (Put(theirs),)])
        assert first == Committed(2)
        assert not isinstance(second, Committed)
        assert second.conflict
        # Revision 0 requires that the instance does not exist, and revision 1 that it does.
        assert (await refused(ledger, (Put(make_instance(1)),))).conflict
        assert (await refused(ledger, (Put(replace(make_instance(2), revision=1)),))).conflict

    async def test_an_instance_that_holds_allocations_is_not_removed(self, ledger: Ledger) -> None:
        """An instance's allocations must be freed before its removal, or in the same unit."""
        uuid = make_uuid("instance", 1)
        await commit(ledger, *make_fleet(1), (make_take(1), Put(make_instance(1))))
        assert (await refused(ledger, (Remove(Kind.INSTANCE, uuid),))).conflict
        await commit(ledger, (Free(uuid), Remove(Kind.INSTANCE, uuid)))
        assert await ledger.get(Instance, uuid) is None

    # --- providers ---

    async def test_used_is_the_ledgers_own(self, ledger: Ledger) -> None:
        """A reported `used` is ignored; the stored one names every class."""
        await commit(ledger, (Put(replace(make_provider(1), used={VCPU: 5})),), (make_take(1),))
        # An agent's report contains no claims.
        await commit(ledger, (Put(replace(make_provider(1), used={})),))
        provider = await ledger.get(Provider, make_uuid("host", 1))
        assert provider is not None
        assert provider.used == {VCPU: 1, MEMORY_MB: 0, DISK_GB: 0}

    async def test_every_put_of_a_provider_increments_its_generation(self, ledger: Ledger) -> None:
        """A new provider keeps its generation; each later put increments the stored one."""
        await commit(ledger, (Put(make_provider(1)),), (Put(make_provider(1)),))
        provider = replace(make_provider(1), traits=frozenset({"HW_CPU_X86_AVX2"}))
        await commit(ledger, (Put(provider),))
        used = dict.fromkeys(provider.inventories, 0)
        stored = await ledger.get(Provider, provider.uuid)
        assert stored == replace(provider, generation=2, used=used)
        assert await ledger.all(Provider) == [stored]

    async def test_a_class_in_use_stays_when_it_is_no_longer_reported(self, ledger: Ledger) -> None:
        """A class in use stays with total 0, so no more can be taken; unused ones are removed."""
        await commit(ledger, *make_fleet(1), (make_take(1),))
        fewer = replace(make_provider(1), inventories={DISK_GB: Inventory(total=10)})
        await commit(ledger, (Put(fewer),))
        provider = await ledger.get(Provider, fewer.uuid)
        assert provider is not None
        # VCPU is in use and stays; MEMORY_MB is not and is gone.
        assert provider.inventories == {VCPU: Inventory(total=0), DISK_GB: Inventory(total=10)}
        assert provider.used == {VCPU: 1, DISK_GB: 0}
        shortage = (await refused(ledger, (make_take(2),))).shortages[0]
        assert shortage.left == 0
        await commit(ledger, (Free(make_uuid("instance", 1)),), (Put(fewer),))
        provider = await ledger.get(Provider, fewer.uuid)
        assert provider is not None
        assert provider.used == {DISK_GB: 0}

    async def test_shrinking_below_what_is_used_is_kept(self, ledger: Ledger) -> None:
        """A report may shrink capacity below usage; nothing more fits until enough is freed."""
        units = [(make_take(n),) for n in (1, 2, 3)]
        await commit(ledger, *make_fleet(1), *units, (Put(make_provider(1, vcpus=2)),))
        shortage = (await refused(ledger, (make_take(4),))).shortages[0]
        assert (shortage.asked, shortage.left) == (1, 0)
        await commit(ledger, (Free(make_uuid("instance", 1)), Free(make_uuid("instance", 2))))
        await commit(ledger, (make_take(4),))

    async def test_a_provider_in_use_is_not_removed(self, ledger: Ledger) -> None:
        """A provider without allocations can be removed, together with its host or after it."""
        uuid = make_uuid("host", 1)
        await commit(ledger, *make_fleet(1), (make_take(1),))
        host, provider = Remove(Kind.HOST, uuid), Remove(Kind.PROVIDER, uuid)
        # The unit also removes the host, but the provider is in use.
        assert (await refused(ledger, (host, provider))).conflict
        await commit(ledger, (Free(make_uuid("instance", 1)),))
        # The provider is not in use, but its host would stay without one.
        assert (await refused(ledger, (provider,))).conflict
        await commit(ledger, (provider, host))
        assert await ledger.all(Provider) == []
        shortage = (await refused(ledger, (make_take(2),))).shortages[0]
        assert shortage.left == 0

    # --- services ---

    async def test_heartbeats_are_kept_to_the_last_digit(self, ledger: Ledger) -> None:
        """A heartbeat sets `last_seen_s` of known services; unknown hosts are ignored."""
        # The time has more digits than a JSON number in SQLite keeps.
        at_s = 1_700_000_000.1234567
        await commit(ledger, *make_fleet(2), (Heartbeats(("host-1", "host-9"), at_s),))
        first, second = await ledger.all(Service)
        assert first == make_service(1, last_seen_s=at_s)
        assert second == make_service(2)

    async def test_reports_of_heartbeats_are_shared(self, ledger: Ledger) -> None:
        """A report replaces its gateway's previous one; readers get those that are newer."""
        counts = {"lag": 0, "placed": 2**40}
        old = HeartbeatReport("scheduler:a", 1_000, {"host-1": 1.0000000000000002})
        new = HeartbeatReport("scheduler:a", 2_000, {"host-1": 2.5, "host-2": 0.0}, counts)
        other = HeartbeatReport("b", 1_500, {})
        for report in (old, other, new):
            await ledger.save_heartbeats(report)
        assert sorted(await ledger.heartbeats({}), key=lambda one: one.number) == [other, new]
        assert await ledger.heartbeats({"b": 1_499, "scheduler:a": 2_000}) == [other]
        late = HeartbeatReport("c", 2_000 + HEARTBEATS_KEPT_MS, {"host-1": 1.0000000000000002})
        await ledger.save_heartbeats(late)
        kept = await ledger.heartbeats({})
        assert {one.gateway for one in kept} == {"scheduler:a", "c"}
        assert late in kept

    async def test_the_later_of_put_and_heartbeat_counts(self, ledger: Ledger) -> None:
        """A later put overrides an earlier heartbeat, and vice versa."""
        service = make_service(1, last_seen_s=10.0)
        # The units are in one commit, so both may be in one batch of rows.
        await commit(ledger, (Put(service),), (Heartbeats(("host-1",), 20.0),), (Put(service),))
        assert await ledger.get(Service, "host-1") == service
        await commit(ledger, (Put(service), Heartbeats(("host-1",), 30.0)))
        assert await ledger.get(Service, "host-1") == replace(service, last_seen_s=30.0)

    # --- lists ---

    async def test_lists_are_sorted_by_key(self, ledger: Ledger) -> None:
        """Records are listed sorted by key, aggregates by id, up to the limit."""
        # As text, 10 sorts before 2.
        numbers = (10, 2, 1)
        await commit(ledger, *[(Put(make_aggregate(n)), Put(make_flavor(n))) for n in numbers])
        assert [a.aggregate_id for a in await ledger.all(Aggregate)] == [1, 2, 10]
        assert [f.flavor_id for f in await ledger.all(Flavor)] == ["1", "10", "2"]
        assert [a.aggregate_id for a in await ledger.all(Aggregate, limit=2)] == [1, 2]
        await commit(ledger, *[(Put(make_pending_request(n)),) for n in numbers])
        pending = await ledger.all(PendingRequest)
        assert [p.request.request_id for p in pending] == ["req-1", "req-10", "req-2"]

    async def test_decisions_come_newest_first(self, ledger: Ledger) -> None:
        """Decisions are listed newest first, up to the limit."""
        await commit(ledger, *[(Put(make_decision(n)),) for n in (2, 3, 1)])
        assert await ledger.all(Decision, limit=2) == [make_decision(3), make_decision(2)]

    async def test_numbers_are_drawn_once(self, ledger: Ledger) -> None:
        """Concurrent callers never get the same id of a kind; each kind has its own sequence."""
        drawn = await asyncio.gather(*(ledger.next_id(Kind.AGGREGATE) for _ in range(20)))
        assert sorted(drawn) == list(range(1, 21))
        assert await ledger.next_id(Kind.FLAVOR) == 1
        # Drawing an id creates no version, because followers need not know about it.
        assert await ledger.version() == 0

    async def test_a_snapshot_holds_live_instances(self, ledger: Ledger) -> None:
        """Instances that are on a host, wait for one, or have disks to be deleted are live."""
        waiting, running = make_instance(1), make_instance(2, host="host-1")
        # This instance still names its host, but it is deleted.
        gone = replace(make_instance(3, host="host-1"), status=Status.DELETED)
        failed = replace(make_instance(4), status=Status.ERROR, task=None)
        broken = replace(make_instance(5, host="host-1"), status=Status.ERROR)
        # This one is being deleted and has neither host nor disks, so no host has work left.
        stopping = replace(make_instance(6), task=Task.DELETING)
        offloaded = replace(make_instance(7), status=Status.SHELVED_OFFLOADED, task=None)
        # This one is being unshelved and waits for a host.
        coming_back = replace(offloaded, uuid=make_uuid("instance", 8), task=Task.UNSHELVING)
        stored = replace(offloaded, uuid=make_uuid("instance", 9), disks="fake+stored:///9")
        going = replace(stored, task=Task.DELETING)
        dead = (gone, failed, stopping, offloaded)
        for instance in (waiting, running, broken, coming_back, going, *dead):
            await commit(ledger, (Put(instance),))
        snapshot = await ledger.snapshot(CREATED_AT_S)
        assert snapshot.now_s == CREATED_AT_S
        assert snapshot.instances == tuple(
            replace(instance, revision=1)
            for instance in (waiting, running, broken, coming_back, going)
        )
