"""Quotas: no unit makes the usage of a project exceed its limits, whichever process writes."""

# ruff: noqa: S101 - a conformance suite is made of asserts

import asyncio
from dataclasses import replace

from berth.domain.compute.instance import Instance, Status, Task
from berth.domain.compute.quota import UNLIMITED, Excess, Footprint, Quota
from berth.domain.ledger.record import Kind
from berth.domain.ledger.write import Committed, Put, QuotaCheck, Remove, Unit
from berth.domain.zones.zone import RemoteInstance, RemoteInstanceStage
from berth.ports.ledger import Ledger
from berth.testing.builders import make_flavor, make_fleet, make_instance, make_take
from berth.testing.ledger_conformance.fixtures import (
    LedgerFactory,
    LedgerFixtures,
    commit,
    refused,
)

_PROJECT = "project-1"
_AT_ONCE = 12


def _limits(
    instances: int = UNLIMITED, vcpus: int = UNLIMITED, memory_mb: int = UNLIMITED
) -> QuotaCheck:
    return QuotaCheck(_PROJECT, Footprint(instances, vcpus, memory_mb))


async def _footprint(ledger: Ledger) -> tuple[int, ...]:
    return tuple(await ledger.project_footprint(_PROJECT))


def _sized(number: int, vcpus: int, memory_mb: int = 512) -> Instance:
    return replace(make_instance(number), flavor=make_flavor(vcpus=vcpus, memory_mb=memory_mb))


def _remote(number: int, vcpus: int, *, is_old: bool = False) -> RemoteInstance:
    uuid = make_instance(number).uuid
    counts_as = None if is_old else (vcpus, 512)
    return RemoteInstance(
        uuid, 1, RemoteInstanceStage.THERE, _PROJECT, "u", "r-1", "req-1", counts_as=counts_as
    )


class QuotaTests(LedgerFixtures):
    """Tests of `QuotaCheck` and `project_footprint`."""

    async def test_a_project_cannot_exceed_its_quota(self, ledger: Ledger) -> None:
        """A unit that would exceed a limit is refused with its excess, and leaves no trace."""
        within = _limits(instances=3)
        await commit(ledger, (Put(make_instance(1)), Put(make_instance(2)), within))
        refusal = await refused(ledger, (Put(make_instance(3)), Put(make_instance(4)), within))
        assert refusal.excess == (Excess("instances", asked=2, used=2, limit=3),)
        assert await ledger.get(Instance, make_instance(3).uuid) is None
        await commit(ledger, (Put(make_instance(3)), within))
        assert await _footprint(ledger) == (3, 3, 3 * 512)

    async def test_remote_instances_count(self, ledger: Ledger) -> None:
        """A remote instance counts once, even with a record here, until its withdrawal begins."""
        within = _limits(instances=2)
        here, remote = _sized(1, vcpus=2), _remote(1, vcpus=2)
        await commit(ledger, (Put(here), Put(remote), within))
        assert await _footprint(ledger) == (1, 2, 512)
        await commit(ledger, (Remove(Kind.INSTANCE, here.uuid),))
        assert await _footprint(ledger) == (1, 2, 512)
        await commit(ledger, (Put(_sized(2, vcpus=1)), within))
        refusal = await refused(ledger, (Put(_remote(3, vcpus=1)), within))
        assert refusal.excess == (Excess("instances", asked=1, used=2, limit=2),)
        await commit(ledger, (Put(replace(remote, stage=RemoteInstanceStage.WITHDRAWING)),))
        assert await _footprint(ledger) == (1, 1, 512)
        await commit(ledger, (Put(_remote(3, vcpus=1)), within))
        await commit(ledger, (Remove(Kind.REMOTE_INSTANCE, _remote(3, vcpus=1).instance_uuid),))
        await commit(ledger, (Put(_sized(4, vcpus=1)), within))
        assert await _footprint(ledger) == (2, 2, 1_024)

    async def test_remote_instances_count_from_the_first_check(
        self, ledger: Ledger, open_ledger: LedgerFactory
    ) -> None:
        """A process counts remote instances that it has not written, even in its first check."""
        await commit(ledger, (Put(_sized(1, vcpus=1)), Put(_remote(1, vcpus=1))))
        await commit(ledger, (Put(_remote(2, vcpus=3)), Put(_remote(3, vcpus=1, is_old=True))))
        within = _limits(instances=2)
        assert (await refused(ledger, (Put(_sized(4, vcpus=1)), within))).excess
        second = await open_ledger()
        # A second ledger of the same store has written nothing, so it must count stored records.
        for one in [ledger] if not await _is_shared(ledger, second) else [ledger, second]:
            assert await _footprint(one) == (2, 4, 1_024)
            assert (await refused(one, (Put(_sized(4, vcpus=1)), within))).excess
        await second.close()

    async def test_every_exceeded_limit_is_named(self, ledger: Ledger) -> None:
        """All limits are compared, in the units of flavors; -1 means no limit."""
        within = _limits(instances=2, vcpus=4, memory_mb=UNLIMITED)
        await commit(ledger, (Put(_sized(1, vcpus=3)), within))
        many = (Put(_sized(2, vcpus=1, memory_mb=10**9)), Put(_sized(3, vcpus=2)), within)
        assert (await refused(ledger, many)).excess == (
            Excess("instances", asked=2, used=1, limit=2),
            Excess("vcpus", asked=3, used=3, limit=4),
        )

    async def test_units_of_one_batch_count_together(self, ledger: Ledger) -> None:
        """Of two units that fit alone but not together, the second is refused."""
        await commit(ledger, *make_fleet(1))
        within = _limits(vcpus=3)
        units: list[Unit] = [(Put(_sized(n, vcpus=2)), make_take(n), within) for n in (1, 2)]
        first, second = await ledger.commit(units)
        assert isinstance(first, Committed)
        assert not isinstance(second, Committed)
        assert await _footprint(ledger) == (1, 2, 512)

    async def test_instances_from_before_the_quota_count(self, ledger: Ledger) -> None:
        """Instances count even if no quota was checked when they were created."""
        await commit(ledger, (Put(make_instance(1)),), (Put(make_instance(2)),))
        assert (await refused(ledger, (Put(make_instance(3)), _limits(instances=2)))).excess
        await commit(ledger, (Put(make_instance(4)),))
        assert (await refused(ledger, (Put(make_instance(3)), _limits(instances=3)))).excess
        await commit(ledger, (Put(make_instance(3)), _limits(instances=4)))

    async def test_deleted_instances_do_not_count(self, ledger: Ledger) -> None:
        """An instance counts until it is deleted or removed."""
        within = _limits(instances=2)
        await commit(ledger, (Put(make_instance(1)), Put(make_instance(2)), within))
        gone = replace(make_instance(1), status=Status.DELETED, revision=1)
        await commit(ledger, (Put(gone),))
        await commit(ledger, (Put(make_instance(3)), within))
        await commit(ledger, (Remove(Kind.INSTANCE, make_instance(2).uuid),))
        await commit(ledger, (Put(make_instance(4)), within))
        assert (await refused(ledger, (Put(make_instance(5)), within))).excess
        assert await _footprint(ledger) == (2, 2, 2 * 512)

    async def test_soft_deleted_instances_count_when_they_are_restored(
        self, ledger: Ledger
    ) -> None:
        """A soft-deleted instance does not count; the unit that begins its restore is checked."""
        within = _limits(instances=2)
        await commit(ledger, (Put(make_instance(1)), Put(make_instance(2)), within))
        soft = replace(make_instance(1), status=Status.SOFT_DELETED, task=None, revision=1)
        await commit(ledger, (Put(soft), within))
        assert await _footprint(ledger) == (1, 1, 512)
        await commit(ledger, (Put(make_instance(3)), within))
        back = replace(soft, task=Task.RESTORING, revision=2)
        assert (await refused(ledger, (Put(back), within))).excess
        await commit(ledger, (Put(back), _limits(instances=3)))
        assert await _footprint(ledger) == (3, 3, 3 * 512)

    async def test_a_write_without_increase_is_never_refused(self, ledger: Ledger) -> None:
        """A project above a lowered limit may still make changes that do not increase its usage."""
        await commit(ledger, (Put(_sized(1, vcpus=4)), Put(_sized(2, vcpus=4))))
        lowered = _limits(instances=1, vcpus=2, memory_mb=100)
        smaller = replace(_sized(1, vcpus=1), revision=1)
        await commit(ledger, (Put(smaller), lowered))
        larger = replace(_sized(1, vcpus=2), revision=2)
        refusal = await refused(ledger, (Put(larger), lowered))
        assert refusal.excess == (Excess("vcpus", asked=1, used=5, limit=2),)

    async def test_a_resized_instance_counts_for_its_larger_size(self, ledger: Ledger) -> None:
        """While a resize is unconfirmed, `counts_as` is charged instead of the flavor's size."""
        await commit(ledger, (Put(_sized(1, vcpus=1)),))
        resizing = replace(_sized(1, vcpus=1), revision=1, counts_as=(4, 2_048))
        assert (await refused(ledger, (Put(resizing), _limits(vcpus=3)))).excess
        await commit(ledger, (Put(resizing), _limits(vcpus=4)))
        assert await _footprint(ledger) == (1, 4, 2_048)
        await commit(ledger, (Put(replace(_sized(1, vcpus=2), revision=2)),))
        assert await _footprint(ledger) == (1, 2, 512)

    async def test_other_projects_are_not_counted(self, ledger: Ledger) -> None:
        """A check covers its own project only."""
        other = replace(make_instance(1), project_id="other")
        await commit(ledger, (Put(other), _limits(instances=0)))
        assert (await refused(ledger, (Put(make_instance(2)), _limits(instances=0)))).excess
        assert await _footprint(ledger) == (0, 0, 0)

    async def test_concurrent_writers_never_exceed_a_limit(
        self, ledger: Ledger, open_ledger: LedgerFactory
    ) -> None:
        """Of many concurrent units, as many as fit succeed.

        The units are committed through two ledgers if these share a store.
        """
        most = 7
        other = await open_ledger()
        ledgers = [ledger] if not await _is_shared(ledger, other) else [ledger, other]
        outcomes = await asyncio.gather(
            *(
                one.commit([(Put(make_instance(number * 2 + at)), _limits(instances=most))])
                for number in range(_AT_ONCE)
                for at, one in enumerate(ledgers)
            )
        )
        assert sum(isinstance(outcome, Committed) for (outcome,) in outcomes) == most
        assert (await _footprint(ledger))[0] == most
        for one in ledgers:
            assert (await refused(one, (Put(make_instance(99)), _limits(instances=most)))).excess
        await other.close()

    async def test_a_quota_is_a_record(self, ledger: Ledger) -> None:
        """Quotas are records: they are read, listed, removed, and in the feed and the snapshot."""
        quota = Quota(_PROJECT, instances=3, group_members=UNLIMITED)
        version = await commit(ledger, (Put(quota),))
        assert await ledger.get(Quota, _PROJECT) == quota
        assert (await ledger.snapshot(0.0)).quotas == (quota,)
        assert [change.event for change in await ledger.changes(version - 1)] == [quota]
        await commit(ledger, (Remove(Kind.QUOTA, _PROJECT),))
        assert await ledger.all(Quota) == []


async def _is_shared(one: Ledger, other: Ledger) -> bool:
    """Return whether what is committed to one ledger can be read from another."""
    await commit(one, (Put(Quota("seen")),))
    return await other.get(Quota, "seen") is not None
