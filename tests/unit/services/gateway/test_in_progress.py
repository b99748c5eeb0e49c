"""Outcomes of steps are recorded from the change feed, without a read of the ledger."""

from dataclasses import replace

import pytest

from berth.domain.compute.instance import Instance, Status, Task
from berth.domain.compute.step import StepOutcome, StepResult
from berth.domain.ledger.write import Put
from berth.testing.builders import make_instance, make_migration
from tests.unit.services.wiring import Desk, open_desk

HOST = "host-1"


async def desk_with(instance: Instance) -> tuple[Desk, Instance]:
    """Return a desk whose process follows the ledger, and the instance as the ledger has it."""
    desk = await open_desk()
    await desk.follower.start()
    await desk.ledger.write(Put(instance))
    await desk.follower.catch_up()
    stored = await desk.ledger.get(Instance, instance.uuid)
    assert stored is not None
    desk.ledger.reads.clear()
    return desk, stored


def building() -> Instance:
    """Return an instance that its host is to build."""
    return replace(make_instance(1, host=HOST), status=Status.BUILD, task=Task.SPAWNING)


def done(instance: Instance) -> StepOutcome:
    """Return a successful outcome of the instance's current step."""
    return StepOutcome(instance.uuid, instance.revision, StepResult.DONE)


async def test_a_build_is_recorded_without_a_read() -> None:
    """The feed has shown the instance in the revision that the outcome names."""
    desk, instance = await desk_with(building())
    conclusion = await desk.gateway().conclude(HOST, done(instance))
    assert conclusion.is_recorded
    assert not [read for read in desk.ledger.reads if read.startswith("Instance")]
    stored = await desk.ledger.get(Instance, instance.uuid)
    assert stored is not None
    assert (stored.status, stored.task) == (Status.ACTIVE, None)


async def test_a_change_that_the_process_has_not_seen_takes_precedence() -> None:
    """The ledger refuses the outcome of an instance that was deleted meanwhile."""
    desk, instance = await desk_with(building())
    await desk.ledger.write(Put(replace(instance, task=Task.DELETING)))
    conclusion = await desk.gateway().conclude(HOST, done(instance))
    assert not conclusion.is_recorded
    assert conclusion.standing is not None
    assert conclusion.standing.instance is not None
    assert conclusion.standing.instance.task is Task.DELETING


async def test_the_outcome_of_another_host_is_refused() -> None:
    """A host cannot conclude the step of another host, whether or not the record is known."""
    desk, instance = await desk_with(building())
    conclusion = await desk.gateway().conclude("host-2", done(instance))
    assert not conclusion.is_recorded


@pytest.mark.parametrize(
    "ended",
    [
        replace(building(), task=None, status=Status.ACTIVE),
        replace(building(), status=Status.DELETED, task=Task.DELETING),
        replace(building(), migration_uuid=make_migration(1, of=1).uuid),
    ],
    ids=["task ended", "deleted", "moving"],
)
async def test_an_instance_is_forgotten_when_its_step_ends(ended: Instance) -> None:
    """Nothing stays in memory for an instance on which no host works by itself."""
    desk, instance = await desk_with(building())
    assert desk.in_progress.at(instance.uuid, instance.revision) == instance
    await desk.ledger.write(Put(replace(ended, revision=instance.revision)))
    await desk.follower.catch_up()
    for revision in (instance.revision, instance.revision + 1):
        assert desk.in_progress.at(instance.uuid, revision) is None


async def test_a_snapshot_replaces_all() -> None:
    """An instance that a lost version has left behind is not kept."""
    desk, instance = await desk_with(building())
    empty = await (await open_desk()).ledger.snapshot(0.0)
    desk.in_progress.load(empty)
    assert desk.in_progress.at(instance.uuid, instance.revision) is None
