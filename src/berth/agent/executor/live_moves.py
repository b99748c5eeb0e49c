"""Steps of live migrations, during which guests keep running."""

from berth.agent.executor.host_context import DONE, HostContext, StepEnd, failed
from berth.domain.compute.build_failure import BuildError
from berth.domain.compute.instance import Instance
from berth.domain.compute.migration import Migration
from berth.domain.compute.step import StepResult
from berth.domain.compute.turns import placed_at
from berth.domain.errors import DriverError, MigrationError
from berth.ports.virt import Guest

# The destination checks this many times, with pauses of this many seconds, whether a waiting guest
# has arrived: QEMU may still be reading the last of its memory.
_LANDING_TRIES = 10
_LANDING_S = 1.0


async def prepare(context: HostContext, instance: Instance, migration: Migration) -> StepEnd:
    """Create a guest at the destination that waits for the running one."""
    try:
        address = await context.driver.take_in(placed_at(instance, migration.destination))
    except (BuildError, DriverError) as error:
        # This is not a failed build: the guest keeps running at the source.
        return failed(DriverError(str(error)))
    return StepEnd(address=address)


async def hand_over(context: HostContext, instance: Instance, migration: Migration) -> StepEnd:
    """Migrate the running guest to the destination, which waits for it.

    Raises:
        DriverError: the driver cannot tell whether the guest is here. The stage is repeated: if it
            failed, the destination would destroy a guest that may have arrived.
        UnavailableError: the migration has begun and its outcome is unknown. The stage is repeated
            for the same reason.
    """
    uuid = instance.uuid
    if all(guest.instance_uuid != uuid for guest in await context.driver.guests()):
        return StepEnd(StepResult.GUEST_GONE)
    try:
        if migration.cancelled:
            raise MigrationError("the migration was cancelled before it began")
        await context.driver.hand_over(uuid, migration.address)
    except DriverError as error:
        return failed(error)
    return DONE


async def check_arrival(context: HostContext, instance: Instance, migration: Migration) -> StepEnd:
    """Find out whether the guest of a live migration has arrived at this destination.

    An orphan, of which the driver has no record, may be the guest, so it is not destroyed but left
    to the operator.
    """
    uuid = migration.instance_uuid
    guest = await _landed(context, uuid)
    if guest is not None and not guest.is_orphan and not guest.waits:
        return DONE
    # A guest that still waits has not received the memory of the lost one, so it is useless.
    if guest is None or not guest.is_orphan:
        await context.driver.destroy(instance.uuid)
    gone = "its source host no longer has it, or is down"
    error = MigrationError(f"guest {uuid} has not arrived, and {gone}")
    return failed(error, result=StepResult.GUEST_LOST)


async def _landed(context: HostContext, uuid: str) -> Guest | None:
    """Return the guest on this host, or None if there is none.

    If the guest is the target of an unfinished migration, wait up to 10 seconds for its arrival.
    """
    guest: Guest | None = None
    for _ in range(_LANDING_TRIES):
        guests = {guest.instance_uuid: guest for guest in await context.driver.guests()}
        guest = guests.get(uuid)
        if guest is None or guest.is_orphan or not guest.waits:
            return guest
        await context.clock.sleep(_LANDING_S)
    return guest


async def withdraw(context: HostContext, instance: Instance, migration: Migration) -> StepEnd:
    """Destroy the guest that waited at the destination of a failed move."""
    del migration
    await context.driver.destroy(instance.uuid)
    return DONE
