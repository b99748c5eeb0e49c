"""Steps that restart a guest from a rescue image, and later from its own disks."""

from berth.agent.executor.host_context import DONE, HostContext, StepEnd, failed
from berth.domain.compute.build_failure import BuildError
from berth.domain.compute.instance import Instance
from berth.domain.errors import DriverError


async def rescue(context: HostContext, instance: Instance) -> StepEnd:
    """Shut the guest down, and start it from the rescue image."""
    return await _restart(context, instance, context.stop_grace_s)


async def unrescue(context: HostContext, instance: Instance) -> StepEnd:
    """Power the guest off, and start it from its own disks.

    As in Nova, the rescue system gets no graceful shutdown, because its disk is deleted.
    """
    return await _restart(context, instance, 0.0)


async def _restart(context: HostContext, instance: Instance, grace_s: float) -> StepEnd:
    try:
        await context.driver.stop(instance.uuid, grace_s=grace_s)
        # The driver derives the boot disk from the instance (`rescue_image_of`).
        await context.driver.spawn(instance)
    except (BuildError, DriverError) as error:
        return failed(error)
    return DONE
