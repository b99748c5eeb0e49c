"""Migrations and actions, which are listed, reported, and deleted with their instance."""

# ruff: noqa: S101 - a conformance suite is made of asserts

from dataclasses import replace

import pytest

from berth.adapters.ledger.engine.retention import Retention
from berth.domain.compute.instance import Instance, Status
from berth.domain.compute.instance_action import Action
from berth.domain.compute.migration import Migration, MoveKind, Place, Stage
from berth.domain.errors import NotFoundError
from berth.domain.ledger.record import Kind
from berth.domain.ledger.write import Put, Remove, Unit
from berth.ports.ledger import InstanceQuery, Ledger, MigrationQuery
from berth.testing.builders import (
    CREATED_AT_S,
    make_action,
    make_flavor,
    make_instance,
    make_migration,
    make_uuid,
)
from berth.testing.ledger_conformance.feed import NOTHING, events_of
from berth.testing.ledger_conformance.fixtures import LedgerFactory, LedgerFixtures, commit

ODD = replace(
    make_migration(2, of=2),
    kind=MoveKind.LIVE,
    stage=Stage.MOVING,
    source=Place("host-3", "node-3", make_flavor()),
    destination=Place("host-4", "node-4", make_flavor()),
    project_id="project-2",
    user_id="user-2",
    updated_at_s=CREATED_AT_S + 100,
)
"""One of three migrations; it differs from the others in every field that a query may name."""

VM = make_uuid("instance", 1)
_SHORT = Retention(feed_versions=10, deleted_instances_s=3600.0)
DELETED = replace(make_instance(1), status=Status.DELETED, task=None, updated_at_s=1.0)
"""An instance that was deleted long ago."""


async def pass_time(ledger: Ledger) -> None:
    """Commit enough units that a ledger with a short retention trims."""
    for number in range(20):
        await commit(ledger, (Put(make_flavor(number)),))


class MigrationTests(LedgerFixtures):
    """Tests of `migrations` and `actions`, and of how both are trimmed."""

    @pytest.mark.parametrize(
        "query",
        [
            MigrationQuery(host="host-3"),
            MigrationQuery(host="host-4"),
            MigrationQuery(host="host-3", is_live=True),
            MigrationQuery(source_host="host-3"),
            MigrationQuery(instance_uuid=ODD.instance_uuid),
            MigrationQuery(kind="live-migration"),
            MigrationQuery(kind=MoveKind.LIVE),
            MigrationQuery(status="running"),
            MigrationQuery(project_id="project-2"),
            MigrationQuery(user_id="user-2"),
            MigrationQuery(changed_since_s=ODD.updated_at_s),
            MigrationQuery(host="host-4", kind="live-migration", project_id="project-2"),
        ],
        ids=str,
    )
    async def test_moves_are_found_by_each_field(
        self, ledger: Ledger, query: MigrationQuery
    ) -> None:
        """Each field of a query selects the migrations that equal it, and fields combine."""
        await commit(ledger, *[(Put(one),) for one in (make_migration(1), ODD, make_migration(3))])
        assert await ledger.migrations(query) == [ODD]

    async def test_moves_that_were_not_asked_for_are_not_found(self, ledger: Ledger) -> None:
        """`source_host` does not match a destination, and time bounds are inclusive."""
        first, third = make_migration(1), make_migration(3)
        await commit(ledger, *[(Put(one),) for one in (first, ODD, third)])
        for query, expected in (
            (MigrationQuery(source_host="host-4"), []),
            (MigrationQuery(host="host-2", kind="live-migration"), []),
            (MigrationQuery(host="host-1"), [third, first]),
            (MigrationQuery(host="host-2"), [third, first]),
            (MigrationQuery(changed_before_s=third.updated_at_s), [third, first]),
            (MigrationQuery(changed_before_s=first.updated_at_s), [first]),
            (MigrationQuery(changed_since_s=third.updated_at_s), [third, ODD]),
            (MigrationQuery(), [third, ODD, first]),
        ):
            assert await ledger.migrations(query) == expected

    async def test_live_and_ended_moves_are_distinguished(self, ledger: Ledger) -> None:
        """`is_live` separates migrations in progress from ended ones, however they ended."""
        moves = [make_migration(n) for n in range(1, 5)]
        ends = (Stage.COMPLETED, Stage.FAILED, Stage.CONFIRMED)
        over = [replace(one, stage=stage) for one, stage in zip(moves, ends, strict=False)]
        await commit(ledger, *[(Put(move),) for move in moves])
        await commit(ledger, *[(Put(move),) for move in over])
        assert await ledger.migrations(MigrationQuery(is_live=True)) == moves[3:]
        assert await ledger.migrations(MigrationQuery(is_live=False)) == over[::-1]
        for query in (MigrationQuery(host="host-1"), MigrationQuery()):
            assert await ledger.migrations(query) == [moves[3], *over[::-1]]

    async def test_a_move_is_found_by_what_it_is_now(self, ledger: Ledger) -> None:
        """A migration is found by its current values only."""
        await commit(ledger, (Put(make_migration(1)),))
        assert await ledger.migrations(MigrationQuery(status="migrating")) == [make_migration(1)]
        other = Place("host-5", "host-5", make_flavor())
        arrived = replace(make_migration(1), stage=Stage.ARRIVED, destination=other)
        await commit(ledger, (Put(arrived),))
        assert await ledger.migrations(MigrationQuery(status="migrating")) == []
        assert await ledger.migrations(MigrationQuery(host="host-2")) == []
        for query in (MigrationQuery(status="finished"), MigrationQuery(host="host-5")):
            assert await ledger.migrations(query) == [arrived]
        assert await ledger.get(Migration, arrived.uuid) == arrived

    async def test_pages_of_moves_follow_one_another_newest_first(self, ledger: Ledger) -> None:
        """Pages by marker add up to the whole list, even if creation times are equal."""
        moves = [replace(make_migration(n), created_at_s=CREATED_AT_S + n // 3) for n in range(8)]
        await commit(ledger, *[(Put(move),) for move in moves])
        whole = await ledger.migrations(MigrationQuery())
        assert whole == sorted(moves, key=lambda m: (m.created_at_s, m.uuid), reverse=True)
        paged: list[Migration] = []
        # The query has another condition, because a marker must work together with one.
        page = await ledger.migrations(MigrationQuery(host="host-1", limit=3))
        while page:
            paged += page
            marker = page[-1].uuid
            page = await ledger.migrations(MigrationQuery(host="host-1", limit=3, marker=marker))
        assert paged == whole
        with pytest.raises(NotFoundError):
            await ledger.migrations(MigrationQuery(marker="unknown"))

    async def test_a_snapshot_has_the_moves_that_go_on(self, ledger: Ledger) -> None:
        """A snapshot contains the migrations that have not ended, sorted by uuid."""
        stages = list(Stage)
        moves = [replace(make_migration(n), stage=stage) for n, stage in enumerate(stages)]
        await commit(ledger, *[(Put(move),) for move in reversed(moves)])
        expected = tuple(move for move in moves if not move.has_ended)
        # Five stages are final. A new final stage must be added to this number.
        assert len(expected) == len(stages) - 5
        assert (await ledger.snapshot(0.0)).migrations == expected
        assert len(await ledger.migrations(MigrationQuery())) == len(stages)

    async def test_moves_are_in_the_feed(self, ledger: Ledger) -> None:
        """The feed reports a migration in every stage, even in the last one."""
        move = make_migration(1)
        for stage in (Stage.LEAVING, Stage.ARRIVED, Stage.CONFIRMED):
            version = await commit(ledger, (Put(replace(move, stage=stage)),))
            assert await events_of(ledger, version) == [replace(move, stage=stage)]

    async def test_actions_of_an_instance_come_newest_first(self, ledger: Ledger) -> None:
        """Each instance has its own actions; an action that is stored again is listed once."""
        # This action is in progress; the second commit stores it again.
        begun = replace(make_action(2), ended_at_s=None, events=())
        await commit(ledger, *[(Put(one),) for one in (make_action(3), begun, make_action(1))])
        await commit(ledger, (Put(make_action(1, of=2)),), (Put(replace(begun, message="no")),))
        expected = [make_action(3), replace(begun, message="no"), make_action(1)]
        assert await ledger.actions(VM) == expected
        assert await ledger.actions(make_uuid("instance", 2)) == [make_action(1, of=2)]
        assert await ledger.actions("unknown") == []
        assert await ledger.get(Action, begun.key) == replace(begun, message="no")

    async def test_actions_of_one_moment_have_an_order(self, ledger: Ledger) -> None:
        """Actions that started at the same time are sorted by request id, in descending order."""
        # The actions are not sorted by request id, so that insertion order fails the test.
        actions = [replace(make_action(n), started_at_s=CREATED_AT_S) for n in (2, 3, 1)]
        await commit(ledger, tuple(Put(action) for action in actions))
        assert [one.request_id for one in await ledger.actions(VM)] == ["req-3", "req-2", "req-1"]

    async def test_actions_are_not_in_the_feed(self, ledger: Ledger) -> None:
        """Actions are not in the feed, but their versions and the units' other changes are."""
        instance = replace(make_instance(1), action=make_action(1), migration_uuid="m")
        units: list[Unit] = [
            (Put(make_action(1)),),
            (Put(make_action(2)), Put(instance)),
            (Remove(Kind.ACTION, make_action(1).key),),
        ]
        await commit(ledger, *units)
        events = [[NOTHING], [replace(instance, revision=1)], [NOTHING]]
        assert [await events_of(ledger, version) for version in (1, 2, 3)] == events
        assert await ledger.get(Instance, VM) == replace(instance, revision=1)

    async def test_history_goes_with_its_instance(self, open_ledger: LedgerFactory) -> None:
        """Trimming a deleted instance deletes its migrations and actions, and no others."""
        ledger = await open_ledger(_SHORT)
        # Migrations are deleted with their instance, not by age: that of the live instance stays.
        ended = replace(make_migration(1), stage=Stage.CONFIRMED)
        of_live = replace(make_migration(2, of=2), stage=Stage.FAILED)
        unit = (Put(DELETED), Put(make_instance(2)), Put(ended), Put(of_live))
        await commit(ledger, (*unit, Put(make_action(1)), Put(make_action(2, of=2))))
        await pass_time(ledger)
        assert await ledger.get(Instance, VM) is None
        assert await ledger.migrations(MigrationQuery()) == [of_live]
        assert await ledger.all(Action) == [make_action(2, of=2)]
        await ledger.close()

    async def test_a_deleted_instance_stays_while_a_move_has_work_to_do(
        self, open_ledger: LedgerFactory
    ) -> None:
        """A deleted instance stays while a host still has to destroy its guest."""
        ledger = await open_ledger(_SHORT)
        # LEFT_BEHIND: the source host was down and has not destroyed the guest yet.
        left_behind = replace(make_migration(1), stage=Stage.LEFT_BEHIND)
        ended = replace(make_migration(2), stage=Stage.FAILED)
        await commit(ledger, (Put(DELETED), Put(left_behind), Put(ended), Put(make_action(1))))
        await pass_time(ledger)
        assert await ledger.migrations(MigrationQuery()) == [ended, left_behind]
        assert await ledger.actions(VM) == [make_action(1)]
        assert len(await ledger.instances(InstanceQuery(deleted=True))) == 1
        await commit(ledger, (Put(replace(left_behind, stage=Stage.COMPLETED)),))
        await pass_time(ledger)
        assert await ledger.migrations(MigrationQuery()) == []
        assert await ledger.actions(VM) == []
        assert await ledger.instances(InstanceQuery(deleted=None)) == []
        await ledger.close()
