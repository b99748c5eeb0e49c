"""Which images of servers the servers of the cloud still need."""

import asyncio
from typing import Final

from berth.domain.compute.rescue import rescue_image_of
from berth.domain.compute.server_image import ServerImage
from berth.ports.clock import Clock
from berth.ports.ledger import InstanceQuery, Ledger
from berth.services.replica.ledger_pages import every_instance

# A server that was requested before the deletion of its image is in the ledger after this time.
_REQUESTED_S: Final = 300.0
# A reading is repeated after this time, so that the data of an image is deleted some time after the
# last server that needed it.
_VALID_S: Final = 3600.0


class ImageUse:
    """Knows whether a server needs a deleted image, for a rebuild, a move or a rescue.

    No server can begin to use an image after its deletion. So one reading of all instances, which
    is costly, answers for all images that were deleted before it.

    Args:
        ledger: has the instances, those on no host too.
        clock: provides the time.
    """

    def __init__(self, ledger: Ledger, clock: Clock) -> None:
        self._ledger = ledger
        self._clock = clock
        self._reading = asyncio.Lock()
        self._read_at_s = float("-inf")
        self._in_use: frozenset[str] = frozenset()

    async def needs(self, image: ServerImage) -> bool:
        """Return whether a server that is not deleted has been created from a deleted image.

        Raises:
            UnavailableError: the ledger cannot be reached.
        """
        async with self._reading:
            now_s = self._clock.now_s()
            since_s = max(now_s - _VALID_S, image.updated_at_s + _REQUESTED_S)
            if self._read_at_s < since_s:
                self._in_use = await self._read()
                self._read_at_s = now_s
        return image.image_id in self._in_use

    async def _read(self) -> frozenset[str]:
        found = set[str]()
        async for instance in every_instance(self._ledger, InstanceQuery()):
            if instance.image is not None:
                found.add(instance.image.image_id)
            found.add(rescue_image_of(instance))
        return frozenset(found)
