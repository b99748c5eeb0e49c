"""Counting below: what servers in child zones count for in the quotas of this zone.

A server counts for the size that this zone has asked for. What its child makes of that is not
known here, so a server that is resized counts for the larger of both sizes until its owner has
confirmed or reverted the resize through this zone, as it does where it is (`limiting`).
"""

from collections.abc import Callable
from dataclasses import replace

from berth.domain.flavor import Flavor
from berth.domain.write import Put, Within, Write
from berth.domain.zone import Errand
from berth.ports.ledger import Ledger
from berth.services.limiting import check_excess

_Size = tuple[int, int]


class CountingBelow:
    """Changes what errands count for.

    Args:
        ledger: keeps the errands.
        limits: returns what keeps a project within its limits; nobody has any without it.
    """

    def __init__(
        self, ledger: Ledger, limits: Callable[[str], Within | None] | None = None
    ) -> None:
        self._ledger = ledger
        self._limits = limits

    async def begin_resize(self, errand: Errand, to: Flavor) -> None:
        """Have a server count for the larger of two sizes, before its child is asked to resize it.

        Raises:
            QuotaExceededError: its project would have more than it may.
            UnavailableError: the ledger cannot be reached.
        """
        if errand.counts_as is None:
            return
        old, new = errand.counts_as, (to.vcpus, to.memory_mb)
        larger = max(old[0], new[0]), max(old[1], new[1])
        within = None if self._limits is None else self._limits(errand.project_id)
        await self._change(errand, larger, (old, new), within)

    async def end_resize(self, errand: Errand, *, is_reverted: bool) -> None:
        """Have a server count for one size again, once its owner has said which."""
        if errand.counts_as is not None and errand.resize is not None:
            old, new = errand.resize
            await self._change(errand, old if is_reverted else new)

    async def undo(self, errand: Errand) -> None:
        """Have a server count as before, as its child was not asked, or has refused."""
        if errand.counts_as is not None:
            await self._change(errand, errand.counts_as, errand.resize)

    async def count_no_more(self, errand: Errand) -> None:
        """Have a server that is deleted count no more."""
        if errand.counts_as is not None:
            await self._change(errand, None)

    async def _change(
        self,
        errand: Errand,
        counts_as: _Size | None,
        resize: tuple[_Size, _Size] | None = None,
        within: Within | None = None,
    ) -> None:
        stored = await self._ledger.get(Errand, errand.instance_uuid)
        if stored is None:
            return  # forgotten meanwhile
        changed = Put(replace(stored, counts_as=counts_as, resize=resize))
        unit: tuple[Write, ...] = (changed,) if within is None else (changed, within)
        (outcome,) = await self._ledger.commit([unit])
        check_excess(outcome)
