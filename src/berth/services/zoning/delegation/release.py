"""Handles a parent's release orders, which name unused offers and withdrawn instances."""

from collections.abc import Iterable

from berth.domain.compute.flavor import Flavor
from berth.domain.compute.instance import Instance, Status, Task
from berth.domain.errors import ConflictError, NotFoundError, UnavailableError
from berth.domain.ledger.write import Put
from berth.domain.zones.zone import RemoteInstance
from berth.domain.zones.zone_orders import ReleaseOrder, Withdrawal
from berth.ports.clock import Clock
from berth.ports.ledger import Ledger
from berth.services.providers.guarded_saves import save
from berth.services.servers.instances import Instances
from berth.services.zoning.delegation.delegation import Delegator
from berth.services.zoning.offers.hold_routing import OfferReleaser

_TRIES = 5
# The key of the timestamp in a tombstone's `extra` field. Ledgers contain it, so its text must not
# change.
_MARK = "berth:withdrawn_ms"
_NO_FLAVOR = Flavor("", "", vcpus=0, memory_mb=0)


class ReleaseHandler:
    """Releases offers and withdraws instances for a parent.

    Args:
        ledger: stores instances and remote instances.
        selector: releases offers, whichever of the zone's schedulers made them.
        instances: deletes instances on this zone's hosts.
        delegator: withdraws instances from this zone's own children.
        clock: provides the time of day.
    """

    def __init__(
        self,
        *,
        ledger: Ledger,
        selector: OfferReleaser,
        instances: Instances,
        delegator: Delegator,
        clock: Clock,
    ) -> None:
        self._ledger = ledger
        self._selector = selector
        self._instances = instances
        self._delegator = delegator
        self._clock = clock

    async def release(self, order: ReleaseOrder) -> frozenset[str]:
        """Carry out a release order and return the uuids of the instances that stay.

        Afterwards, none of the order's other instances exists here or will be built, not even by a
        build order that is still on its way. Instances of other projects are treated as absent and
        do not change.

        Raises:
            UnavailableError: the ledger or a child cannot be reached; repeat the release.
        """
        await self._selector.release(order.surplus, order.audience)
        kept, foreign = await self._settle(order, order.withdrawn)
        gone: list[Withdrawal] = []
        for one in order.withdrawn:
            if one.instance_uuid in kept or one.instance_uuid in foreign:
                continue
            if await self._withdraw(one, order):
                kept.add(one.instance_uuid)
            else:
                gone.append(one)
        # A build may run at the same time. It records its remote instance and then reads the
        # tombstone, while this call writes the tombstone and then reads the records. So at least
        # one of the two sees the other.
        came, _ = await self._settle(order, gone)
        return frozenset(kept | came)

    async def _settle(
        self, order: ReleaseOrder, withdrawn: Iterable[Withdrawal]
    ) -> tuple[set[str], set[str]]:
        """Withdraw delegated instances from children.

        Returns:
            The uuids of instances that stay at their child, and of those of other projects.

        Raises:
            UnavailableError: the ledger or a child cannot be reached.
        """
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
            raise UnavailableError(
                "cannot complete the release: a child did not answer; repeat the release"
            )
        return set(settled.present), foreign

    async def _withdraw(self, withdrawal: Withdrawal, order: ReleaseOrder) -> bool:
        """Withdraw an instance from this zone, and return whether it stays here.

        An instance that does not stay is deleted, and one that has not arrived gets a tombstone. An
        instance of another project does not change and does not count as staying.

        Raises:
            UnavailableError: the ledger cannot be reached, or the record keeps changing.
        """
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
                continue  # the build has written the instance since it was read
            return False
        raise UnavailableError(
            f"cannot withdraw instance {uuid}: it keeps changing; repeat the release"
        )

    async def _delete(self, instance: Instance) -> None:
        if instance.status is Status.DELETED:
            return
        try:
            await self._instances.delete(instance.uuid)
        except NotFoundError:
            return  # its owner deleted it first

    def _mark(
        self, withdrawal: Withdrawal, order: ReleaseOrder, earlier: Instance | None
    ) -> Instance:
        """Return the tombstone of an instance that was withdrawn before its build arrived.

        A build that was sent no later than the withdrawal finds the tombstone and is refused.
        """
        # Withdrawals may arrive out of order, so a tombstone's timestamp is never lowered.
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
    """Return the timestamp in a tombstone, or None for the record of a real instance.

    Orders to build the instance that were sent at or before the timestamp (Unix milliseconds) are
    refused.
    """
    found = instance.extra.get(_MARK)
    return found if isinstance(found, int) else None
