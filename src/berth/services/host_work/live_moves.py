"""Moves of guests that go on running meanwhile."""

from dataclasses import replace

from berth.domain.errors import BuildError, DriverError, MigrationError
from berth.domain.instance import Instance
from berth.domain.migration import Migration, Stage
from berth.domain.write import Free, Put
from berth.services.host_work.bench import Bench, Result
from berth.services.host_work.cold_moves import at
from berth.services.host_work.retries import try_elsewhere
from berth.services.moving import ended, going_on, taken_back

_NAME = "compute_live_migration"
_FAILED = "The live migration failed, and the instance is where it was."


async def prepare(bench: Bench, instance: Instance, migration: Migration) -> Result:
    """Make a guest here that waits for the running one."""
    began_s, name = bench.clock.now_s(), "compute_pre_live_migration"
    try:
        address = await bench.driver.take_in(at(instance, migration.destination))
    except (BuildError, DriverError) as error:
        event, now_s = bench.event(name, began_s, error), bench.clock.now_s()
        stage = Stage.CANCELLED if migration.cancelled else Stage.FAILED
        fault = bench.fault(_FAILED, error)
        failed = replace(migration, stage=stage, fault=fault, updated_at_s=now_s)
        further = try_elsewhere(bench, instance, failed, event)
        return Result((*taken_back(migration, instance), Put(failed), *further))
    event, now_s = bench.event(name, began_s), bench.clock.now_s()
    moving = replace(migration, stage=Stage.MOVING, address=address, updated_at_s=now_s)
    return Result((*going_on(instance, now_s, event=event), Put(moving)))


async def hand_over(bench: Bench, instance: Instance, migration: Migration) -> Result:
    """Move the running guest to the host that waits for it."""
    began_s = bench.clock.now_s()
    try:
        await _hand_over(bench, migration)
    except DriverError as error:
        event, now_s = bench.event(_NAME, began_s, error), bench.clock.now_s()
        fault = bench.fault(_FAILED, error)
        back = replace(migration, stage=Stage.WITHDRAWING, fault=fault, updated_at_s=now_s)
        return Result((*going_on(instance, now_s, event=event), Put(back)))
    event, now_s = bench.event(_NAME, began_s), bench.clock.now_s()
    over = replace(migration, stage=Stage.COMPLETED, updated_at_s=now_s)
    done = ended(
        at(instance, migration.destination), now_s, event=event, migration_uuid=None, fault=None
    )
    return Result((Free(migration.uuid), *done, Put(over)))


async def _hand_over(bench: Bench, migration: Migration) -> None:
    uuid = migration.instance_uuid
    if all(guest.instance_uuid != uuid for guest in await bench.driver.guests()):
        return  # an earlier try has handed it over, and could not say so
    if migration.cancelled:
        raise MigrationError("it was cancelled before it began")
    await bench.driver.hand_over(uuid, migration.address)


async def withdraw(bench: Bench, instance: Instance, migration: Migration) -> Result:
    """Clear away what waited here for a guest that does not come."""
    await bench.driver.destroy(instance.uuid)
    now_s = bench.clock.now_s()
    stage = Stage.CANCELLED if migration.cancelled else Stage.FAILED
    over = replace(migration, stage=stage, updated_at_s=now_s)
    further = try_elsewhere(bench, instance, over, None)
    return Result((*taken_back(migration, instance), Put(over), *further))


async def clear_away(bench: Bench, migration: Migration) -> Result:
    """Destroy what is left here of a guest that is elsewhere, or deleted, by now."""
    await bench.driver.destroy(migration.instance_uuid)
    stage = Stage.COMPLETED if migration.stage is Stage.LEFT_BEHIND else Stage.FAILED
    over = replace(migration, stage=stage, updated_at_s=bench.clock.now_s())
    return Result((Free(migration.uuid), Put(over)))
