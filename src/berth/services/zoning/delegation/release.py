"""Releasing: letting go what a parent does not want, so that none of it is built any more."""

from collections.abc import Iterable, Sequence
from typing import Protocol

from berth.domain.compute.flavor import Flavor
from berth.domain.compute.instance import Instance, Status, Task
from berth.domain.errors import ConflictError, NotFoundError, UnavailableError
from berth.domain.ledger.write import Put
from berth.domain.zones.zone import RemoteInstance
from berth.domain.zones.zone_orders import ReleaseOrder, UnusedOffers, Withdrawal
from berth.ports.clock import Clock
from berth.ports.ledger import Ledger
from berth.services.providers.guarded_saves import save
from berth.services.zoning.delegation.delegation import Delegator

_TRIES = 5
_MARK = "berth:withdrawn_ms"
_NO_FLAVOR = Flavor("", "", vcpus=0, memory_mb=0)


class InstanceDeleter(Protocol):
    """Whoever deletes instances."""

    async def delete(self, uuid: str) -> None:
        """See `Instances.delete`."""
        ...


class SurplusReleaser(Protocol):
    """Whoever has made offers."""

    async def release(self, surplus: Sequence[UnusedOffers], audience: str) -> None:
        """See `LettingGo.release`."""
        ...


class ReleaseHandler:
    """Releases offers and instances for a parent.

    Args:
        ledger: has instances and errands.
        selecting: lets go offers, whichever scheduler of the zone has made them.
        instances: deletes what is there.
        sending: takes back what was passed on to children.
        clock: tells the time.
    """

    def __init__(
        self,
        *,
        ledger: Ledger,
        selector: SurplusReleaser,
        instances: InstanceDeleter,
        delegator: Delegator,
        clock: Clock,
    ) -> None:
        self._ledger = ledger
        self._selector = selector
        self._instances = instances
        self._delegator = delegator
        self._clock = clock

    async def release(self, order: ReleaseOrder) -> frozenset[str]:
        """Let go all that is named; return the instances that are there and stay.

        Once this returns none of the others is there or will be. Instances of other projects than
        the order's are left alone, as if they were not there.

        Raises:
            UnavailableError: the ledger or a child cannot be reached; release it again.
        """
        await self._selector.release(order.surplus, order.audience)
        kept, foreign = await self._settle(order, order.withdrawn)
        gone: list[Withdrawal] = []
        for one in order.withdrawn:
            if one.instance_uuid in kept or one.instance_uuid in foreign:
                continue
            if await self._stays(one, order):
                kept.add(one.instance_uuid)
            else:
                gone.append(one)
        # One that was just being passed on has its errand by now, or will find the mark.
        came, _ = await self._settle(order, gone)
        return frozenset(kept | came)

    async def _settle(
        self, order: ReleaseOrder, withdrawn: Iterable[Withdrawal]
    ) -> tuple[set[str], set[str]]:
        """Take back what was passed on; return the uuids that stay there, and those of others."""
        remotes: list[RemoteInstance] = []
        foreign: set[str] = set()
        for one in withdrawn:
            remote = await self._ledger.get(RemoteInstance, one.instance_uuid)
            if remote is not None and remote.project_id == order.project_id:
                remotes.append(remote)
            elif remote is not None:
                foreign.add(one.instance_uuid)
        settled = await self._delegator.settle(remotes, keeps_built=order.keeps_built)
        if len(settled.present) + len(settled.absent) < len(remotes):
            raise UnavailableError("a zone below did not answer; release it again")
        return set(settled.present), foreign

    async def _stays(self, withdrawal: Withdrawal, order: ReleaseOrder) -> bool:
        """Delete an instance, or leave a mark in its place; tell whether it is there and stays."""
        uuid = withdrawal.instance_uuid
        for _ in range(_TRIES):
            stored = await self._ledger.get(Instance, uuid)
            if stored is not None and stored.project_id != order.project_id:
                return False
            if stored is not None and withdrawn_ms(stored) is None:
                is_there = stored.status is not Status.DELETED and stored.task is not Task.DELETING
                if is_there and not order.keeps_built:
                    await self._delete(stored)
                return is_there and order.keeps_built
            try:
                await save(self._ledger, Put(self._mark(withdrawal, order, stored)))
            except ConflictError:
                continue  # it has come just now
            return False
        raise UnavailableError(f"instance {uuid} keeps changing; release it again")

    async def _delete(self, instance: Instance) -> None:
        if instance.status is Status.DELETED:
            return
        try:
            await self._instances.delete(instance.uuid)
        except NotFoundError:
            return  # its owner was faster

    def _mark(
        self, withdrawal: Withdrawal, order: ReleaseOrder, earlier: Instance | None
    ) -> Instance:
        """Return the record of an instance that was deleted before it came.

        A build that was sent until then finds it, and is refused.
        """
        now_s = self._clock.now_s()
        sent_ms = max(withdrawal.sent_ms, (earlier and withdrawn_ms(earlier)) or 0)
        return Instance(
            uuid=withdrawal.instance_uuid,
            name="",
            project_id=order.project_id,
            user_id="",
            request_id="",
            reservation_id="",
            flavor=_NO_FLAVOR,
            status=Status.DELETED,
            task=None,
            extra={_MARK: sent_ms},
            created_at_s=now_s,
            updated_at_s=now_s,
            terminated_at_s=now_s,
            revision=0 if earlier is None else earlier.revision,
        )


def withdrawn_ms(instance: Instance) -> int | None:
    """Return until when what was sent of an instance is not built; None for a real instance."""
    found = instance.extra.get(_MARK)
    return found if isinstance(found, int) else None
