"""The change feed: gapless, in whole versions, and equal to the snapshot when replayed."""

# ruff: noqa: S101, PLR2004 - a conformance suite is made of asserts

import asyncio
from dataclasses import replace

import pytest

from berth.adapters.ledger.engine.retention import Retention
from berth.domain.compute.decision import Decision
from berth.domain.compute.instance import Status
from berth.domain.errors import FeedGapError, UnavailableError
from berth.domain.inventory.resources import DISK_GB, MEMORY_MB, VCPU
from berth.domain.ledger.change import Change, HostsAlive, RecordRemoved, Usage
from berth.domain.ledger.record import Kind
from berth.domain.ledger.write import Committed, Free, Heartbeats, Put, Remove, Unit
from berth.ports.ledger import InstanceQuery, Ledger
from berth.testing.builders import (
    make_decision,
    make_flavor,
    make_fleet,
    make_host,
    make_instance,
    make_provider,
    make_service,
    make_take,
    make_uuid,
)
from berth.testing.ledger_conformance.fixtures import (
    LedgerFactory,
    LedgerFixtures,
    commit,
    refused,
)

HOST_1 = make_uuid("host", 1)
NOTHING = HostsAlive(hosts=(), at_s=0.0)


async def events_of(ledger: Ledger, version: int) -> list[object]:
    """Return the events of one version."""
    return [change.event for change in await ledger.changes(version - 1, limit=1)]


class FeedTests(LedgerFixtures):
    """Tests of the feed that followers of the ledger read."""

    async def test_versions_count_committed_units(self, ledger: Ledger) -> None:
        """Each committed unit gets the next version; a refused one gets none."""
        units: list[Unit] = [(Put(make_host(1)),), (make_take(1),), (Put(make_flavor(1)),)]
        first, refusal, third = await ledger.commit(units)
        assert (first, third) == (Committed(1), Committed(2))
        assert not isinstance(refusal, Committed)
        assert await ledger.version() == 2

    async def test_no_units_no_version(self, ledger: Ledger) -> None:
        """Committing no units returns no outcomes and makes no version."""
        assert await ledger.commit([]) == []
        assert await ledger.version() == 0

    async def test_the_feed_has_records_as_they_are_stored(self, ledger: Ledger) -> None:
        """The feed reports records as stored: with their new revision or generation, and usage."""
        await commit(ledger, (Put(make_provider(1)),), (make_take(1),))
        version = await commit(ledger, (Put(make_provider(1)), Put(make_instance(1))))
        used = {VCPU: 1, MEMORY_MB: 0, DISK_GB: 0}
        assert await events_of(ledger, version) == [
            replace(make_provider(1), generation=2, used=used),
            replace(make_instance(1), revision=1),
        ]

    async def test_usage_is_absolute_and_reported_last_once_per_provider(
        self, ledger: Ledger
    ) -> None:
        """A version reports the whole usage of each provider it changed, after its records."""
        await commit(ledger, *make_fleet(1), (make_take(1),))
        unit = (
            make_take(2, amounts={VCPU: 2, MEMORY_MB: 64}),
            Free(make_uuid("instance", 1)),
            Put(make_instance(2)),
        )
        # The usage of instance 1 is released and that of instance 2 added: the event gives the sum.
        version = await commit(ledger, unit)
        usage = Usage(HOST_1, {VCPU: 2, MEMORY_MB: 64, DISK_GB: 0}, generation=2)
        assert await events_of(ledger, version) == [replace(make_instance(2), revision=1), usage]

    async def test_heartbeats_of_known_hosts_are_in_the_feed(self, ledger: Ledger) -> None:
        """The feed names only hosts whose services the ledger has."""
        version = await commit(ledger, (Put(make_service(1)),), (Heartbeats(("host-1", "x"), 5.5),))
        assert await events_of(ledger, version) == [HostsAlive(("host-1",), 5.5)]

    async def test_removals_are_in_the_feed(self, ledger: Ledger) -> None:
        """A removed record is reported by kind and key, without a removed provider's last usage."""
        await commit(ledger, *make_fleet(1), (make_take(1),))
        unit = (
            Free(make_uuid("instance", 1)),
            Remove(Kind.HOST, HOST_1),
            Remove(Kind.PROVIDER, HOST_1),
        )
        version = await commit(ledger, unit)
        expected = [RecordRemoved(Kind.HOST, HOST_1), RecordRemoved(Kind.PROVIDER, HOST_1)]
        assert await events_of(ledger, version) == expected

    async def test_every_version_is_in_the_feed(self, ledger: Ledger) -> None:
        """A version that changes nothing for followers appears as a `HostsAlive` without hosts."""
        units: list[Unit] = [
            (Put(make_decision(1)),),
            (Remove(Kind.DECISION, "req-1"),),
            (Free("unknown"),),
            (Heartbeats(("x",), 5.0),),
            (),
        ]
        await commit(ledger, *units)
        assert await ledger.changes(0) == [Change(version, NOTHING) for version in range(1, 6)]

    async def test_changes_come_in_whole_versions(self, ledger: Ledger) -> None:
        """`limit` counts versions; all changes of each are returned, in order."""
        await commit(ledger, *make_fleet(5))
        first = await ledger.changes(1, limit=2)
        assert [change.version for change in first] == [2, 2, 2, 3, 3, 3]
        rest = await ledger.changes(3)
        assert [change.version for change in rest] == [4, 4, 4, 5, 5, 5]
        assert await ledger.changes(5) == []

    async def test_known_changes_are_a_prefix_of_the_feed(self, ledger: Ledger) -> None:
        """The changes known without I/O are a prefix of the feed, in whole versions."""
        for number in range(5):
            await ledger.commit([(Put(make_flavor(3 * number + i)),) for i in range(3)])
        newest = await ledger.version()
        # The last position is beyond the newest version, as for a follower of another ledger.
        for after in range(newest + 2):
            news = ledger.news(after)
            changes = await ledger.changes(after) if after <= newest else []
            assert news == changes[: len(news)]
            last = news[-1].version if news else after
            assert [one for one in changes if one.version <= last] == news

    async def test_a_refused_unit_is_not_in_the_feed(self, ledger: Ledger) -> None:
        """Nothing that a refused unit did before its refusal appears in the feed."""
        await refused(ledger, (Put(make_host(1)), make_take(1)))
        assert await ledger.changes(0) == []

    async def test_a_follower_behind_the_feed_gets_an_error(
        self, open_ledger: LedgerFactory
    ) -> None:
        """Reading trimmed versions raises an error; the versions that are kept can be read."""
        ledger = await open_ledger(Retention(feed_versions=10))
        # A batch, then a single unit: a ledger may trim once per batch, and must keep 10 versions.
        await commit(ledger, *[(Put(make_flavor(n)),) for n in range(40)])
        await commit(ledger, (Put(make_flavor(1)),))
        with pytest.raises(FeedGapError):
            await ledger.changes(0)
        kept = await ledger.changes(31)
        assert [change.version for change in kept] == list(range(32, 42))
        await ledger.close()

    async def test_old_decisions_and_claim_keys_are_forgotten(
        self, open_ledger: LedgerFactory
    ) -> None:
        """The newest decisions are kept, and an expired claim key is no longer a repetition."""
        # `feed_versions` determines how often a ledger trims, so a small value makes it trim here.
        ledger = await open_ledger(Retention(feed_versions=10, decisions=3, claim_keys_s=1e-6))
        await commit(ledger, *make_fleet(1), (make_take(1),))
        for number in range(20):
            await commit(ledger, (Put(make_decision(number)),))
        decisions = await ledger.all(Decision)
        assert decisions[:3] == [make_decision(number) for number in (19, 18, 17)]
        assert len(decisions) < 10
        assert (await refused(ledger, (make_take(1),))).conflict
        await ledger.close()

    async def test_deleted_instances_are_forgotten_in_time(
        self, open_ledger: LedgerFactory
    ) -> None:
        """Instances deleted long ago disappear from lists; live ones stay."""
        ledger = await open_ledger(Retention(feed_versions=10, deleted_instances_s=3600.0))
        old, live = make_instance(1), make_instance(2)
        # This instance is also deleted, but its last change is recent.
        fresh = replace(make_instance(3), status=Status.DELETED, updated_at_s=4e9)
        dead = replace(old, status=Status.DELETED, task=None, updated_at_s=1.0)
        await commit(ledger, (Put(dead), Put(replace(live, updated_at_s=1.0)), Put(fresh)))
        for number in range(20):
            await commit(ledger, (Put(make_decision(number)),))
        left = await ledger.instances(InstanceQuery(deleted=None))
        assert {one.uuid for one in left} == {live.uuid, fresh.uuid}
        await ledger.close()

    async def test_a_follower_of_another_ledger_gets_an_error(self, ledger: Ledger) -> None:
        """A follower ahead of the ledger must load a snapshot: it has followed another ledger."""
        await commit(ledger, (Put(make_host(1)),))
        with pytest.raises(FeedGapError):
            await ledger.changes(2)

    async def test_waiting_ends_with_a_version(self, ledger: Ledger) -> None:
        """A commit wakes the callers that wait for a newer version."""
        assert await ledger.wait(-1, 60.0)
        waiting = [asyncio.ensure_future(ledger.wait(after, 60.0)) for after in (0, 0, 1)]
        await asyncio.sleep(0)
        await commit(ledger, (Put(make_host(1)),))
        assert await asyncio.gather(*waiting[:2]) == [True, True]
        await commit(ledger, (Put(make_host(1)),))
        assert await waiting[2]
        assert await ledger.wait(1, 0.0)

    async def test_waiting_times_out(self, ledger: Ledger) -> None:
        """Without a new version, a wait times out and returns False."""
        assert not await ledger.wait(0, 0.0)
        assert not await ledger.wait(0, 0.02)

    async def test_a_cancelled_wait_leaves_the_others_waiting(self, ledger: Ledger) -> None:
        """A cancelled waiter does not keep the others from being woken."""
        gone, stays = (asyncio.ensure_future(ledger.wait(0, 60.0)) for _ in range(2))
        await asyncio.sleep(0)
        gone.cancel()
        await commit(ledger, (Put(make_host(1)),))
        assert await stays
        await asyncio.gather(gone, return_exceptions=True)

    async def test_closing_finishes_what_was_accepted(self, open_ledger: LedgerFactory) -> None:
        """A commit in progress is answered, waiters are woken, and new requests are refused."""
        ledger = await open_ledger()
        accepted = asyncio.ensure_future(ledger.commit([(Put(make_host(1)),)]))
        waiting = asyncio.ensure_future(ledger.wait(5, 60.0))
        await asyncio.sleep(0)
        await ledger.close()
        assert await accepted == [Committed(1)]
        assert not await waiting
        with pytest.raises(UnavailableError):
            await ledger.commit([(Put(make_host(2)),)])
        with pytest.raises(UnavailableError):
            await ledger.version()
        await ledger.close()
