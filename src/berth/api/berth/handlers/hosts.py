"""Hosts with all that decisions read of them."""

from collections.abc import AsyncIterator, Sequence

from berth.api.berth.handlers.hardware import cell_view, pool_view
from berth.api.berth.schemas.hosts import (
    AggregateName,
    AttestationView,
    ChildView,
    FailureView,
    HostAnswer,
    HostsQuery,
    InventoryView,
    ServiceState,
)
from berth.api.codec import encode
from berth.api.fleet import host_uuids, page_after, views_of
from berth.api.parts import ApiParts
from berth.api.routing import Answer, Call
from berth.domain.compute.host import Service
from berth.domain.inventory.provider import Provider
from berth.domain.inventory.resources import Inventory
from berth.services.fleet.hosts import HostView


async def list_hosts(call: Call) -> Answer:
    """List hosts by name, all of them unless a limit is given."""
    query = call.query(HostsQuery)
    await call.parts.follower.catch_up()
    uuids = page_after(host_uuids(call.parts), query.marker, query.limit)
    return Answer(chunks=_chunks(call.parts, uuids))


async def show_host(call: Call) -> Answer:
    """Show a host, by its name or uuid."""
    return Answer(host_answer(call.parts, await call.parts.hosts.get(call.key("name"))))


async def _chunks(parts: ApiParts, uuids: Sequence[str]) -> AsyncIterator[bytes]:
    """Write a HostsAnswer piece by piece, as there may be very many hosts."""
    yield b'{"hosts":['
    comma = b""
    async for views in views_of(parts, uuids):
        if views:
            yield comma + encode([host_answer(parts, view) for view in views])[1:-1]
            comma = b","
    yield b"]}"


def host_answer(parts: ApiParts, view: HostView) -> HostAnswer:
    """Return a host as the API shows it."""
    host = view.host
    return HostAnswer(
        uuid=host.uuid,
        name=host.name,
        node=host.node,
        hypervisor_type=host.hypervisor_type,
        hypervisor_version=host.hypervisor_version,
        host_ip=host.host_ip,
        cpu_info=host.cpu_info,
        supported_instances=host.supported_instances,
        stats=host.stats,
        metrics=host.metrics,
        inventories=_inventories(parts, view),
        traits=sorted(view.traits),
        zones=sorted(view.zones),
        aggregates=[AggregateName(id=a.aggregate_id, name=a.name) for a in view.aggregates],
        num_instances=view.num_instances,
        service=None if view.service is None else _service(parts, view.service),
        attestation=_attestation(parts, view),
        children=[_child(child) for child in view.children],
        numa_cells=[cell_view(cell) for cell in view.cells],
        pci_pools=[pool_view(pool) for pool in view.pools],
    )


def _inventories(parts: ApiParts, view: HostView) -> dict[str, InventoryView]:
    found: dict[str, InventoryView] = {}
    for name, inventory in view.inventories.items():
        origin = parts.hosts.ratio_of(view, name).origin
        found[name] = _inventory(inventory, view.used.get(name, 0), origin)
    return found


def _inventory(inventory: Inventory, used: int, origin: str) -> InventoryView:
    return InventoryView(
        total=inventory.total,
        reserved=inventory.reserved,
        min_unit=inventory.min_unit,
        max_unit=inventory.unit_max,
        step_size=inventory.step_size,
        allocation_ratio=inventory.allocation_ratio,
        allocation_ratio_origin=origin,
        capacity=inventory.capacity,
        used=used,
        free=inventory.capacity - used,
    )


def _child(child: Provider) -> ChildView:
    return ChildView(
        uuid=child.uuid,
        name=child.name,
        parent_uuid=child.parent_uuid or "",
        inventories={
            name: _inventory(inventory, child.used.get(name, 0), "the provider's own")
            for name, inventory in sorted(child.inventories.items())
        },
        traits=sorted(child.traits),
    )


def _attestation(parts: ApiParts, view: HostView) -> AttestationView | None:
    service = view.service
    found = None if service is None else service.attestations.get(view.host.node)
    if found is None:
        return None
    level = found.level_at(parts.clock.now_s())
    return AttestationView(level=level, valid_until_s=found.valid_until_s)


def _service(parts: ApiParts, service: Service) -> ServiceState:
    return ServiceState(
        id=service.service_id,
        disabled=service.disabled,
        disabled_reason=service.disabled_reason,
        forced_down=service.forced_down,
        failed_builds=service.failed_builds,
        failure_level=service.failure_level,
        build_failures=[
            FailureView(project_id=one.project_id, cause=one.cause, level=one.level, at_s=one.at_s)
            for one in service.build_failures
        ],
        is_up=service.is_up(parts.clock.now_s(), parts.service_down_time_s),
        last_seen_s=service.last_seen_s,
    )
