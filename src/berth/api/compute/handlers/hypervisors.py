"""Handlers for hypervisors, the compute API's name for hosts."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from berth.api.codec import UNSET, UnsetType, encode_text
from berth.api.compute.schemas.hypervisors import (
    HypervisorAnswer,
    HypervisorQuery,
    HypervisorsAnswer,
    HypervisorServer,
    HypervisorService,
    HypervisorsQuery,
    HypervisorView,
    Statistics,
    StatisticsAnswer,
)
from berth.api.errors import HttpError
from berth.api.fleet import host_uuids, page_after, views_of
from berth.api.links import Link, limit_of, next_page
from berth.api.microversion import Version
from berth.api.parts import ApiParts
from berth.api.routing import Answer, Call
from berth.api.values import flag, number_of
from berth.domain.compute.host import Service
from berth.domain.errors import (
    DriverError,
    InvalidInputError,
    NotFoundError,
    UnavailableError,
    UnsupportedFeatureError,
)
from berth.domain.inventory.resources import DISK_GB, MEMORY_MB, VCPU, Inventory
from berth.ports.ledger import InstanceQuery
from berth.services.fleet.hosts import HostView
from berth.services.fleet.uptimes import read_uptime, read_uptimes

# Microversions: 2.28 makes `cpu_info` an object instead of JSON text; 2.33 adds paging; 2.53
# replaces integer ids with uuids and the search paths with query parameters; 2.75 shows `servers`
# even when there are none; 2.88 removes `cpu_info` and all totals and usage, and adds `uptime`.
_CPU_INFO_IS_AN_OBJECT = (2, 28)
_PAGES = (2, 33)
_UUIDS = (2, 53)
_ALWAYS_SERVERS = (2, 75)
_NO_USAGE = (2, 88)
# At most this many servers of a hypervisor are shown. Nova does not page them, so only this limit
# bounds the response.
_SERVERS_MAX = 1000
_NOTHING = Inventory(total=0)


async def list_hypervisors(call: Call) -> Answer:
    """List hypervisors with id, name, state and status.

    Raises:
        NotFoundError: no hypervisor's name contains the pattern.
    """
    return await _list(call, detail=False)


async def list_hypervisors_in_detail(call: Call) -> Answer:
    """List hypervisors with all fields.

    Raises:
        NotFoundError: no hypervisor's name contains the pattern.
    """
    return await _list(call, detail=True)


async def show_hypervisor(call: Call) -> Answer:
    """Show a hypervisor by its uuid, or before microversion 2.53 by its integer id.

    Raises:
        InvalidInputError: the word means neither true nor false.
        NotFoundError: there is no such host, or it has no compute service.
    """
    query = call.query(HypervisorQuery)
    with_servers = call.version >= _UUIDS and flag(query.with_servers, "with_servers")
    view = await _found(call)
    (written,) = await _write(call, [view], _Form(detail=True, with_servers=with_servers))
    return Answer(HypervisorAnswer(hypervisor=written))


async def show_uptime(call: Call) -> Answer:
    """Show the uptime of a hypervisor; only before microversion 2.88.

    Raises:
        HttpError: the driver has no uptimes (501), the agent does not answer, or the driver cannot
            read the uptime (400).
        NotFoundError: there is no such hypervisor.
    """
    view = await _found(call)
    (written,) = await _write(call, [view], _Form())
    name = view.host.name
    try:
        written.uptime = await read_uptime(call.parts.bus, name)
    except UnsupportedFeatureError as error:
        raise HttpError(501, f"The driver of host {name} does not report its uptime.") from error
    except (UnavailableError, DriverError) as error:
        # As in Nova, the status is 400 and not 503.
        text = f"The uptime of host {name} cannot be read; check its agent, and try again."
        raise HttpError(400, text) from error
    return Answer(HypervisorAnswer(hypervisor=written))


async def _found(call: Call) -> HostView:
    """Return the host that the path names by uuid, or before microversion 2.53 by integer id.

    Raises:
        NotFoundError: there is no such host, or it has no compute service.
    """
    await call.parts.follower.catch_up()
    key = call.key("hypervisor_id")
    # An integer id is a hash of the uuid, so its host can only be found by a scan over all hosts.
    for uuid in host_uuids(call.parts):
        if key == (uuid if call.version >= _UUIDS else str(number_of(uuid))):
            async for views in views_of(call.parts, [uuid]):
                for view in views:
                    if view.service is not None:
                        return view
    raise NotFoundError("hypervisor", key)


async def show_statistics(call: Call) -> Answer:
    """Show totals over all hypervisors whose service is enabled."""
    await call.parts.follower.catch_up()
    total: Counter[str] = Counter()
    async for views in views_of(call.parts, host_uuids(call.parts)):
        for view in views:
            if view.service is not None and not view.service.disabled:
                total.update(count=1, **_amounts(view))
    return Answer(StatisticsAnswer(hypervisor_statistics=Statistics(**total)))


async def search_hypervisors(call: Call) -> Answer:
    """List hypervisors whose node name contains a string; only before microversion 2.53."""
    return await _search(call, call.key("hypervisor_id"), _Form())


async def list_hypervisor_servers(call: Call) -> Answer:
    """List hypervisors and servers by a part of the node name; only before microversion 2.53."""
    return await _search(call, call.key("hypervisor_id"), _Form(with_servers=True))


@dataclass(frozen=True, slots=True)
class _Form:
    """The parts of each hypervisor that a response includes."""

    detail: bool = False
    with_servers: bool = False


async def _list(call: Call, *, detail: bool) -> Answer:
    query = call.query(HypervisorsQuery)
    is_new = call.version >= _UUIDS
    form = _Form(detail, is_new and flag(query.with_servers, "with_servers"))
    if is_new and query.hypervisor_hostname_pattern is not None:
        # A search has no pages. As in Nova, the combination gets a 400.
        if query.limit is not None or query.marker is not None:
            raise InvalidInputError(
                "hypervisor_hostname_pattern", "cannot be combined with limit or marker"
            )
        return await _search(call, query.hypervisor_hostname_pattern, form)
    await call.parts.follower.catch_up()
    uuids: Sequence[str] = host_uuids(call.parts)
    links: tuple[Link, ...] | UnsetType = UNSET
    if call.version >= _PAGES:
        limit = limit_of(call, query.limit)
        page = page_after(uuids, _uuid(uuids, query.marker, call.version), limit)
        if page and page[-1] != uuids[-1]:
            last = page[-1] if is_new else str(number_of(page[-1]))
            links = next_page(call, last, limit)
        uuids = page
    found = await _write_all(call, uuids, form)
    return Answer(HypervisorsAnswer(hypervisors=found, hypervisors_links=links))


def _uuid(uuids: Sequence[str], marker: str | None, version: Version) -> str | None:
    if marker is None or version >= _UUIDS:
        return marker
    # An unknown integer id is returned unchanged, and `page_after` refuses it as a marker.
    return next((uuid for uuid in uuids if str(number_of(uuid)) == marker), marker)


async def _search(call: Call, pattern: str, form: _Form) -> Answer:
    await call.parts.follower.catch_up()
    table = call.parts.replica.hosts
    uuids = [
        uuid
        for uuid in host_uuids(call.parts)
        if (row := table.row_of(uuid)) is not None and pattern in table.node(row)
    ]
    # As in Nova, the response to a search without a match is 404 and not an empty list.
    if not uuids:
        raise NotFoundError("hypervisor matching", pattern)
    return Answer(HypervisorsAnswer(hypervisors=await _write_all(call, uuids, form)))


async def _write_all(call: Call, uuids: Sequence[str], form: _Form) -> list[HypervisorView]:
    written: list[HypervisorView] = []
    async for views in views_of(call.parts, uuids):
        written += await _write(call, views, form)
    return written


async def _write(call: Call, views: Sequence[HostView], form: _Form) -> list[HypervisorView]:
    uptimes: Mapping[str, str] = {}
    if form.detail and call.version >= _NO_USAGE:
        up = [one.host.name for one in views if one.service and _is_up(call.parts, one.service)]
        uptimes = await read_uptimes(call.parts.bus, up)
    written: list[HypervisorView] = []
    for view in views:
        # As in Nova, a host without a service is skipped, because it has no state to show.
        if view.service is None:
            continue
        servers = await _servers(call, view.host.name) if form.with_servers else UNSET
        one = _view(call, view, view.service, form, servers)
        if one.uptime is not UNSET:
            one.uptime = uptimes.get(view.host.name)
        written.append(one)
    return written


async def _servers(call: Call, host: str) -> list[HypervisorServer] | UnsetType:
    found = await call.parts.ledger.instances(InstanceQuery(host=host, limit=_SERVERS_MAX))
    if not found and call.version < _ALWAYS_SERVERS:
        return UNSET
    return [HypervisorServer(name=instance.name, uuid=instance.uuid) for instance in found]


def _view(
    call: Call,
    view: HostView,
    service: Service,
    form: _Form,
    servers: list[HypervisorServer] | UnsetType,
) -> HypervisorView:
    version = call.version
    detail = form.detail
    is_new = version >= _UUIDS
    usage = _amounts(view) if detail and version < _NO_USAGE else {}
    return HypervisorView(
        id=view.host.uuid if is_new else number_of(view.host.uuid),
        hypervisor_hostname=view.host.node,
        state=state_of(call.parts, service),
        status="disabled" if service.disabled else "enabled",
        hypervisor_type=view.host.hypervisor_type if detail else UNSET,
        hypervisor_version=view.host.hypervisor_version if detail else UNSET,
        host_ip=view.host.host_ip if detail else UNSET,
        service=_service(service, is_new=is_new) if detail else UNSET,
        cpu_info=_cpu_info(view, version) if usage else UNSET,
        uptime=None if detail and version >= _NO_USAGE else UNSET,
        servers=servers,
        **usage,
    )


def state_of(parts: ApiParts, service: Service) -> str:
    """Return the state of a compute service: `up` or `down`."""
    return "up" if _is_up(parts, service) else "down"


def _is_up(parts: ApiParts, service: Service) -> bool:
    return service.is_up(parts.clock.now_s(), parts.service_down_time_s)


def _service(service: Service, *, is_new: bool) -> HypervisorService:
    return HypervisorService(
        id=service.service_id if is_new else number_of(service.service_id),
        host=service.host,
        disabled_reason=service.disabled_reason,
    )


def _cpu_info(view: HostView, version: Version) -> dict[str, object] | str:
    info = dict(view.host.cpu_info)
    return info if version >= _CPU_INFO_IS_AN_OBJECT else encode_text(info)


def _amounts(view: HostView) -> dict[str, int]:
    """Return a host's totals and usage by field; as in Nova, reserved amounts count as used."""
    total: dict[str, int] = {}
    used: dict[str, int] = {}
    for name in (VCPU, MEMORY_MB, DISK_GB):
        inventory = view.inventories.get(name, _NOTHING)
        total[name] = inventory.total
        used[name] = view.used.get(name, 0) + inventory.reserved
    free_gb = total[DISK_GB] - used[DISK_GB]
    return {
        "vcpus": total[VCPU],
        "memory_mb": total[MEMORY_MB],
        "local_gb": total[DISK_GB],
        "vcpus_used": used[VCPU],
        "memory_mb_used": used[MEMORY_MB],
        "local_gb_used": used[DISK_GB],
        "free_ram_mb": total[MEMORY_MB] - used[MEMORY_MB],
        "free_disk_gb": free_gb,
        # Clients before 2.88 require the field, but Berth does not track a host's running tasks.
        "current_workload": 0,
        "running_vms": view.num_instances,
        "disk_available_least": free_gb,
    }
