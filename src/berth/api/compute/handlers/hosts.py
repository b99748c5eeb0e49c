"""Handlers for hosts; microversion 2.43 replaces them with hypervisors and services."""

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Final

from berth.api.codec import UNSET
from berth.api.compute.schemas.hosts import (
    HostAnswer,
    HostChange,
    HostChanged,
    HostLine,
    HostResource,
    HostResourceLine,
    HostsAnswer,
    HostsQuery,
)
from berth.api.errors import HttpError
from berth.api.fleet import zone_of, zones_of
from berth.api.routing import Answer, Call
from berth.domain.compute.host import Service
from berth.domain.compute.instance import Instance
from berth.domain.errors import InvalidInputError, NotFoundError
from berth.domain.inventory.resources import DISK_GB, MEMORY_MB, VCPU
from berth.ports.ledger import InstanceQuery
from berth.services.fleet.hosts import HostView, host_view

# Nova's name of the service on compute hosts, which is the topic of its messages.
_TOPIC: Final = "compute"
_FIELDS: Final = {"cpu": VCPU, "memory_mb": MEMORY_MB, "disk_gb": DISK_GB}
_INSTANCES_MAX: Final = 100_000


async def list_hosts(call: Call) -> Answer:
    """List the hosts whose service is enabled."""
    await call.parts.follower.catch_up()
    zone = call.query(HostsQuery).zone
    lines = [
        HostLine(host_name=one.host, service=_TOPIC, zone=zone_of(call.parts, one.host))
        for one in await call.parts.hosts.services()
        if not one.disabled and (not zone or zone in zones_of(call.parts, one.host))
    ]
    return Answer(HostsAnswer(hosts=lines))


async def show_host(call: Call) -> Answer:
    """Show the total and the usage of a host, and the servers on it by project.

    Raises:
        NotFoundError: there is no such host.
    """
    name = call.key("host_name")
    await call.parts.follower.catch_up()
    table = call.parts.replica.hosts
    views = [host_view(table, row) for row in table.host_names.of_name(name)]
    if not views:
        raise NotFoundError("compute host", name)
    query = InstanceQuery(host=name, limit=_INSTANCES_MAX)
    instances = await call.parts.ledger.instances(query)
    projects = dict.fromkeys(sorted(one.project_id for one in instances))
    rows: list[tuple[str, Mapping[str, int]]] = [
        ("(total)", _sum(_totals(view) for view in views)),
        ("(used_now)", _sum(_used(view) for view in views)),
        ("(used_max)", _sum(map(_size, instances))),
    ]
    rows += [
        (project, _sum(_size(one) for one in instances if one.project_id == project))
        for project in projects
    ]
    found = [
        HostResourceLine(
            resource=HostResource(host=name, project=project, **{n: got[n] for n in _FIELDS})
        )
        for project, got in rows
    ]
    return Answer(HostAnswer(host=found))


async def update_host(call: Call) -> Answer:
    """Enable or disable the service of a host.

    Raises:
        NotFoundError: there is no such host.
        HttpError: 501 when the body sets the maintenance mode.
        InvalidInputError: the body does not contain `status`.
    """
    change = call.body(HostChange)
    service = await _service(call)
    if change.maintenance_mode is not UNSET:
        raise HttpError(
            501, "Berth has no maintenance mode; disable the host and move its servers away."
        )
    if change.status is UNSET:
        raise InvalidInputError("body", "must contain status")
    await call.parts.hosts.set_service(service.host, disabled=not change.status.is_on)
    status = "enabled" if change.status.is_on else "disabled"
    return Answer(HostChanged(host=service.host, status=status))


async def refuse_power(call: Call) -> Answer:
    """Respond with 501, because Berth does not switch machines on or off.

    Raises:
        NotFoundError: there is no such host.
        HttpError: 501 otherwise.
    """
    await _service(call)
    raise HttpError(501, "Berth does not start, stop or reboot hosts.")


async def _service(call: Call) -> Service:
    name = call.key("host_name")
    for service in await call.parts.hosts.services():
        if service.host == name:
            return service
    raise NotFoundError("compute host", name)


def _sum(amounts: Iterable[Mapping[str, int]]) -> Mapping[str, int]:
    total: Counter[str] = Counter()
    for one in amounts:
        total.update(one)
    return total


def _totals(view: HostView) -> Mapping[str, int]:
    found = view.inventories
    return {name: found[kind].total if kind in found else 0 for name, kind in _FIELDS.items()}


def _used(view: HostView) -> Mapping[str, int]:
    # As in Nova, reserved amounts count as used.
    found = view.inventories
    return {
        name: view.used.get(kind, 0) + (found[kind].reserved if kind in found else 0)
        for name, kind in _FIELDS.items()
    }


def _size(instance: Instance) -> Mapping[str, int]:
    flavor = instance.flavor
    return {
        "cpu": flavor.vcpus,
        "memory_mb": flavor.memory_mb,
        "disk_gb": flavor.root_gb + flavor.ephemeral_gb,
    }
