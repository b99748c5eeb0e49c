"""Finds delegated instances that no request and no owner wants any more.

The transaction that ends a request also ends its delegations. If that fails, because a process
stalled past its lease or because of a fault in an older version, a child keeps running an
instance that its owner cannot see. A periodic scan of the remote instances finds such instances.
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
    """Return the remote instances of a failed request, marked as withdrawing.

    The caller writes them in the transaction that ends the request.

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
    """The uuids of instances to withdraw.

    `left_behind` were found and marked by this scan; `known` were already marked as withdrawing.
    """

    left_behind: frozenset[str]
    known: frozenset[str]


class UnwantedInstanceFinder:
    """Finds delegated instances to withdraw.

    Args:
        ledger: stores remote instances, instances and pending requests.
    """

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger
        self._wanted: frozenset[str] = frozenset()

    async def find(self) -> UnwantedInstances:
        """Mark unwanted instances as withdrawing and return all instances to withdraw.

        Raises:
            UnavailableError: the ledger cannot be reached.
        """
        # Remote instances are read before the pending requests. In the other order a request
        # that is recorded between the two reads would look like one that has ended.
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
                # The request has succeeded and removed the local record, so no record is left that
                # could become DELETED. Later scans skip the instance.
                wanted.add(uuid)
            elif stored is not None and _is_unwanted(remote, stored):
                found |= await self._withdraw(remote)
        self._wanted = frozenset(wanted)
        return UnwantedInstances(frozenset(found), frozenset(withdrawing))

    async def _withdraw(self, remote: RemoteInstance) -> set[str]:
        try:
            await save(self._ledger, Put(_withdrawn(remote)))
        except ConflictError:
            return set()  # the record is changing; the next scan reads it again
        return {remote.instance_uuid}


def _withdrawn(remote: RemoteInstance) -> RemoteInstance:
    return replace(remote, stage=RemoteInstanceStage.WITHDRAWING)


def _is_unwanted(remote: RemoteInstance, stored: Instance) -> bool:
    """Return whether an instance was deleted here, or withdrawn by a parent after it was sent."""
    if stored.status is not Status.DELETED:
        return False
    marked_ms = withdrawn_ms(stored)
    return marked_ms is None or remote.sent_ms <= marked_ms
