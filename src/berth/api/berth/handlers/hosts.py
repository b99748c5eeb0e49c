"""Handlers that show hosts, set their allocation ratios and write them off."""

from collections.abc import AsyncIterator, Sequence

from berth.api.berth.schemas.hosts import (
    AggregateName,
    AttestationView,
    ChildView,
    FailureView,
    HostAnswer,
    HostsQuery,
    InventoryView,
    NumaCellView,
    PagesView,
    PciPoolView,
    RatiosBody,
    ServiceState,
    WriteOffAnswer,
    WrittenOffMove,
)
from berth.api.codec import encode
from berth.api.fleet import host_uuids, page_after, views_of
from berth.api.parts import ApiParts
from berth.api.routing import Answer, Call
from berth.domain.compute.host import Service
from berth.domain.compute.migration import Migration
from berth.domain.hardware.cpu_sets import cpus_of
from berth.domain.inventory.provider import Provider
from berth.domain.inventory.resources import Inventory
from berth.services.fleet.allocation_ratios import RatioOverrides
from berth.services.fleet.hosts import HostView
from berth.services.fleet.write_off import WriteOffPlan, WriteOffService
from berth.tables.host.cell_use import FreeCell
from berth.tables.host.pci import FreePool


def cell_view(free: FreeCell) -> NumaCellView:
    """Return a NUMA cell with its free CPUs and memory."""
    cell = free.shape.cell
    free_kb = dict(free.pages_kb)
    return NumaCellView(
        cell_id=cell.cell_id,
        socket=cell.socket,
        cpuset=sorted(cell.cpuset),
        pcpuset=sorted(cell.pcpuset),
        siblings=[sorted(core) for core in cell.siblings],
        memory_mb=cell.memory_mb,
        mempages=[
            PagesView(
                size_kb=pages.size_kb,
                total=pages.total,
                reserved=pages.reserved,
                # The table counts free memory in KiB, but the API counts pages.
                free=free_kb[pages.size_kb] // pages.size_kb,
            )
            for pages in cell.mempages
        ],
        free_cpus=cpus_of(free.free),
        shared_used=free.shared_used,
        memory_used_mb=free.memory_used_mb,
    )


def pool_view(free: FreePool) -> PciPoolView:
    """Return a PCI pool with the number of its free devices."""
    pool = free.pool
    return PciPoolView(
        vendor_id=pool.vendor_id,
        product_id=pool.product_id,
        dev_type=pool.dev_type,
        numa_node=pool.numa_node,
        address=pool.address,
        tags=pool.tags,
        count=pool.count,
        free=free.free,
    )


async def list_hosts(call: Call) -> Answer:
    """List hosts sorted by name, all of them or one page.

    Raises:
        InvalidInputError: no host has the marker's uuid.
    """
    query = call.query(HostsQuery)
    await call.parts.follower.catch_up()
    uuids = page_after(host_uuids(call.parts), query.marker, query.limit)
    return Answer(chunks=_chunks(call.parts, uuids))


async def show_host(call: Call) -> Answer:
    """Show a host by its name or uuid.

    Raises:
        NotFoundError: there is no such host.
    """
    return Answer(host_answer(call.parts, await call.parts.hosts.get(call.key("name"))))


async def _chunks(parts: ApiParts, uuids: Sequence[str]) -> AsyncIterator[bytes]:
    """Encode a HostsAnswer in chunks, so that even a large fleet needs little memory."""
    # The brackets of the list are written here; those of each encoded batch are cut off.
    yield b'{"hosts":['
    comma = b""
    async for views in views_of(parts, uuids):
        if views:
            yield comma + encode([host_answer(parts, view) for view in views])[1:-1]
            comma = b","
    yield b"]}"


def host_answer(parts: ApiParts, view: HostView) -> HostAnswer:
    """Return a host with all data that decisions read."""
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
        # A child always has a parent; the type allows None for roots.
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
    # The response shows the current level: that of an expired attestation is `unknown`
    # (nova-behaviour.md 2.6).
    level = found.level_at(parts.clock.now_s())
    return AttestationView(level=level, valid_until_s=found.valid_until_s)


def _service(parts: ApiParts, service: Service) -> ServiceState:
    silence = parts.liveness.silence
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
        is_uncertain=silence.is_uncertain and service.host in silence.at_once,
        last_seen_s=service.last_seen_s,
    )


async def set_ratios(call: Call) -> Answer:
    """Set or remove an operator's allocation ratios for a host, and show the host.

    Raises:
        NotFoundError: there is no such host.
        InvalidInputError: the host has no inventory of a class, or a ratio is out of range.
        ConflictError: every attempt lost a race against another change.
    """
    parts, name = call.parts, call.key("name")
    setting = RatioOverrides(parts.ledger, parts.follower, parts.replica)
    await setting.set(name, call.body(RatiosBody).ratios)
    return Answer(host_answer(parts, await parts.hosts.get(name)))


async def plan_write_off(call: Call) -> Answer:
    """Show the moves that writing off a host would end, and the resources that it would free.

    Raises:
        NotFoundError: the host has no compute service.
        ConflictError: the service is not forced down, or the agent has sent a recent heartbeat.
    """
    found = await _writing_off(call).plan(
        call.key("name"), service_down_time_s=call.parts.service_down_time_s
    )
    return Answer(_answer(found, is_done=False))


async def write_off(call: Call) -> Answer:
    """Write off a lost host: end the moves with leftovers there, and free their allocations.

    Raises:
        NotFoundError: the host has no compute service.
        ConflictError: the service is not forced down, the agent has sent a recent heartbeat, or
            every attempt lost a race against another change. Some moves may already have ended;
            repeat the write-off to end the others.
    """
    done = await _writing_off(call).write_off(
        call.key("name"), service_down_time_s=call.parts.service_down_time_s
    )
    return Answer(_answer(done, is_done=True))


def _writing_off(call: Call) -> WriteOffService:
    parts = call.parts
    return WriteOffService(parts.ledger, parts.replica, parts.clock, parts.telemetry)


def _answer(found: WriteOffPlan, *, is_done: bool) -> WriteOffAnswer:
    return WriteOffAnswer(
        host=found.host,
        is_done=is_done,
        moves=[_move(one.migration, one.held) for one in found.moves],
        freed=found.freed,
        instances=list(found.instances),
        waiting=[_move(one, {}) for one in found.waiting],
    )


def _move(migration: Migration, held: dict[str, int]) -> WrittenOffMove:
    return WrittenOffMove(
        uuid=migration.uuid,
        id=migration.number,
        instance_uuid=migration.instance_uuid,
        kind=migration.kind,
        stage=migration.stage,
        held=held,
    )
