"""Finds and deletes the images of servers."""

from collections.abc import Sequence
from typing import Final, NamedTuple

from berth.domain.compute.instance import Instance
from berth.domain.compute.quota import UNLIMITED, Excess, Limits, QuotaExceededError
from berth.domain.compute.server_image import (
    ImageStatus,
    ServerImage,
    deleted,
    image_in_progress,
    with_image_in_progress,
)
from berth.domain.errors import ConflictError, NotFoundError
from berth.domain.fast_replace import fast_replace
from berth.domain.ledger.write import Committed, Guard, Put, Write
from berth.ports.clock import Clock
from berth.ports.ledger import Ledger, RecordReader
from berth.services.replica.follower import Follower
from berth.services.replica.replica import Replica
from berth.services.requests.quotas import QuotaLimits

_TRIES = 20
_NO_LIMITS: Final = Limits(images=UNLIMITED, image_gb=UNLIMITED)
_BYTES_PER_MB = 1024**2
_MB_PER_GB = 1024


class ImageUsage(NamedTuple):
    """The number of images of a project that exist or are being made, and their size in MiB.

    Images that are being made (`queued`) count with the size of their server's root disk, because
    their own is not known yet.
    """

    images: int
    queued: int
    size_mb: int


class ServerImages:
    """Finds and deletes the images of servers, each of which belongs to a project.

    Args:
        ledger: stores the records.
        follower: brings the replica up to date.
        replica: has all records.
        clock: provides the time.
        quota_limits: the limits of projects; None for no limits.
    """

    def __init__(
        self,
        *,
        ledger: Ledger,
        follower: Follower,
        replica: Replica,
        clock: Clock,
        quota_limits: QuotaLimits | None = None,
    ) -> None:
        self._ledger = ledger
        self._follower = follower
        self._replica = replica
        self._clock = clock
        self._quota_limits = quota_limits

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

    def limits(self, project_id: str) -> Limits:
        """Return the limits of a project, of which `images` and `image_gb` concern images."""
        limits = self._quota_limits
        return _NO_LIMITS if limits is None else limits.of_project(project_id)

    async def usage(self, project_id: str) -> ImageUsage:
        """Return how much of its quota a project uses.

        Raises:
            UnavailableError: the ledger cannot be reached.
        """
        found = await self.visible(project_id)
        queued = [one for one in found if one.status is ImageStatus.QUEUED]
        size_bytes = sum(one.size_bytes for one in found)
        reserved_mb = sum(one.min_disk_gb * _MB_PER_GB for one in queued)
        return ImageUsage(len(found), len(queued), size_bytes // _BYTES_PER_MB + reserved_mb)

    async def admit(self, project_id: str) -> Sequence[Write]:
        """Check that a project may have another image, and return the guard of this check.

        The size of an image is known only when it is complete. So as in Glance, a project may begin
        one as long as it is below its limit, and exceed the limit by that one.

        Raises:
            QuotaExceededError: the project has as many images as it may, or as large ones.
            UnavailableError: the ledger cannot be reached.
        """
        limits = self.limits(project_id)
        if limits.images == limits.image_gb == UNLIMITED:
            return ()
        # The version precedes the count, so that an image added meanwhile makes the guard stale.
        seen = await self._ledger.version()
        used = await self.usage(project_id)
        limit_mb = limits.image_gb * _MB_PER_GB
        excess: list[Excess] = []
        if used.images >= limits.images != UNLIMITED:
            excess.append(Excess("images", 1, used.images, limits.images))
        if limits.image_gb != UNLIMITED and used.size_mb >= limit_mb:
            excess.append(Excess("image_mb", 1, used.size_mb, limit_mb))
        if excess:
            raise QuotaExceededError(tuple(excess))
        return (Guard(f"images of {project_id}", seen),)

    async def delete(self, image_id: str, project_id: str | None) -> None:
        """Delete an image; a server from which it is still being made abandons it.

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
                    # The agent abandons the copy. The new revision of the server makes the ledger
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
