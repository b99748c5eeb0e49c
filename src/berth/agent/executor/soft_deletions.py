"""Steps that power off a guest whose instance is soft-deleted, and start it again."""

from berth.agent.executor.host_context import DONE, HostContext, StepEnd, failed
from berth.domain.compute.build_failure import BuildError
from berth.domain.compute.instance import Instance
from berth.domain.errors import DriverError


async def soft_delete(context: HostContext, instance: Instance) -> StepEnd:
    """Power the guest off without a graceful shutdown, as in Nova."""
    try:
        await context.driver.stop(instance.uuid, grace_s=0.0)
    except DriverError as error:
        return failed(error)
    return DONE


async def restore(context: HostContext, instance: Instance) -> StepEnd:
    """Start the guest again, from its stored disks if shelving has stored them."""
    try:
        if instance.disks is not None:
            await context.driver.fetch_disks(instance, instance.disks)
        # If the host was down during the deletion, the guest may still run or be paused.
        await context.driver.stop(instance.uuid, grace_s=0.0)
        await context.driver.spawn(instance)
    except (BuildError, DriverError) as error:
        return failed(error)
    return DONE
