"""Cases in the form that the peer reads: Nova's names and units, made from Berth's records."""

import json
from collections import Counter
from collections.abc import Mapping, Sequence

from berth.domain.compute.host import Host, Service
from berth.domain.compute.instance import Instance, Status, Task
from berth.domain.compute.request import Request
from berth.domain.hardware.assignment import DeviceShare
from berth.domain.hardware.numa import NumaCell
from berth.domain.hardware.pci import DeviceType, PciPool
from berth.domain.inventory.provider import Provider
from berth.domain.inventory.resources import DISK_GB, MEMORY_MB, VCPU, Inventory
from berth.domain.ledger.change import Snapshot
from tests.differential.cases import Case
from tests.differential.hardware import KB_PER_MB
from tests.differential.rules import nova_settings

Json = dict[str, object]
NOTHING = Inventory(0)


def to_wire(case: Case, chosen: Sequence[int | None]) -> Json:
    """Return a case in the peer's form.

    Args:
        case: the case.
        chosen: the host that Berth chose for each instance in turn, None if it found none.
    """
    snapshot = case.snapshot
    filters, weighers = case.order
    return {
        "now_s": snapshot.now_s,
        "hosts": [_host(host, snapshot) for host in snapshot.hosts],
        "aggregates": [
            {"id": one.aggregate_id, "hosts": sorted(one.hosts), "metadata": dict(one.metadata)}
            for one in snapshot.aggregates
        ],
        "request": _request(case.request, snapshot),
        "settings": nova_settings(case.settings),
        "filters": [pair.name for pair in case.filters],
        "weighers": [pair.name for pair in case.weighers],
        "weighed": list(case.weighed),
        "order": {
            "filters": [pair.name for pair in filters],
            "weighers": [pair.name for pair in weighers],
        },
        "chosen": list(chosen),
    }


def on_host(instance: Instance) -> bool:
    """Tell whether an instance is on a host and not deleted."""
    return instance.host is not None and instance.status is not Status.DELETED


def _host(host: Host, snapshot: Snapshot) -> Json:
    provider = next((one for one in snapshot.providers if one.uuid == host.uuid), None)
    service = next((one for one in snapshot.services if one.host == host.name), None)
    here = [
        one
        for one in snapshot.instances
        if on_host(one) and (one.host, one.node) == (host.name, host.node)
    ]
    return {
        "host": host.name,
        "node": host.node,
        "uuid": host.uuid,
        "cell": host.cell,
        **_amounts(provider),
        "hypervisor_type": host.hypervisor_type,
        "hypervisor_version": host.hypervisor_version,
        "host_ip": host.host_ip,
        "cpu_info": json.dumps(host.cpu_info, sort_keys=True, separators=(",", ":")),
        "stats": {
            **host.stats,
            "num_instances": str(len(here)),
            "io_workload": str(sum(one.task is Task.SPAWNING for one in here)),
            "failed_builds": str(service.failed_builds if service else 0),
        },
        "supported": [list(one) for one in host.supported_instances],
        "metrics": dict(host.metrics),
        "numa_cells": [_cell(cell, here) for cell in host.numa_cells] or None,
        "pci_pools": _pools(host.pci_pools, here),
        "service": _service(service),
        "attestation": _attestation(service, host.node),
        "instances": [_instance(one) for one in here],
    }


def _amounts(provider: Provider | None) -> Json:
    """Return a provider's amounts; as in Nova, reserved ones count as used."""
    inventories: Mapping[str, Inventory] = provider.inventories if provider else {}
    used: Mapping[str, int] = provider.used if provider else {}
    vcpus, memory, disk = (inventories.get(name, NOTHING) for name in (VCPU, MEMORY_MB, DISK_GB))
    return {
        "vcpus": vcpus.total,
        "vcpus_used": vcpus.reserved + used.get(VCPU, 0),
        "cpu_allocation_ratio": _ratio(vcpus),
        "memory_mb": memory.total,
        "memory_mb_used": memory.reserved + used.get(MEMORY_MB, 0),
        "ram_allocation_ratio": _ratio(memory),
        "local_gb": disk.total,
        "local_gb_used": disk.reserved + used.get(DISK_GB, 0),
        "disk_allocation_ratio": _ratio(disk),
    }


def _ratio(inventory: Inventory) -> float:
    return 0.0 if inventory is NOTHING else inventory.allocation_ratio


def _service(service: Service | None) -> Json | None:
    if service is None:
        return None
    return {
        "disabled": service.disabled,
        "forced_down": service.forced_down,
        "last_seen_s": service.last_seen_s,
    }


def _attestation(service: Service | None, node: str) -> Json | None:
    found = service.attestations.get(node) if service else None
    if found is None:
        return None
    return {"level": found.level, "valid_until_s": found.valid_until_s}


def _cell(cell: NumaCell, here: Sequence[Instance]) -> Json:
    """Return a cell with its usage; memory without a page size uses the smallest pages."""
    shares = [
        share
        for one in here
        for share in (one.assignment.numa if one.assignment else ())
        if share.host_cell == cell.cell_id
    ]
    smallest_kb = min((pages.size_kb for pages in cell.mempages), default=0)
    every = cell.cpuset | cell.pcpuset
    return {
        "id": cell.cell_id,
        "cpuset": sorted(cell.cpuset),
        "pcpuset": sorted(cell.pcpuset),
        "memory": cell.memory_mb,
        "cpu_usage": sum(share.shared_cpus for share in shares),
        "memory_usage": sum(share.memory_mb for share in shares),
        "pinned_cpus": sorted({cpu for share in shares for cpu in share.taken_cpus}),
        "siblings": [sorted(core) for core in cell.siblings] or [[cpu] for cpu in sorted(every)],
        "mempages": [
            {
                "size_kb": pages.size_kb,
                "total": pages.total,
                "reserved": pages.reserved,
                "used": sum(
                    share.memory_mb * KB_PER_MB // pages.size_kb
                    for share in shares
                    if (share.page_size_kb or smallest_kb) == pages.size_kb
                ),
            }
            for pages in cell.mempages
        ],
        "socket": cell.socket,
    }


def _pools(pools: Sequence[PciPool], here: Sequence[Instance]) -> list[Json]:
    """Return the device pools with free devices; Nova's computes report no others.

    A physical function is not free while a virtual one of it is used, nor the other way round.
    """
    used = Counter[str]()
    for one in here:
        used.update({share.pool: share.count for share in _devices(one)})
    busy = {
        (pool.address, pool.dev_type is DeviceType.PHYSICAL)
        for pool in pools
        if pool.address and used[pool.key] and pool.dev_type is not DeviceType.STANDARD
    }
    told: list[Json] = []
    for pool in pools:
        excluded = (pool.address, pool.dev_type is not DeviceType.PHYSICAL) in busy
        is_alone = pool.dev_type is DeviceType.STANDARD or not excluded
        count = pool.count - used[pool.key] if is_alone else 0
        if count > 0:
            address = {"address": pool.address} if pool.address else {}
            told.append(
                {
                    "vendor_id": pool.vendor_id,
                    "product_id": pool.product_id,
                    "numa_node": pool.numa_node,
                    "dev_type": str(pool.dev_type),
                    "count": count,
                    **address,
                    **pool.tags,
                }
            )
    return told


def _devices(instance: Instance) -> Sequence[DeviceShare]:
    return instance.assignment.devices if instance.assignment else ()


def _instance(instance: Instance) -> Json:
    properties = dict(instance.image.properties) if instance.image else {}
    return {
        "uuid": instance.uuid,
        "flavor_id": instance.flavor.flavor_id,
        "image_properties": properties,
    }


def _request(request: Request, snapshot: Snapshot) -> Json:
    flavor, image, wanted = request.flavor, request.image, request.destination
    destination = wanted is not None or request.source_cell
    return {
        "flavor": {
            "flavorid": flavor.flavor_id,
            "name": flavor.name,
            "vcpus": flavor.vcpus,
            "memory_mb": flavor.memory_mb,
            "root_gb": flavor.root_gb,
            "ephemeral_gb": flavor.ephemeral_gb,
            "swap": flavor.swap_mb,
            "extra_specs": dict(flavor.extra_specs),
        },
        "image": image and {"id": image.image_id, "properties": dict(image.properties)},
        "project_id": request.project_id,
        "availability_zone": request.availability_zone,
        "retried": [list(pair) for pair in request.retried],
        "instance_uuids": list(request.instance_uuids),
        "hints": {name: list(values) for name, values in request.hints.items()},
        "group": _group(request, snapshot),
        "destination": {
            "host": wanted.host if wanted else "",
            "node": wanted.node if wanted else None,
            "cell": request.source_cell,
        }
        if destination
        else None,
        "ignore_hosts": list(request.ignore_hosts),
        "force_hosts": list(request.force_hosts),
        "force_nodes": list(request.force_nodes),
    }


def _group(request: Request, snapshot: Snapshot) -> Json | None:
    """Return the request's group; its members include the new instances, as in Nova."""
    group = next((one for one in snapshot.server_groups if one.uuid == request.group_uuid), None)
    if group is None:
        return None
    members = [one for one in snapshot.instances if one.group_uuid == group.uuid]
    rules = {"max_server_per_host": str(group.max_server_per_host)}
    return {
        "uuid": group.uuid,
        "policy": str(group.policy),
        "members": [one.uuid for one in members] + list(request.instance_uuids),
        "hosts": sorted({one.host for one in members if on_host(one) and one.host}),
        "rules": rules if group.policy == "anti-affinity" else {},
    }
