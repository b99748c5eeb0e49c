"""The writes that record the outcome of making an image of a server."""

from berth.domain.compute.instance import Instance, Task
from berth.domain.compute.server_image import (
    ImageStatus,
    ServerImage,
    deleted,
    excess_backups,
    image_in_progress,
    with_image_in_progress,
)
from berth.domain.fast_replace import fast_replace
from berth.domain.ledger.write import Put, Write
from berth.services.gateway.step_context import StepContext, StepWrites
from berth.services.servers.moves import end_task


async def create_image(context: StepContext, instance: Instance) -> StepWrites:
    """Record that the image is complete, or delete its record; the server stays as it is.

    As in Nova, a complete backup deletes the oldest ones of its type. The agents that have stored
    the data of deleted images delete it when they next look for leftovers.
    """
    is_backup = instance.task is Task.IMAGE_BACKUP
    event = context.event(f"compute_{'backup' if is_backup else 'snapshot'}_instance")
    image_id = image_in_progress(instance)
    # Its owner may have deleted the image. That changes the instance's revision too, so the ledger
    # rejects these writes if it happens after this read.
    image = await context.ledger.get(ServerImage, image_id) if image_id else None
    extra, now_s = with_image_in_progress(instance, ""), context.now_s
    if image is not None and image.status is not ImageStatus.QUEUED:
        image = None
    if context.has_failed or image is None:
        text = f"The {'backup' if is_backup else 'image'} of the server could not be created."
        fault = context.fault(text) if image is not None else instance.fault
        ended = end_task(instance, now_s, message=text, event=event, fault=fault, extra=extra)
        # A driver that fails leaves nothing of the image in the storage.
        gone = () if image is None else (Put(deleted(image, now_s, is_cleared=True)),)
        return StepWrites((*gone, *ended))
    ended = end_task(instance, now_s, event=event, extra=extra)
    return StepWrites((*await _completed(context, image), *ended))


async def _completed(context: StepContext, image: ServerImage) -> list[Write]:
    """Return the writes that make an image active, and delete the backups that it replaces."""
    size = context.outcome.image
    made = fast_replace(
        image,
        status=ImageStatus.ACTIVE,
        size_bytes=0 if size is None else size.size_bytes,
        virtual_bytes=0 if size is None else size.virtual_bytes,
        updated_at_s=context.now_s,
    )
    if image.rotation is None:
        return [Put(made)]
    excess = excess_backups(made, await context.ledger.all(ServerImage))
    kept: list[Write] = [] if made in excess else [Put(made)]
    return [*kept, *(Put(deleted(one, context.now_s)) for one in excess)]
