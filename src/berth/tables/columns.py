"""Arrays that grow together."""

import hashlib

import numpy as np
from numpy.typing import NDArray

from berth.domain.assignment import Assignment
from berth.domain.host import Host, Service
from berth.domain.resources import AMOUNT_MAX, Inventory
from berth.tables.addresses import Addresses
from berth.tables.attestations import Attestations
from berth.tables.bitsets import Mask, Selection
from berth.tables.column_set import ColumnSet
from berth.tables.metrics import Metrics
from berth.tables.numa import NumaCells
from berth.tables.pci import PciDevices
from berth.tables.schema import CLASS_COLUMNS, HOST_COLUMNS

Bools = NDArray[np.bool_]
Ints = NDArray[np.int64]
Floats = NDArray[np.float64]
SmallInts = NDArray[np.int32]


class ClassColumns(ColumnSet):
    """What each host has of one resource class (see `schema.CLASS_COLUMNS`)."""

    total: Ints
    reserved: Ints
    capacity: Ints
    used: Ints
    free: Ints
    physical_free: Ints
    ratio_free: Floats
    room: Ints
    min_unit: Ints
    unit_max: Ints
    step_size: Ints
    ratio: Floats

    def __init__(self, rows: int) -> None:
        super().__init__(CLASS_COLUMNS, rows)
        self.stepped: set[int] = set()
        """Rows whose min_unit or step_size is not 1; most fleets have none."""

    def put(self, row: int, inventory: Inventory) -> None:
        """Set a row to an inventory of which nothing is used."""
        self.total[row] = inventory.total
        self.reserved[row] = inventory.reserved
        # A large total times a large ratio is more than 64 bits hold.
        self.capacity[row] = min(inventory.capacity, AMOUNT_MAX)
        self.min_unit[row] = inventory.min_unit
        self.unit_max[row] = inventory.unit_max
        self.step_size[row] = inventory.step_size
        self.ratio[row] = inventory.allocation_ratio
        self.put_used(row, 0)
        if inventory.min_unit > 1 or inventory.step_size > 1:
            self.stepped.add(row)
        else:
            self.stepped.discard(row)

    def put_used(self, row: int, amount: int) -> None:
        """Set what is used of a row, and all that follows from it."""
        free = self.capacity.item(row) - amount
        total, reserved = self.total.item(row), self.reserved.item(row)
        self.used[row] = amount
        self.free[row] = free
        self.physical_free[row] = total - reserved - amount
        self.ratio_free[row] = total * self.ratio.item(row) - (reserved + amount)
        self.room[row] = min(free, self.unit_max.item(row))

    def inventory(self, row: int) -> Inventory:
        """Return the inventory of a row; `max_unit` is filled in."""
        return Inventory(
            total=self.total.item(row),
            reserved=self.reserved.item(row),
            min_unit=self.min_unit.item(row),
            max_unit=self.unit_max.item(row),
            step_size=self.step_size.item(row),
            allocation_ratio=self.ratio.item(row),
        )

    def clear(self, row: int) -> None:
        """Set a row to having nothing of this class."""
        super().clear(row)
        self.stepped.discard(row)

    def fits(self, amount: int, rows: Selection) -> Mask:
        """Tell for each of the rows whether one allocation of `amount` may be made.

        Args:
            amount: in the unit of the class, at least 1.
            rows: rows to look at.
        """
        fits: Mask = self.room[rows] >= amount
        if self.stepped:
            # A class that a row does not have has step 0, and no room either.
            step = np.maximum(self.step_size[rows], 1)
            fits &= (amount >= self.min_unit[rows]) & (amount % step == 0)
        return fits


class HostColumns(ColumnSet):
    """What every host has (see `schema.HOST_COLUMNS`).

    `metrics`, `addresses`, `attestations`, `numa` and `pci` are kept apart, since few policies
    read them.
    """

    alive: Bools
    enabled: Bools
    forced_down: Bools
    last_seen_s: Floats
    failed_builds: Ints
    failed_at_s: Floats
    profile: SmallInts
    hypervisor_version: Ints
    cell: SmallInts
    num_instances: SmallInts
    num_io_ops: SmallInts
    rank: Ints
    lot: Floats

    def __init__(self, rows: int) -> None:
        super().__init__(HOST_COLUMNS, rows)
        self._cells = {"": 0}
        self.metrics = Metrics(rows)
        self.addresses = Addresses(rows)
        self.attestations = Attestations(rows)
        self.numa = NumaCells(rows)
        self.pci = PciDevices(rows)

    def resize(self, rows: int) -> None:
        """Grow every array to `rows`; new rows are zero, and have none of what is kept apart."""
        super().resize(rows)
        for apart in (self.metrics, self.addresses, self.attestations, self.numa, self.pci):
            apart.resize(rows)

    def clear(self, row: int) -> None:
        """Set a row to zero in every array, and forget what is kept apart."""
        super().clear(row)
        self.metrics.put(row, {})
        self.addresses.put(row, "")
        self.attestations.clear(row)
        self.numa.clear(row)
        self.pci.clear(row)

    def put_host(self, row: int, host: Host, profile: int) -> None:
        """Set a row to the attributes of a host, whose profile has that number."""
        self.profile[row] = profile
        self.lot[row] = _lot_of(host)
        # Reports and state files set no bounds to a number, but a column has 64 bits.
        self.hypervisor_version[row] = max(-AMOUNT_MAX, min(host.hypervisor_version, AMOUNT_MAX))
        self.cell[row] = self._cells.setdefault(host.cell, len(self._cells))
        self.metrics.put(row, host.metrics)
        self.addresses.put(row, host.host_ip)
        self.attestations.put_node(row, host.node)
        self.numa.put(row, host.numa_cells)
        self.pci.put(row, host.pci_pools)

    def take(self, row: int, assignment: Assignment | None) -> None:
        """Count the NUMA cells and devices that an instance has of a row."""
        if assignment is not None:
            self.numa.take(row, assignment.numa)
            self.pci.take(row, assignment.devices)

    def give(self, row: int, assignment: Assignment | None) -> None:
        """Undo `take` with an equal assignment."""
        if assignment is not None:
            self.numa.give(row, assignment.numa)
            self.pci.give(row, assignment.devices)

    def in_cell(self, cell: str, rows: Selection, count: int) -> Mask:
        """Tell for each of the `count` rows whether its host is in that cell."""
        number = self._cells.get(cell)
        if number is None:
            return np.zeros(count, dtype=np.bool_)
        inside: Mask = self.cell[rows] == number
        return inside

    def put_service(self, row: int, service: Service | None) -> None:
        """Set a row to the state of a compute service; None counts as disabled."""
        self.enabled[row] = service is not None and not service.disabled
        self.forced_down[row] = service is not None and service.forced_down
        self.last_seen_s[row] = 0.0 if service is None else service.last_seen_s
        failed = 0 if service is None else service.failed_builds
        self.failed_builds[row] = max(0, min(failed, AMOUNT_MAX))
        self.failed_at_s[row] = 0.0 if service is None else service.failed_at_s
        self.attestations.put(row, {} if service is None else service.attestations)


def _lot_of(host: Host) -> float:
    """Draw a number from 0 to below 1 that only depends on the host's name and node."""
    digest = hashlib.sha256(f"{host.name}\0{host.node}".encode("utf-8", "surrogatepass")).digest()
    return int.from_bytes(digest[:6], "big") / 2**48
