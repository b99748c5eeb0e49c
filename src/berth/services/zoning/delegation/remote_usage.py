"""Counting below: what servers in child zones count for in the quotas of this zone.

A server counts for the size that this zone has asked for. What its child makes of that is not
known here, so a server that is resized counts for the larger of both sizes until its owner has
confirmed or reverted the resize through this zone, as it does where it is (`limiting`). What comes
of it otherwise is asked for now and then; see `Recounting`.
"""

from collections.abc import Callable
from dataclasses import replace
from typing import NamedTuple

from berth.domain.compute.flavor import Flavor
from berth.domain.errors import ConflictError
from berth.domain.ledger.write import Guard, Put, QuotaCheck, Rejected, Write
from berth.domain.zones.zone import RemoteInstance
from berth.ports.clock import Clock
from berth.ports.ledger import Ledger
from berth.services.requests.quotas import check_excess

_Size = tuple[int, int]
_TRIES = 20


def size_guard(instance_uuid: str) -> str:
    """Return the guard of what a server in a child zone counts for."""
    return f"size below {instance_uuid}"


class PendingResize(NamedTuple):
    """A resize, or the end of one, that a child is being asked for.

    `before` is the errand as it was, `to` the size that was asked for, None for an end.
    """

    before: RemoteInstance
    to: _Size | None


class RemoteUsage:
    """Changes what errands count for.

    Of one server a child is asked for one resize, or the end of one, at a time. Which of two it has
    taken, and in which order, could not be told from its answers.

    Args:
        ledger: keeps the errands.
        clock: tells the time.
        asking_s: so long a child may be asked; a process that dies over it keeps others from
            asking no longer.
        limits: returns what keeps a project within its limits; nobody has any without it.
    """

    def __init__(
        self,
        ledger: Ledger,
        clock: Clock,
        *,
        asking_s: float,
        limits: Callable[[str], QuotaCheck | None] | None = None,
    ) -> None:
        self._ledger = ledger
        self._clock = clock
        self._asking_s = asking_s
        self._limits = limits

    async def begin(self, remote: RemoteInstance, to: Flavor | None) -> PendingResize | None:
        """Have a server count for what it may come to, before its child is asked.

        Args:
            remote: of the server.
            to: what it is to be resized to, None for the end of a resize.

        Returns what was begun, for one of the methods below; None where its size is not counted.

        Raises:
            QuotaExceededError: its project would have more than it may.
            ConflictError: its child is being asked already.
            UnavailableError: the ledger cannot be reached.
        """
        new = None if to is None else (to.vcpus, to.memory_mb)
        within = None if self._limits is None or to is None else self._limits(remote.project_id)
        begun: list[PendingResize] = []

        def begin(stored: RemoteInstance) -> RemoteInstance | None:
            begun.clear()
            if stored.counts_as is None:
                return None
            now_s = self._clock.now_s()
            if now_s < stored.asking_until_s <= now_s + self._asking_s:
                raise ConflictError(f"server {stored.instance_uuid} is being resized; try again")
            begun.append(PendingResize(stored, new))
            most = stored.counts_as if new is None else _larger(stored.counts_as, new)
            # What stands when nobody comes back to it: any size up to that.
            resize = stored.resize if new is None else (most, most)
            until_s = now_s + self._asking_s
            return replace(stored, counts_as=most, resize=resize, asking_until_s=until_s)

        await self._change(remote, begin, within)
        return begun[0] if begun else None

    async def take(self, begun: PendingResize) -> None:
        """Have a resize be under way, as the child has taken it.

        It takes none before the one before has ended, in one of its two sizes.
        """
        before, new = begun.before, begun.to

        def take(stored: RemoteInstance) -> RemoteInstance | None:
            if stored.counts_as is None or before.counts_as is None or new is None:
                return None
            old = before.counts_as if before.resize is None else _larger(*before.resize)
            return _done(stored, _larger(old, new), (old, new))

        await self._change(before, take)

    async def end(self, begun: PendingResize, *, is_reverted: bool) -> None:
        """Have a server count for one size again, as the child has ended its resize.

        It stays open, with that size alone, until the child shows the server in it.
        """

        def end(stored: RemoteInstance) -> RemoteInstance | None:
            if stored.counts_as is None or stored.resize is None:
                return _done(stored, stored.counts_as, stored.resize)
            size = stored.resize[0 if is_reverted else 1]
            return _done(stored, size, (size, size))

        await self._change(begun.before, end)

    async def undo(self, begun: PendingResize) -> None:
        """Have a server count as before, as its child was not asked, or has refused."""

        def undo(stored: RemoteInstance) -> RemoteInstance | None:
            if stored.counts_as is None:
                return None
            return _done(stored, begun.before.counts_as, begun.before.resize)

        await self._change(begun.before, undo)

    async def leave_open(self, begun: PendingResize) -> None:
        """Have a server count for all that it may come to, as its child's answer is lost."""
        await self._change(begun.before, lambda one: _done(one, one.counts_as, _any_of(one)))

    async def count_no_more(self, remote: RemoteInstance) -> None:
        """Have a server that is deleted count no more."""
        await self._change(
            remote, lambda one: None if one.counts_as is None else _done(one, None, None)
        )

    async def _change(
        self,
        remote: RemoteInstance,
        change: Callable[[RemoteInstance], RemoteInstance | None],
        within: QuotaCheck | None = None,
    ) -> None:
        """Change what a server counts for, by what it counts for now."""
        uuid = remote.instance_uuid
        for _ in range(_TRIES):
            seen = await self._ledger.version()
            stored = await self._ledger.get(RemoteInstance, uuid)
            changed = None if stored is None else change(stored)
            if changed is None:
                return
            unit: list[Write] = [Guard(size_guard(uuid), seen), Put(changed)]
            unit += [] if within is None else [within]
            (outcome,) = await self._ledger.commit([tuple(unit)])
            if not (isinstance(outcome, Rejected) and outcome.stale):
                check_excess(outcome)
                return
        raise ConflictError(f"what server {uuid} counts for is changed all the time; try again")


def _done(
    stored: RemoteInstance, counts_as: _Size | None, resize: tuple[_Size, _Size] | None
) -> RemoteInstance:
    """Return an errand for which nobody is asked any more."""
    return replace(stored, counts_as=counts_as, resize=resize, asking_until_s=0.0)


def _any_of(stored: RemoteInstance) -> tuple[_Size, _Size] | None:
    most = stored.counts_as
    return None if most is None or stored.resize is None else (most, most)


def _larger(one: _Size, other: _Size) -> _Size:
    return max(one[0], other[0]), max(one[1], other[1])
