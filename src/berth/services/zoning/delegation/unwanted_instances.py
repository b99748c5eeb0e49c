"""Leftovers: instances that children have, or may have, of which their owners want none.

Whoever ends a request ends what was sent for it too, in the same unit. Should that ever fail, be it
by a process that stood still for too long or by an older Berth, a child would run an instance that
nobody can name: it is deleted here. So the errands are looked through now and then.
"""

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import NamedTuple

from berth.domain.compute.instance import Instance, Status
from berth.domain.errors import ConflictError
from berth.domain.ledger.record import PendingRequest
from berth.domain.ledger.write import Put
from berth.domain.zones.zone import RemoteInstance, RemoteInstanceStage
from berth.ports.ledger import Ledger
from berth.services.providers.guarded_saves import save
from berth.services.zoning.delegation.release import withdrawn_ms


async def withdrawals(ledger: Ledger, instance_uuids: Iterable[str]) -> Sequence[RemoteInstance]:
    """Return the errands of a request that ends without its instances, as they are to be then.

    Raises:
        UnavailableError: the ledger cannot be reached.
    """
    found: list[RemoteInstance] = []
    for uuid in instance_uuids:
        remote = await ledger.get(RemoteInstance, uuid)
        if remote is not None:
            found.append(_withdrawn(remote))
    return found


class UnwantedInstances(NamedTuple):
    """Uuids of instances to take back: those that were just found, and those known before."""

    left_behind: frozenset[str]
    known: frozenset[str]


class UnwantedInstanceFinder:
    """Finds what is to be taken back.

    Args:
        ledger: has errands, instances and what is pending.
    """

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger
        self._wanted: frozenset[str] = frozenset()

    async def find(self) -> UnwantedInstances:
        """Have what nobody wants be withdrawing.

        Raises:
            UnavailableError: the ledger cannot be reached.
        """
        # In this order: what is pending when its errand is read may have ended well meanwhile.
        remotes = await self._ledger.remote_instances()
        pending = await self._ledger.all(PendingRequest)
        on_the_way = {uuid for one in pending for uuid in one.request.instance_uuids}
        wanted: set[str] = set()
        found: set[str] = set()
        withdrawing: set[str] = set()
        for remote in remotes:
            uuid = remote.instance_uuid
            if remote.stage is RemoteInstanceStage.WITHDRAWING:
                withdrawing.add(uuid)
                continue
            if uuid in on_the_way:
                continue
            if uuid in self._wanted:
                wanted.add(uuid)
                continue
            stored = await self._ledger.get(Instance, uuid)
            if stored is None and remote.stage is RemoteInstanceStage.THERE:
                wanted.add(uuid)  # for good: nothing of it stands here that could be deleted
            elif stored is not None and _is_unwanted(remote, stored):
                found |= await self._withdraw(remote)
        self._wanted = frozenset(wanted)
        return UnwantedInstances(frozenset(found), frozenset(withdrawing))

    async def _withdraw(self, remote: RemoteInstance) -> set[str]:
        try:
            await save(self._ledger, Put(_withdrawn(remote)))
        except ConflictError:
            return set()  # something else is done with it; it is looked at again
        return {remote.instance_uuid}


def _withdrawn(remote: RemoteInstance) -> RemoteInstance:
    return replace(remote, stage=RemoteInstanceStage.WITHDRAWING)


def _is_unwanted(remote: RemoteInstance, stored: Instance) -> bool:
    """Tell whether an instance was deleted here, or released by a parent since it was sent on."""
    if stored.status is not Status.DELETED:
        return False
    marked_ms = withdrawn_ms(stored)
    return marked_ms is None or remote.sent_ms <= marked_ms
