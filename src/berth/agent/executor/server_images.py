"""The step that makes an image of a server."""

import asyncio
from contextlib import suppress

from berth.agent.executor.host_context import HostContext, ImageCopy, StepEnd, failed
from berth.domain.compute.instance import Instance
from berth.domain.compute.server_image import image_in_progress
from berth.domain.errors import BerthError, DriverError


async def create_image(context: HostContext, instance: Instance) -> StepEnd:
    """Copy the guest's root disk to the storage that hosts share."""
    image_id = image_in_progress(instance)
    if not image_id:  # its owner has deleted it
        return failed(DriverError("the image was deleted before it was complete"))
    # The copy is a task of its own, which `cancel_image` can cancel without this step.
    copy = asyncio.ensure_future(context.driver.store_image(instance.uuid, image_id))
    context.copies[instance.uuid] = ImageCopy(instance.revision, copy)
    try:
        await asyncio.wait({copy})
    finally:
        del context.copies[instance.uuid]
        was_cancelled = copy.cancel()  # succeeds if this step itself is cancelled
        if was_cancelled:
            await asyncio.wait({copy})
    if copy.cancelled():
        # The outcome of this step is refused, because the server has changed. If this report is
        # lost, the image's record is kept for longer.
        with suppress(BerthError):
            await context.gateway.report_image_cleared(context.host, image_id)
        return failed(DriverError("the server has changed before its image was complete"))
    try:
        return StepEnd(image=copy.result())
    except DriverError as error:
        return failed(error)
