"""Limits the capacity requests and dry runs of each project, and runs their work in turns."""

import asyncio
from collections import Counter
from collections.abc import AsyncGenerator, Generator
from contextlib import asynccontextmanager, contextmanager
from typing import Final

from berth.domain.errors import UnavailableError
from berth.domain.zones.zone_orders import SelectOrder
from berth.ports.clock import Clock

_EACH_MAX: Final = 2


class InquiryLimit:
    """Admits a few capacity requests and dry runs of each project at a time.

    Each such request causes a count or a decision in every zone of the tree.

    Args:
        each_max: the number of requests that a project may have in progress in this process.
    """

    def __init__(self, *, each_max: int = _EACH_MAX) -> None:
        self._each_max = each_max
        self._open = Counter[str]()

    @contextmanager
    def admit(self, project_id: str) -> Generator[None]:
        """Count a request of a project as in progress.

        Raises:
            UnavailableError: the project has too many in progress.
        """
        if self._open[project_id] >= self._each_max:
            raise UnavailableError(
                f"The project has {self._each_max} capacity requests and dry runs in progress, "
                "which is the maximum. Try again when one has ended."
            )
        self._open[project_id] += 1
        try:
            yield
        finally:
            self._open[project_id] -= 1
            if not self._open[project_id]:
                # Otherwise the ids of all projects would stay in memory.
                del self._open[project_id]


class InquiryTurns:
    """Lets one count or decision of an inquiry run at a time, and none after its deadline.

    Such work does not yield to the event loop. Between two turns, other work of the process runs.

    Args:
        zone: the name of this zone.
        clock: provides the time of day.
    """

    def __init__(self, zone: str, clock: Clock) -> None:
        self._zone = zone
        self._clock = clock
        self._lock = asyncio.Lock()

    @asynccontextmanager
    async def turn(self, order: SelectOrder) -> AsyncGenerator[None]:
        """Wait for the turn of an inquiry.

        Raises:
            UnavailableError: the deadline has passed.
        """
        async with self._lock:
            self.check_deadline(order)
            yield
            await asyncio.sleep(0)

    def check_deadline(self, order: SelectOrder) -> None:
        """Reject an inquiry whose deadline has passed, because no caller waits for its answer.

        Raises:
            UnavailableError: the deadline has passed.
        """
        if self._clock.now_s() < order.deadline_s:
            return
        if order.audience == self._zone:
            raise UnavailableError(
                "This zone is busy with other capacity requests and dry runs. Try again."
            )
        raise UnavailableError("The parent's deadline passed before this zone began to count.")
