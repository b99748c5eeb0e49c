"""Finds the instances in child zones that belong to a repeated request or to a server group.

An instance in a child zone is not in this zone's ledger. A `RemoteInstance` record represents it as
long as it exists; the decision on its request outlives the record.
"""

from collections.abc import Collection
from operator import attrgetter
from typing import Final

from berth.domain.compute.decision import ZONE_AWARE_DRIVER, Decision, Verdict
from berth.domain.compute.instance import Instance
from berth.domain.compute.request import (
    COUNT_MAX,
    instance_uuid_of,
    order_item_id,
    reservation_id_of,
)
from berth.domain.zones.zone import RemoteInstance, RemoteInstanceStage
from berth.ports.ledger import Ledger

_FIRST: Final = 0
_AGE = attrgetter("created_at_s", "instance_uuid")


async def may_be_repeat(ledger: Ledger, request_id: str, *, one_by_one: bool) -> bool:
    """Return whether an order may have been accepted before. False positives are possible.

    Raises:
        UnavailableError: the ledger cannot be reached.
    """
    # It suffices to look for the first instance, because one unit accepts all of an order.
    first = instance_uuid_of(request_id, _FIRST)
    if (
        await ledger.get(Instance, first) is not None
        or await ledger.get(RemoteInstance, first) is not None
    ):
        return True
    decided = order_item_id(request_id, _FIRST) if one_by_one else request_id
    return await ledger.get(Decision, decided) is not None


async def indexes_in_child_zones(
    ledger: Ledger,
    request_id: str,
    project_id: str,
    *,
    here: Collection[int],
    count: int,
) -> set[int]:
    """Return the launch indexes of an order's instances that are, or were, in child zones.

    Args:
        ledger: the ledger of this zone.
        request_id: the order's request id.
        project_id: the project that owns the order.
        here: the indexes of the order's instances that are in this zone's ledger.
        count: the number of instances of the repeated order.

    Raises:
        UnavailableError: the ledger cannot be reached.
    """
    remotes = await ledger.remote_instances(
        project_id=project_id, reservation_id=reservation_id_of(request_id)
    )
    sent = {one.instance_uuid for one in remotes}
    below = {
        index
        # A uuid is a hash of the request id and the index, so all indexes are tried.
        for index in range(COUNT_MAX if sent else 0)
        if instance_uuid_of(request_id, index) in sent
    }
    decision = await ledger.get(Decision, request_id)
    if decision is not None and _is_over_tree(decision, project_id):
        below |= set(range(sum(one.instances for one in decision.zones)))
    elif decision is None:
        for index in set(range(count)) - below - set(here):
            single = await ledger.get(Decision, order_item_id(request_id, index))
            if single is not None and _is_over_tree(single, project_id):
                below.add(index)
    return below - set(here)


def _is_over_tree(decision: Decision, project_id: str) -> bool:
    is_placed = decision.driver == ZONE_AWARE_DRIVER and decision.verdict is Verdict.PLACED
    return is_placed and decision.project_id == project_id


async def members_in_child_zones(
    ledger: Ledger, group_uuid: str, project_id: str
) -> list[RemoteInstance]:
    """Return the members of a group in child zones, oldest first, without deleted ones.

    Args:
        ledger: stores the remote instances.
        group_uuid: the uuid of the group.
        project_id: the project that owns the group.

    Raises:
        UnavailableError: the ledger cannot be reached.
    """
    remotes = await ledger.remote_instances(project_id=project_id)
    found = (one for one in remotes if one.group_uuid == group_uuid and _is_wanted(one))
    return sorted(found, key=_AGE)


def _is_wanted(remote: RemoteInstance) -> bool:
    return remote.stage is not RemoteInstanceStage.WITHDRAWING and remote.counts_as is not None
