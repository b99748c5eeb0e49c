"""Assigning hardware: the cells, CPUs, pages and devices of an instance on its host."""

from dataclasses import dataclass

from berth.domain.hardware.assignment import Assignment
from berth.domain.hardware.pci import PciAlias
from berth.scheduling.hardware.device_fit import demanded
from berth.scheduling.hardware.hardware_fit import FreeHardware, HardwareDemand, fit_hardware
from berth.scheduling.rules.rule import Query
from berth.tables.host.hosts import HostTable


@dataclass(frozen=True, slots=True)
class HardwareAssign:
    """See `rule.Assign`. Filters with equal ones share an answer, so cells go with devices.

    Where only the filter for devices is in force, a topology that fits is honoured too; one
    that does not leaves the devices alone.
    """

    aliases: tuple[PciAlias, ...]
    packs: bool

    def __call__(self, hosts: HostTable, query: Query, row: int) -> Assignment | None:
        """Work out what an instance placed on a row gets there."""
        needs = query.needs
        if needs.topology is None and not needs.devices:
            return None
        room = FreeHardware.of(hosts, row)
        devices = demanded(needs.devices, self.aliases)
        demand = HardwareDemand(needs.topology, devices, packs=self.packs)
        found = fit_hardware(room, demand)
        return found or fit_hardware(room, HardwareDemand(None, devices))
