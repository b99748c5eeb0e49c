"""A pinned guest and hosts with two NUMA cells, for Nova's NUMATopologyFilter.

Hosts, request and stubs are those of `nova_peer.py`, except for the cells (`CELLS`) and the flavor
(`REQUEST`).
"""

from __future__ import annotations

import datetime as dt
import importlib
from typing import TYPE_CHECKING, Any

from nova_peer import build_request, compute_node, fill_state, service_record

if TYPE_CHECKING:
    from nova_peer import HostState, Json, Nova, RequestSpec

CELLS: Json = {
    "cells": 2,
    "cores": 16,
    "threads": 2,
    "memory_mb": 131_072,
    "cores_in_use": "min(16, (i * 7 + cell * 5) % 24), from the first core on, both threads",
    "memory_mb_of_a_core_in_use": 4_096,
    "page_size_kb": 4,
}
REQUEST: Json = {
    "vcpus": 4,
    "memory_mb": 8_192,
    "disk_gb": 20,
    "extra_specs": {"hw:cpu_policy": "dedicated"},
}
_KB_PER_MB = 1_024


def cell_of(nova: Nova, i: int, cell: int) -> object:
    """Return a NUMACell of host `i` by the recipe in `CELLS`."""
    cores, size_kb, memory = CELLS["cores"], CELLS["page_size_kb"], CELLS["memory_mb"]
    first = cell * cores * CELLS["threads"]
    siblings = [{first + core, first + core + cores} for core in range(cores)]
    in_use = min(cores, (i * 7 + cell * 5) % 24)
    used_mb = in_use * CELLS["memory_mb_of_a_core_in_use"]
    pages = nova.objects.NUMAPagesTopology(
        size_kb=size_kb,
        total=memory * _KB_PER_MB // size_kb,
        used=used_mb * _KB_PER_MB // size_kb,
        reserved=0,
    )
    return nova.objects.NUMACell(
        id=cell,
        cpuset=set(),
        pcpuset=set().union(*siblings),
        memory=memory,
        cpu_usage=0,
        memory_usage=used_mb,
        pinned_cpus=set().union(*siblings[:in_use]),
        siblings=siblings,
        mempages=[pages],
        socket=cell,
        network_metadata=nova.objects.NetworkMetadata(physnets=set(), tunneled=False),
    )


def build_states(nova: Nova, count: int) -> list[HostState]:
    """Return `count` HostStates with cells, in the order of i."""
    now = dt.datetime.now(dt.UTC)
    states = []
    for i in range(count):
        node: Any = compute_node(nova, i, now)
        cells = [cell_of(nova, i, cell) for cell in range(CELLS["cells"])]
        node.numa_topology = nova.objects.NUMATopology(cells=cells)._to_json()
        states.append(fill_state(nova, node, service_record(nova, node.host, now)))
    return states


def build_pinned_request(nova: Nova) -> RequestSpec:
    """Return the RequestSpec of `REQUEST`, with the topology that Nova derives from the flavor."""
    spec = build_request(nova, 1)
    spec.flavor.vcpus = REQUEST["vcpus"]
    spec.flavor.memory_mb = REQUEST["memory_mb"]
    spec.flavor.root_gb = REQUEST["disk_gb"]
    spec.flavor.extra_specs = dict(REQUEST["extra_specs"])
    hardware = importlib.import_module("nova.virt.hardware")
    spec.numa_topology = hardware.numa_get_constraints(spec.flavor, spec.image)
    return spec
