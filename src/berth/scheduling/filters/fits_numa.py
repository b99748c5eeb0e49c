"""NUMATopologyFilter: the guest's NUMA cells fit on the host's (nova-behaviour.md 2.6, 6.2)."""

from collections.abc import Mapping, Sequence

import numpy as np

from berth.domain.compute.decision import Relaxation
from berth.domain.hardware.pci import aliases_of
from berth.scheduling.hardware.cell_counts import guests_in_turn, most_guests
from berth.scheduling.hardware.device_fit import DeviceDemand, device_demands
from berth.scheduling.hardware.explain import relax_hardware, why_no_hardware
from berth.scheduling.hardware.hardware_fit import HardwareAssign, hardware_state
from berth.scheduling.hardware.hardware_masks import hosts_with_hardware
from berth.scheduling.rules.rule import UNCOUNTED, Filter, Query, Reads, Scores
from berth.tables.columnar.bitsets import Mask, Rows, Selection
from berth.tables.columnar.class_columns import Ints
from berth.tables.host.hosts import HostTable

NAME = "NUMATopologyFilter"


def build(*, pci_aliases: tuple[Mapping[str, str], ...] = (), numa_packing: bool = True) -> Filter:
    """Build the filter.

    A guest that requests devices gets NUMA cells near them, as the NUMA policy of its devices
    requires. The filter raises InvalidInputError for a request with an alias that is not in
    `pci_aliases`.

    Args:
        pci_aliases: the aliases by which flavors request kinds of PCI devices.
        numa_packing: True prefers the host's fullest NUMA cells, False its emptiest.

    Raises:
        ValueError: an alias is invalid or contradicts an earlier one of the same name.
    """
    aliases = aliases_of(pci_aliases)

    def devices(query: Query) -> tuple[DeviceDemand, ...]:
        return device_demands(query.needs.devices, aliases)

    def keep(hosts: HostTable, query: Query, rows: Selection) -> Mask | None:
        topology = query.needs.topology
        if topology is None:
            return None
        return hosts_with_hardware(hosts, topology, devices(query), rows)

    def why(hosts: HostTable, query: Query, row: int) -> str:
        return why_no_hardware(hosts, query.needs.topology, devices(query), row)

    def relax(hosts: HostTable, query: Query, rows: Rows) -> Sequence[Relaxation]:
        return relax_hardware(NAME, hosts, query.needs.topology, devices(query), rows)

    def bound(hosts: HostTable, query: Query) -> Scores | None:
        topology = query.needs.topology
        return None if topology is None else most_guests(hosts, topology)

    def repeats(hosts: HostTable, query: Query, rows: Rows) -> Ints:
        topology = query.needs.topology
        # The count ignores devices. Without a topology, no caller asks for a count.
        if topology is None or query.needs.devices:
            return np.full(rows.size, UNCOUNTED, dtype=np.int64)
        return guests_in_turn(hosts, topology, rows)

    return Filter(
        name=NAME,
        keep=keep,
        why=why,
        relax=relax,
        reads=Reads(
            request=("needs.topology", "needs.devices"), columns=("host", "used", "instances")
        ),
        # The agent could not build a guest on a forced host that lacks the NUMA cells.
        on_forced=True,
        assign=HardwareAssign(aliases, packs=numa_packing),
        bound=bound,
        repeats=repeats,
        state_of=hardware_state,
    )
