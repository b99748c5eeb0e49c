"""The size at which the quotas of this zone charge each server in a child zone.

A server is charged at the size that this zone ordered. During a resize it is charged at the larger
of the two sizes, as in its own zone, until its owner confirms or reverts the resize through this
zone. `UsageRecount` asks the child about resizes that end in another way.
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

# Virtual CPUs and MiB of memory.
_Size = tuple[int, int]
_TRIES = 20


def size_guard(instance_uuid: str) -> str:
    """Return the name of the guard on the charged size of a server in a child zone."""
    return f"size below {instance_uuid}"


class PendingResize(NamedTuple):
    """A resize, or the end of a resize, that is being ordered from a child.

    `before` is the record before the order. `to` is the ordered size, or None for the end of a
    resize.
    """

    before: RemoteInstance
    to: _Size | None


class RemoteUsage:
    """Changes the sizes at which remote instances are charged.

    Only one resize, or end of a resize, of a server is ordered at a time. The answers to two
    concurrent orders would not show in which order the child carried them out.

    Args:
        ledger: stores the remote instances.
        clock: provides the time of day.
        asking_s: seconds after which an order no longer blocks others if its process has died.
        limits: returns the quota check of a project, or None if it has no limits; without this
            argument no project has limits.
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
        """Charge a server's largest possible size before the child zone is ordered to resize it.

        Args:
            remote: the server's record.
            to: the new flavor, or None for the end of a resize.

        Returns:
            The pending resize, which `take`, `end`, `undo` or `leave_open` completes; None if the
            server is not charged or its record is gone.

        Raises:
            QuotaExceededError: the new size exceeds the project's quota.
            ConflictError: another order to the child is still pending, or the record keeps
                changing.
            UnavailableError: the ledger cannot be reached.
        """
        # The size is charged before the order. A charge after it could exceed the quota, and a lost
        # answer would leave a larger server uncharged.
        new = None if to is None else (to.vcpus, to.memory_mb)
        within = None if self._limits is None or to is None else self._limits(remote.project_id)
        begun: list[PendingResize] = []

        def begin(stored: RemoteInstance) -> RemoteInstance | None:
            begun.clear()
            if stored.counts_as is None:
                return None
            now_s = self._clock.now_s()
            if now_s < stored.asking_until_s <= now_s + self._asking_s:
                raise ConflictError(
                    f"cannot resize server {stored.instance_uuid}: another resize of it is in "
                    "progress; try again"
                )
            begun.append(PendingResize(stored, new))
            most = stored.counts_as if new is None else _larger(stored.counts_as, new)
            # If this process dies, the record keeps the largest possible size, which is safe for
            # the quota and which `UsageRecount` corrects later.
            resize = stored.resize if new is None else (most, most)
            until_s = now_s + self._asking_s
            return replace(stored, counts_as=most, resize=resize, asking_until_s=until_s)

        await self._change(remote, begin, within)
        return begun[0] if begun else None

    async def take(self, begun: PendingResize) -> None:
        """Record that the child has accepted a resize.

        A child accepts a resize only after the previous one has ended, so the server has one of
        its two previous sizes when the new resize starts.

        Raises:
            ConflictError: the record kept changing.
            UnavailableError: the ledger cannot be reached.
        """
        before, new = begun.before, begun.to

        def take(stored: RemoteInstance) -> RemoteInstance | None:
            if stored.counts_as is None or before.counts_as is None or new is None:
                return None
            old = before.counts_as if before.resize is None else _larger(*before.resize)
            return _done(stored, _larger(old, new), (old, new))

        await self._change(before, take)

    async def end(self, begun: PendingResize, *, is_reverted: bool) -> None:
        """Record that the child has confirmed or reverted a resize.

        The server is charged at a single size again. The record stays open for `UsageRecount` until
        the child reports the server with that size.

        Raises:
            ConflictError: the record kept changing.
            UnavailableError: the ledger cannot be reached.
        """

        def end(stored: RemoteInstance) -> RemoteInstance | None:
            if stored.counts_as is None or stored.resize is None:
                return _done(stored, stored.counts_as, stored.resize)
            size = stored.resize[0 if is_reverted else 1]
            return _done(stored, size, (size, size))

        await self._change(begun.before, end)

    async def undo(self, begun: PendingResize) -> None:
        """Restore the size from before an order that was not sent or that the child refused.

        Raises:
            ConflictError: the record kept changing.
            UnavailableError: the ledger cannot be reached.
        """

        def undo(stored: RemoteInstance) -> RemoteInstance | None:
            if stored.counts_as is None:
                return None
            return _done(stored, begun.before.counts_as, begun.before.resize)

        await self._change(begun.before, undo)

    async def leave_open(self, begun: PendingResize) -> None:
        """Keep the largest possible size, because the child's answer was lost.

        Raises:
            ConflictError: the record kept changing.
            UnavailableError: the ledger cannot be reached.
        """
        await self._change(begun.before, lambda one: _done(one, one.counts_as, _any_of(one)))

    async def count_no_more(self, remote: RemoteInstance) -> None:
        """Stop charging for a server that its owner has deleted.

        Raises:
            ConflictError: the record kept changing.
            UnavailableError: the ledger cannot be reached.
        """
        await self._change(
            remote, lambda one: None if one.counts_as is None else _done(one, None, None)
        )

    async def _change(
        self,
        remote: RemoteInstance,
        change: Callable[[RemoteInstance], RemoteInstance | None],
        within: QuotaCheck | None = None,
    ) -> None:
        """Apply a change to a server's stored record, and retry if the record changes.

        Raises:
            QuotaExceededError: the change exceeds the project's quota.
            ConflictError: the record kept changing through all retries.
            UnavailableError: the ledger cannot be reached.
        """
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
        raise ConflictError(
            f"cannot update the quota record of server {uuid}: it keeps changing; try again"
        )


def _done(
    stored: RemoteInstance, counts_as: _Size | None, resize: tuple[_Size, _Size] | None
) -> RemoteInstance:
    """Return a remote instance with a new size and no pending order."""
    return replace(stored, counts_as=counts_as, resize=resize, asking_until_s=0.0)


def _any_of(stored: RemoteInstance) -> tuple[_Size, _Size] | None:
    most = stored.counts_as
    return None if most is None or stored.resize is None else (most, most)


def _larger(one: _Size, other: _Size) -> _Size:
    return max(one[0], other[0]), max(one[1], other[1])
