"""Finds and deletes the images of servers."""

from berth.domain.compute.instance import Instance
from berth.domain.compute.server_image import (
    ImageStatus,
    ServerImage,
    deleted,
    image_in_progress,
    with_image_in_progress,
)
from berth.domain.errors import ConflictError, NotFoundError
from berth.domain.fast_replace import fast_replace
from berth.domain.ledger.write import Committed, Put, Write
from berth.ports.clock import Clock
from berth.ports.ledger import Ledger, RecordReader
from berth.services.replica.follower import Follower
from berth.services.replica.replica import Replica

_TRIES = 20


class ServerImages:
    """Finds and deletes the images of servers, each of which belongs to a project.

    Args:
        ledger: stores the records.
        follower: brings the replica up to date.
        replica: has all records.
        clock: provides the time.
    """

    def __init__(
        self, *, ledger: Ledger, follower: Follower, replica: Replica, clock: Clock
    ) -> None:
        self._ledger = ledger
        self._follower = follower
        self._replica = replica
        self._clock = clock

    async def visible(self, project_id: str | None) -> list[ServerImage]:
        """Return the images of a project, or those of all projects, that exist.

        Raises:
            UnavailableError: the ledger cannot be reached.
        """
        await self._follower.catch_up()
        found = [
            one
            for one in self._replica.server_images.values()
            if project_id in {None, one.project_id}
        ]
        return [one for one in found if await exists(self._ledger, one)]

    async def get(self, image_id: str, project_id: str | None) -> ServerImage:
        """Return an image of a project, or of any project.

        Raises:
            NotFoundError: the project has no such image.
            UnavailableError: the ledger cannot be reached.
        """
        image = await self._ledger.get(ServerImage, image_id)
        is_foreign = image is not None and project_id not in {None, image.project_id}
        if image is None or is_foreign or not await exists(self._ledger, image):
            raise NotFoundError("image", image_id)
        return image

    def bootable(self, image_id: str, project_id: str | None) -> ServerImage | None:
        """Return a complete image of a project, or of any project, as this process knows it."""
        image = self._replica.server_images.get(image_id)
        if image is None or image.status is not ImageStatus.ACTIVE:
            return None
        return image if project_id in {None, image.project_id} else None

    def is_known(self, image_id: str) -> bool:
        """Return whether an id is or was that of a server's image, as this process knows it."""
        return image_id in self._replica.server_images

    async def delete(self, image_id: str, project_id: str | None) -> None:
        """Delete an image; a server that is making it gives it up.

        The agents delete the data from the storage when they next look for leftovers.

        Raises:
            NotFoundError: the project has no such image.
            ConflictError: the server of the image kept changing during every attempt.
            UnavailableError: the ledger cannot be reached.
        """
        for _ in range(_TRIES):
            image = await self.get(image_id, project_id)
            now_s = self._clock.now_s()
            writes: list[Write] = [Put(deleted(image, now_s))]
            if image.status is ImageStatus.QUEUED:
                instance = await self._ledger.get(Instance, image.instance_uuid)
                if instance is not None and image_in_progress(instance) == image_id:
                    # The agent gives the copy up. The new revision of the server makes the ledger
                    # reject a report that the image is complete, which would bring it back.
                    extra = with_image_in_progress(instance, "")
                    writes.append(Put(fast_replace(instance, extra=extra, updated_at_s=now_s)))
            (outcome,) = await self._ledger.commit([tuple(writes)])
            if isinstance(outcome, Committed):
                return
            await self._follower.catch_up()
        raise ConflictError(f"cannot delete image {image_id}: its server keeps changing; try again")


async def exists(reader: RecordReader, image: ServerImage) -> bool:
    """Return whether an image is complete, or its server is still making it.

    The task of a server can end in many ways: a deletion, a reset of its state, an evacuation. An
    image whose server no longer makes it never becomes complete.

    Args:
        reader: the ledger.
        image: the record of the image, which may be outdated.

    Raises:
        UnavailableError: the ledger cannot be reached.
    """
    if image.status is not ImageStatus.QUEUED:
        return image.status is ImageStatus.ACTIVE
    instance = await reader.get(Instance, image.instance_uuid)
    if instance is not None and image_in_progress(instance) == image.image_id:
        return True
    # The image may have become complete between the two reads.
    now = await reader.get(ServerImage, image.image_id)
    return now is not None and now.status is ImageStatus.ACTIVE
