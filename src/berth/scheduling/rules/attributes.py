"""Host attributes by the names that extra specs use (nova-behaviour.md 2.3, 2.6)."""

import json
from collections.abc import Callable, Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from berth.domain.inventory.resources import DISK_GB, MEMORY_MB, VCPU
from berth.tables.host.hosts import HostTable
from berth.tables.host.profiles import Profile

Values = NDArray[np.float64] | NDArray[np.int64] | NDArray[np.int32]

_MB_PER_GB = 1024


def _amount(name: str, quantity: str, factor: int = 1) -> Callable[[HostTable], Values]:
    def read(hosts: HostTable) -> Values:
        columns = hosts.resource(name)
        if columns is None:
            return np.zeros(len(hosts), dtype=np.int64)
        count = len(hosts)
        if quantity == "used":
            # Reserved amounts count as used, as in Nova's host state.
            return (columns.reserved[:count] + columns.used[:count]) * factor
        values: Values = getattr(columns, quantity)[:count]
        return values * factor if factor != 1 else values

    return read


ROW_ATTRIBUTES: Mapping[str, Callable[[HostTable], Values]] = {
    "vcpus_total": _amount(VCPU, "total"),
    "vcpus_used": _amount(VCPU, "used"),
    "total_usable_ram_mb": _amount(MEMORY_MB, "total"),
    "free_ram_mb": _amount(MEMORY_MB, "physical_free"),
    "total_usable_disk_gb": _amount(DISK_GB, "total"),
    "disk_mb_used": _amount(DISK_GB, "used", _MB_PER_GB),
    "free_disk_mb": _amount(DISK_GB, "physical_free", _MB_PER_GB),
    "cpu_allocation_ratio": _amount(VCPU, "ratio"),
    "ram_allocation_ratio": _amount(MEMORY_MB, "ratio"),
    "disk_allocation_ratio": _amount(DISK_GB, "ratio"),
    "num_instances": lambda hosts: hosts.num_instances,
    "num_io_ops": lambda hosts: hosts.num_io_ops,
    "failed_builds": lambda hosts: hosts.failed_builds,
}
"""Attributes that differ from host to host: (hosts) -> (N,) numbers."""

HOST_ATTRIBUTES: Mapping[str, Callable[[HostTable, int], str]] = {
    "host": lambda hosts, row: hosts.name(row),
    "nodename": lambda hosts, row: hosts.node(row),
    "hypervisor_hostname": lambda hosts, row: hosts.node(row),
    "host_ip": lambda hosts, row: hosts.addresses.text(row),
    "uuid": lambda hosts, row: hosts.uuid(row),
}
"""Attributes that identify a host: (hosts, row) -> text.

Few requests read them, so they are looked up row by row rather than kept as columns.
"""

PROFILE_ATTRIBUTES: Mapping[str, Callable[[Profile], object]] = {
    "hypervisor_type": lambda profile: profile.hypervisor_type,
    "hypervisor_version": lambda profile: profile.hypervisor_version,
    "cpu_info": lambda profile: profile.cpu_info,
    "supported_instances": lambda profile: [list(one) for one in profile.supported_instances],
    "stats": lambda profile: profile.stats_by_name,
}
"""Attributes that hosts with equal profiles share: (profile) -> value."""


def profile_value(profile: Profile, path: Sequence[str]) -> object:
    """Return the value at a path such as ("cpu_info", "arch"), or None if there is none.

    The first step is an attribute or, if there is none of that name, a name in the stats; further
    steps descend into JSON text and mappings.
    """
    read = PROFILE_ATTRIBUTES.get(path[0])
    value = read(profile) if read else profile.stats_by_name.get(path[0])
    for step in path[1:]:
        if isinstance(value, str):
            value = _opened(value)
        if not isinstance(value, Mapping):
            return None
        value = value.get(step)  # pyright: ignore[reportUnknownMemberType, reportUnknownVariableType]
    return value  # pyright: ignore[reportUnknownVariableType]


def _opened(text: str) -> object:
    # Stats come from agents: text that is not JSON, or is nested too deeply, has no keys to open.
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None


_ALIASES: Mapping[str, str] = {
    "amd64": "x86_64",
    "x64": "x86_64",
    "i386": "i686",
    "i486": "i686",
    "i586": "i686",
    "powerpc": "ppc",
    "arm64": "aarch64",
}


def canonical_architecture(name: str) -> str:
    """Return the name by which hosts report an architecture; an unknown name in lower case."""
    lowered = name.lower()
    return _ALIASES.get(lowered, lowered)
