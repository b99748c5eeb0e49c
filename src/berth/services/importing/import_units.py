"""The units of writes that carry out the changes of an import."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Final, NamedTuple, cast

from berth.domain.compute.instance import Instance, Status
from berth.domain.inventory.allocation import ConsumerAllocations
from berth.domain.inventory.provider import Provider
from berth.domain.inventory.resources import AMOUNT_MAX, Inventory
from berth.domain.ledger.record import Kind, Record
from berth.domain.ledger.write import (
    ConsumerUpdate,
    Free,
    Guard,
    Put,
    Reallocate,
    Remove,
    Unit,
    Write,
)
from berth.ports.nova import ImportKind
from berth.services.importing.completion import trees_of
from berth.services.importing.import_plan import ImportPlan, PlannedChange, Verb
from berth.services.providers.guarded_saves import AGGREGATES_GUARD, service_guard
from berth.services.providers.provider_writes import provider_guard

# `services.servers.flavors` protects all flavors with this guard.
_FLAVORS_GUARD: Final = "flavors"
_SMALL: Final = (
    ImportKind.RESOURCE_CLASS,
    ImportKind.TRAIT,
    ImportKind.FLAVOR_ACCESS,
    ImportKind.SERVER_GROUP,
    ImportKind.QUOTA,
    ImportKind.KEY_PAIRS,
)
_TREES: Final = frozenset({ImportKind.PROVIDER, ImportKind.HOST, ImportKind.SERVICE})
_SERVERS: Final = frozenset({ImportKind.SERVER, ImportKind.ALLOCATIONS})
# An inventory in which any allocation fits.
_ROOMY: Final = Inventory(total=AMOUNT_MAX)


class PlannedUnit(NamedTuple):
    """A unit, and the changes that it carries out."""

    changes: tuple[PlannedChange, ...]
    unit: Unit


def small_units(changes: Sequence[PlannedChange], seen: int) -> list[PlannedUnit]:
    """Return the units of the records that describe no machine.

    All aggregates share a guard, and so do all flavors, so the records of each are one unit.

    Args:
        changes: the changes, with the numbers of new records.
        seen: a version of the ledger from before it was compared.
    """
    written = [one for one in changes if one.verb is not Verb.REMOVE]
    units: list[PlannedUnit] = []
    for kind, guard in (
        (ImportKind.AGGREGATE, AGGREGATES_GUARD),
        (ImportKind.FLAVOR, _FLAVORS_GUARD),
    ):
        some = tuple(one for one in written if one.kind is kind)
        if some:
            units.append(PlannedUnit(some, (Guard(guard, seen), *map(_put, some))))
    units += [PlannedUnit((one,), (_put(one),)) for one in written if one.kind in _SMALL]
    return units


def tree_units(plan: ImportPlan) -> list[PlannedUnit]:
    """Return one unit for each tree of providers with its host and service, parents first."""
    trees, seen = trees_of(plan.cloud), plan.stored.version
    root_of_name = {one.name: one.uuid for one in reversed(plan.cloud.hosts)}
    by_root: dict[str, list[PlannedChange]] = {}
    for change in plan.changes:
        if change.kind in _TREES and change.verb is not Verb.REMOVE:
            is_service = change.kind is ImportKind.SERVICE
            root = root_of_name[change.key] if is_service else trees.roots[change.key]
            by_root.setdefault(root, []).append(change)
    units: list[PlannedUnit] = []
    for changes in by_root.values():
        ordered = sorted(changes, key=lambda one: _depth(one, trees.providers))
        guards = [
            Guard(provider_guard(one.key), seen)
            if one.kind is ImportKind.PROVIDER
            else Guard(service_guard(one.key), seen)
            for one in ordered
            if one.kind is not ImportKind.HOST
        ]
        units.append(PlannedUnit(tuple(ordered), (*guards, *map(_put, ordered))))
    return units


def _depth(change: PlannedChange, providers: Mapping[str, Provider]) -> int:
    """Return the number of ancestors of a provider; hosts and services come last."""
    if change.kind is not ImportKind.PROVIDER:
        return len(providers) + 1
    depth, above = 0, providers.get(providers[change.key].parent_uuid or "")
    while above is not None and depth <= len(providers):
        depth, above = depth + 1, providers.get(above.parent_uuid or "")
    return depth


def server_units(plan: ImportPlan) -> list[PlannedUnit]:
    """Return one unit for each server or other consumer that changes, with its allocations."""
    by_key: dict[str, list[PlannedChange]] = {}
    for change in plan.changes:
        if change.kind in _SERVERS and change.verb is not Verb.REMOVE:
            by_key.setdefault(change.key, []).append(change)
    return [
        PlannedUnit(tuple(changes), tuple(map(_server_write, changes)))
        for changes in by_key.values()
    ]


def _server_write(change: PlannedChange) -> Write:
    if not isinstance(change.record, ConsumerAllocations):
        return _put(change)
    held = change.record
    # Nova's amounts replace those of Berth's record of the consumer.
    share = ConsumerUpdate(held.consumer, held.allocations, is_checked=False)
    return Reallocate((share,))


def roomy_unit(planned: PlannedUnit, plan: ImportPlan, seen: int) -> PlannedUnit:
    """Return a unit that succeeds although Nova's allocations exceed the capacity.

    Nova runs the server, whatever the inventories say: a ratio may have been lowered since. The
    unit enlarges the inventories, allocates, and restores them, so no other process ever sees more
    capacity.

    Args:
        planned: a unit of `server_units` that the ledger rejected.
        plan: the plan.
        seen: the version of the ledger as of now.
    """
    # The current providers, because the units of the trees were committed before.
    providers = dict(plan.stored.providers) | {
        one.record.uuid: one.record for one in plan.changes if isinstance(one.record, Provider)
    }
    claimed = {
        uuid: amounts
        for change in planned.changes
        if isinstance(change.record, ConsumerAllocations)
        for uuid, amounts in change.record.allocations.items()
    }
    own = {uuid: providers[uuid] for uuid in sorted(claimed)}
    guards = [Guard(provider_guard(uuid), seen) for uuid in own]
    larger = [
        Put(replace(one, inventories=dict.fromkeys({**one.inventories, **claimed[uuid]}, _ROOMY)))
        for uuid, one in own.items()
    ]
    return planned._replace(unit=(*guards, *larger, *planned.unit, *map(Put, own.values())))


def removal_units(plan: ImportPlan, now_s: float) -> list[PlannedUnit]:
    """Return the units that remove what Nova no longer has: servers, then hosts and providers.

    Args:
        plan: the plan.
        now_s: Unix seconds.
    """
    units: list[PlannedUnit] = []
    for change in plan.changes:
        if change.verb is not Verb.REMOVE:
            continue
        if change.kind is ImportKind.SERVER:
            gone = _deleted(plan.stored.instances[change.key], now_s)
            units.append(PlannedUnit((change,), (Free(change.key), Put(gone))))
        elif change.kind is ImportKind.HOST:
            units.append(PlannedUnit((change,), tuple(_host_removal(plan, change))))
        else:
            units.append(PlannedUnit((change,), (Remove(Kind.PROVIDER, change.key),)))
    return units


def _deleted(instance: Instance, now_s: float) -> Instance:
    return replace(
        instance,
        status=Status.DELETED,
        host=None,
        node=None,
        assignment=None,
        updated_at_s=now_s,
        terminated_at_s=now_s,
    )


def _host_removal(plan: ImportPlan, change: PlannedChange) -> Iterator[Write]:
    """Yield the writes that remove a host with its providers and, with its last node, its service.

    Its memberships in aggregates end with the import of the aggregates.
    """
    stored, cloud = plan.stored, plan.cloud
    host = stored.hosts[change.key]
    stays = any(one.name == host.name for one in cloud.hosts)
    if not stays and host.name in stored.services:
        yield Remove(Kind.SERVICE, host.name)
    yield Remove(Kind.HOST, host.uuid)
    kept = {one.uuid for one in cloud.providers}
    for uuid in (*reversed(host.child_uuids), host.uuid):
        if uuid in stored.providers and uuid not in kept:
            yield Remove(Kind.PROVIDER, uuid)


def _put(change: PlannedChange) -> Put:
    return Put(cast("Record", change.record))
