"""PciPassthroughFilter: the host has the requested PCI devices.

Source: nova-behaviour.md 2.6, 6.3.
"""

from collections.abc import Mapping, Sequence

from berth.domain.compute.decision import Relaxation
from berth.domain.hardware.pci import aliases_of
from berth.scheduling.hardware.device_fit import DeviceDemand, device_demands
from berth.scheduling.hardware.device_masks import devices_bound
from berth.scheduling.hardware.explain import relax_devices, why_no_devices
from berth.scheduling.hardware.hardware_fit import HardwareAssign, hardware_state
from berth.scheduling.hardware.hardware_masks import hosts_with_devices
from berth.scheduling.rules.rule import Filter, Query, Reads, Scores
from berth.tables.columnar.bitsets import Mask, Rows, Selection
from berth.tables.host.hosts import HostTable

NAME = "PciPassthroughFilter"


def build(*, pci_aliases: tuple[Mapping[str, str], ...] = (), numa_packing: bool = True) -> Filter:
    """Build the filter.

    NUMATopologyFilter checks whether the devices are near enough to the guest's NUMA cells. This
    filter raises InvalidInputError for a request with an alias that is not in `pci_aliases`.

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
        if not query.needs.devices:
            return None
        return hosts_with_devices(hosts, devices(query), rows)

    def bound(hosts: HostTable, query: Query) -> Scores | None:
        return devices_bound(hosts, devices(query))

    def why(hosts: HostTable, query: Query, row: int) -> str:
        return why_no_devices(hosts, devices(query), row)

    def relax(hosts: HostTable, query: Query, rows: Rows) -> Sequence[Relaxation]:
        return relax_devices(NAME, hosts, devices(query), rows)

    return Filter(
        name=NAME,
        keep=keep,
        why=why,
        relax=relax,
        reads=Reads(request=("needs.devices",), columns=("host", "used", "instances")),
        # The agent could not build a guest on a forced host that lacks the devices.
        on_forced=True,
        bound=bound,
        assign=HardwareAssign(aliases, packs=numa_packing),
        state_of=hardware_state,
    )
