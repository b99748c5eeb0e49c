"""Cleans up the records of images of servers.

Every scheduler does this work periodically. It is the only place that removes such records.
"""

from typing import Final

from berth.domain.compute.server_image import (
    ImageStatus,
    ServerImage,
    deleted,
    is_forgotten,
)
from berth.domain.errors import BerthError
from berth.domain.ledger.record import Kind
from berth.domain.ledger.write import Committed, Put, Remove, Unit
from berth.ports.clock import Clock
from berth.ports.ledger import Ledger
from berth.ports.telemetry import Telemetry
from berth.services.replica.replica import Replica
from berth.services.servers.image_use import ImageUse
from berth.services.servers.server_images import exists

PAUSE_S: Final = 600.0
"""Seconds between two rounds."""
# The number of records that one round changes, so that it never holds up other writers for long.
_RECORDS_MAX: Final = 1000


class ImageCleanup:
    """Deletes images that no server makes any more, and removes old records of deleted images.

    Args:
        ledger: stores the records.
        replica: has all records.
        clock: provides the time.
        telemetry: receives the number of changed records, and failures.
    """

    def __init__(
        self, *, ledger: Ledger, replica: Replica, clock: Clock, telemetry: Telemetry
    ) -> None:
        self._ledger = ledger
        self._replica = replica
        self._clock = clock
        self._telemetry = telemetry
        self._use = ImageUse(ledger, clock)

    async def run(self) -> None:
        """Do the work periodically, until cancelled."""
        while True:
            await self._clock.sleep(PAUSE_S)
            try:
                await self.clean_up()
            except BerthError as error:
                self._telemetry.failure("image_cleanup_failed", error)

    async def clean_up(self) -> int:
        """Do one round; return the number of changed records.

        Raises:
            UnavailableError: the ledger cannot be reached.
        """
        units: list[Unit] = []
        for image in list(self._replica.server_images.values()):
            if len(units) == _RECORDS_MAX:
                break
            if (unit := await self._change(image)) is not None:
                units.append(unit)
        if not units:
            return 0
        # Each record has a unit of its own, because another scheduler may have removed some.
        outcomes = await self._ledger.commit(units)
        count = sum(isinstance(one, Committed) and not one.repeated for one in outcomes)
        if count:
            self._telemetry.event("image_records_cleaned_up", images=count)
        return count

    async def _change(self, image: ServerImage) -> Unit | None:
        """Return the unit that cleans up a record, or None if it is kept as it is."""
        now_s = self._clock.now_s()
        if image.status is ImageStatus.QUEUED:
            # Without this, every list of images would look up the server of each such image.
            return None if await exists(self._ledger, image) else (Put(deleted(image, now_s)),)
        if not is_forgotten(image, now_s):
            return None
        # A report that the data is gone may be wrong, and without its record the image of one
        # project would be open to others.
        if await self._use.needs(image):
            return None
        return (Remove(Kind.SERVER_IMAGE, image.image_id),)
