"""Leftovers: files and stored disks on a host that belong to no guest there.

A leftover may be deleted when the ledger rules out that it is needed. Files are not needed if the
instance was deleted, or is not on the host and has neither a task nor a move that involves the
host. Stored disks are not needed if the instance was deleted, or has neither an address of stored
disks nor a task that stores or fetches them. An image is not needed if its server no longer makes
it, or if it was deleted and no server needs it for a rebuild, a move or a rescue.

Leftovers of an unknown instance, and files of an instance that is on this host, are left to the
operator, because they may be the only copy.
"""

from typing import Final

from berth.domain.compute.instance import Instance, Status, Task
from berth.domain.compute.migration import Migration
from berth.domain.compute.server_image import ImageStatus, ServerImage, deleted
from berth.domain.compute.step import LEFTOVER_AGE_S, LeftoverUse, LeftoverVerdict
from berth.domain.ledger.write import Put
from berth.ports.clock import Clock
from berth.ports.ledger import Ledger, RecordReader
from berth.ports.virt import IMAGE_ADDRESS
from berth.services.servers.image_use import ImageUse
from berth.services.servers.server_images import exists

_STORING: Final = frozenset({Task.SHELVING, Task.SHELVING_OFFLOADING, Task.UNSHELVING})
_NEEDED: Final = LeftoverVerdict(LeftoverUse.NEEDED)


class Leftovers:
    """Judges the leftovers on hosts, and records which images no longer occupy the storage.

    Args:
        ledger: has the instances, the images and the moves.
        clock: provides the time, for the age of the last change of an instance or image.
    """

    def __init__(self, ledger: Ledger, clock: Clock) -> None:
        self._ledger = ledger
        self._clock = clock
        self._image_use = ImageUse(ledger, clock)

    async def judge(self, host: str, instance_uuid: str, *, address: str) -> LeftoverVerdict:
        """Return whether a leftover on a host is needed.

        Args:
            host: the host that has the leftover.
            instance_uuid: the instance to which the leftover belonged.
            address: the address of stored disks; empty for files in the place where the driver
                keeps those of the guest.

        Raises:
            UnavailableError: the ledger cannot be reached.
        """
        if address.startswith(IMAGE_ADDRESS):
            return await self._judge_image(address.removeprefix(IMAGE_ADDRESS))
        instance = await self._ledger.get(Instance, instance_uuid)
        if instance is not None and self._clock.now_s() - instance.updated_at_s <= LEFTOVER_AGE_S:
            return _NEEDED
        if address:
            return _judge_stored(instance)
        return await _judge_files(self._ledger, host, instance)

    async def clear_image(self, image_id: str) -> None:
        """Record that nothing of an image is in the storage, if the image does not exist.

        Raises:
            UnavailableError: the ledger cannot be reached.
        """
        image = await self._ledger.get(ServerImage, image_id)
        if image is None or image.is_cleared or await exists(self._ledger, image):
            return
        # An image that is complete by now was read again above, so this cannot delete it.
        gone = deleted(image, self._clock.now_s(), is_cleared=True)
        await self._ledger.commit([(Put(gone),)])

    async def _judge_image(self, image_id: str) -> LeftoverVerdict:
        """Return whether an image in the storage is needed.

        Every image has a record before its data, and the ids of images are never used again.
        Another deployment may use the same storage, so data without a record is left to the
        operator.
        """
        image = await self._ledger.get(ServerImage, image_id)
        if image is None:
            return LeftoverVerdict(LeftoverUse.UNCLEAR, "the image is unknown; inspect it")
        is_recent = self._clock.now_s() - image.updated_at_s <= LEFTOVER_AGE_S
        if is_recent or await exists(self._ledger, image):
            return _NEEDED
        if image.status is ImageStatus.DELETED and await self._image_use.needs(image):
            return _NEEDED
        return LeftoverVerdict(LeftoverUse.UNNEEDED, "no longer needed")


def _judge_stored(instance: Instance | None) -> LeftoverVerdict:
    if instance is None:
        return LeftoverVerdict(LeftoverUse.UNCLEAR, "the instance is unknown; inspect them")
    is_wanted = instance.disks is not None or instance.task in _STORING
    if is_wanted and instance.status is not Status.DELETED:
        return _NEEDED
    return LeftoverVerdict(LeftoverUse.UNNEEDED, "no longer needed")


async def _judge_files(
    reader: RecordReader, host: str, instance: Instance | None
) -> LeftoverVerdict:
    if instance is None:
        return LeftoverVerdict(LeftoverUse.UNCLEAR, "the instance is unknown; inspect them")
    if instance.status is Status.DELETED:
        return LeftoverVerdict(LeftoverUse.UNNEEDED, "the instance is deleted")
    if instance.host == host:
        reason = "the driver's record of the guest is lost"
        return LeftoverVerdict(LeftoverUse.UNCLEAR, reason)
    move = instance.migration_uuid
    migration = None if move is None else await reader.get(Migration, move)
    if instance.task is not None or (migration is not None and migration.concerns(host)):
        return _NEEDED
    where = "on no host" if instance.host is None else "on another host"
    return LeftoverVerdict(LeftoverUse.UNNEEDED, f"the instance is {where}")
