"""The writes that record the outcome of making an image of a server."""

from typing import Final

from berth.domain.compute.instance import Instance, Task
from berth.domain.compute.server_image import (
    ImageStatus,
    ServerImage,
    deleted,
    excess_backups,
    image_in_progress,
    is_forgotten,
    with_image_in_progress,
)
from berth.domain.fast_replace import fast_replace
from berth.domain.ledger.record import Kind
from berth.domain.ledger.write import Put, Remove, Write
from berth.services.gateway.step_context import StepContext, StepWrites
from berth.services.servers.moves import end_task

# More records than one backup adds, so that their number falls.
_FORGOTTEN_MAX: Final = 20


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
        gone = () if image is None else (Put(deleted(image, now_s)),)
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
    images = await context.ledger.all(ServerImage)
    excess = excess_backups(made, images)
    kept: list[Write] = [] if made in excess else [Put(made)]
    # Rotation makes a record of a deleted image each time, so it also removes the oldest ones.
    forgotten = [one for one in images if is_forgotten(one, context.now_s)][:_FORGOTTEN_MAX]
    return [
        *kept,
        *(Put(deleted(one, context.now_s)) for one in excess),
        *(Remove(Kind.SERVER_IMAGE, one.image_id) for one in forgotten),
    ]
