"""The fixed columns of every host, and the host and service records that are built from them."""

import hashlib
from collections.abc import Mapping
from dataclasses import fields
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from berth.domain.compute.host import Host, Service
from berth.domain.hardware.assignment import Assignment
from berth.domain.hardware.pci import PciPool
from berth.domain.inventory.resources import AMOUNT_MAX
from berth.tables.columnar.addresses import Addresses
from berth.tables.columnar.bitsets import Mask, Selection
from berth.tables.columnar.class_columns import Floats, Ints, SmallFloats, SmallInts
from berth.tables.columnar.column_set import ColumnSet
from berth.tables.columnar.derived import DerivedInts
from berth.tables.columnar.interned import Interned
from berth.tables.columnar.schema import HOST_COLUMNS
from berth.tables.columnar.uuids import Uuids
from berth.tables.host.attestations import Attestations
from berth.tables.host.host_metrics import HostMetrics
from berth.tables.host.numa import NumaCells
from berth.tables.host.pci import PciDevices
from berth.tables.host.profiles import Profiles

Bools = NDArray[np.bool_]


class _Ratios(NamedTuple):
    """Allocation ratios by resource class, as sorted pairs for each source that may set them."""

    own: tuple[tuple[str, float], ...] = ()
    forced: tuple[tuple[str, float], ...] = ()
    operator: tuple[tuple[str, float], ...] = ()
    initial: tuple[tuple[str, float], ...] = ()


class _Hardware(NamedTuple):
    """The reported attributes that few hosts have."""

    pci_pools: tuple[PciPool, ...]
    child_uuids: tuple[str, ...]


_SETTERS: Final = tuple((one.name, getattr(Host, one.name).__set__) for one in fields(Host))
_NO_RATIOS: Final = _Ratios()
_PLAIN: Final = _Hardware((), ())
_NONE: Final[Mapping[str, float]] = {}


class HostColumns(ColumnSet):
    """The fixed columns of hosts (see `schema.HOST_COLUMNS`).

    `metrics`, `addresses`, `attestations`, `numa` and `pci` are separate objects, because few
    policies read them. Records of hosts and services are not stored: `host` and `service` build
    them from the columns (ADR 12).
    """

    alive: Bools
    enabled: Bools
    forced_down: Bools
    last_seen_s: Floats
    failed_builds: Ints
    failed_at_s: Floats
    failure_level: SmallFloats
    is_served: Bools
    created_at_s: Floats
    profile: SmallInts
    cell: SmallInts
    ratios: SmallInts
    num_instances: SmallInts
    num_io_ops: SmallInts
    rank: Ints
    name_hash: Floats

    def __init__(self, rows: int) -> None:
        super().__init__(HOST_COLUMNS, rows)
        self._cells = {"": 0}
        self._cell_names = [""]
        self._ratios = Interned(_NO_RATIOS)
        self._hardware: dict[int, _Hardware] = {}
        self._service_ids = Uuids(rows)
        profiles = self.profiles = Profiles()
        self.hypervisor_version = DerivedInts(lambda at: profiles.versions.take(self.profile[at]))
        self.metrics = HostMetrics(rows)
        self.addresses = Addresses(rows)
        self.attestations = Attestations(rows)
        self.numa = NumaCells(rows)
        self.pci = PciDevices(rows)

    def resize(self, rows: int) -> None:
        """Grow every array to `rows` rows; new rows are empty."""
        super().resize(rows)
        self._service_ids.resize(rows)
        for apart in (self.metrics, self.addresses, self.attestations, self.numa, self.pci):
            apart.resize(rows)

    def clear(self, row: int) -> None:
        """Set a row to zero in every array, and remove its data from the separate objects."""
        self._release(row)
        super().clear(row)
        self._hardware.pop(row, None)
        self._service_ids.clear(row)
        self.metrics.put(row, {})
        self.addresses.put(row, "")
        self.attestations.clear(row)
        self.numa.clear(row)
        self.pci.clear(row)

    # ---- hosts ----------------------------------------------------------------------------

    def put_host(self, row: int, host: Host) -> None:
        """Set the columns of a row to the attributes of a host other than uuid, name and node."""
        # The new values are taken before the old ones are released, so equal ones keep their ids.
        profile = self.profiles.number(host)
        ratios = self._ratios.take(_ratios_of(host))
        self._release(row)
        self.alive[row] = True
        self.profile[row] = profile
        self.ratios[row] = ratios
        self.cell[row] = self._cell_number(host.cell)
        self._put_hardware(row, host)

    def put_name_hash(self, row: int, host: Host) -> None:
        """Set the name hash of a row from the name and node of its host."""
        self.name_hash[row] = _name_hash_of(host)

    def matches(self, row: int, host: Host) -> bool:
        """Return whether `put_host` would change nothing, without building a record."""
        shared = self.profiles.reported(self.profile.item(row))
        return (
            host.stats == shared.stats
            and host.metrics == self.metrics.reported(row)
            and host.cpu_info == shared.cpu_info
            and host.hypervisor_version == shared.hypervisor_version
            and host.hypervisor_type == shared.hypervisor_type
            and host.supported_instances == shared.supported_instances
            and host.cell == self.cell_name(row)
            and host.host_ip == self.addresses.text(row)
            and self._hardware.get(row, _PLAIN) == (host.pci_pools, host.child_uuids)
            and host.numa_cells == self.numa.reported(row)
            and self._ratios.all[self.ratios.item(row)] == _ratios_of(host)
        )

    def host(self, row: int, uuid: str, name: str, node: str) -> Host:
        """Return the host that was put into a row, with the given uuid, name and node."""
        shared = self.profiles.reported(self.profile.item(row))
        ratios = self._ratios.all[self.ratios.item(row)] or _NO_RATIOS
        hardware = self._hardware.get(row, _PLAIN)
        values: dict[str, object] = {
            "uuid": uuid,
            "name": name,
            "node": node,
            "hypervisor_type": shared.hypervisor_type,
            "hypervisor_version": shared.hypervisor_version,
            "host_ip": self.addresses.text(row),
            "cpu_info": shared.cpu_info,
            "supported_instances": shared.supported_instances,
            "stats": shared.stats,
            "cell": self.cell_name(row),
            "numa_cells": self.numa.reported(row),
            "pci_pools": hardware.pci_pools,
            "child_uuids": hardware.child_uuids,
            "allocation_ratios": dict(ratios.own) if ratios.own else _NONE,
            "forced_ratios": dict(ratios.forced) if ratios.forced else _NONE,
            "operator_ratios": dict(ratios.operator) if ratios.operator else _NONE,
            "initial_ratios": dict(ratios.initial) if ratios.initial else _NONE,
            "metrics": self.metrics.reported(row),
        }
        # The constructor would validate the values again, which takes longer than all of the above.
        host = object.__new__(Host)
        for field, put in _SETTERS:
            put(host, values[field])
        return host

    @property
    def has_cells(self) -> bool:
        """Whether any host has ever reported a cell (`Host.cell`)."""
        return len(self._cell_names) > 1

    def cell_name(self, row: int) -> str:
        """Return the name of the cell of a row's host; empty if it has none."""
        return self._cell_names[self.cell.item(row)]

    def in_cell(self, cell: str, rows: Selection, count: int) -> Mask:
        """Return, for each of the `count` rows, whether its host is in the named cell."""
        number = self._cells.get(cell)
        if number is None:
            return np.zeros(count, dtype=np.bool_)
        inside: Mask = self.cell[rows] == number
        return inside

    # ---- instances ------------------------------------------------------------------------

    def take(self, row: int, assignment: Assignment | None) -> None:
        """Count the NUMA cells and devices that an instance uses on a row."""
        if assignment is not None:
            self.numa.take(row, assignment.numa)
            self.pci.take(row, assignment.devices)

    def release(self, row: int, assignment: Assignment | None) -> None:
        """Undo one `take` of an equal assignment."""
        if assignment is not None:
            self.numa.release(row, assignment.numa)
            self.pci.release(row, assignment.devices)

    # ---- services -------------------------------------------------------------------------

    def put_service(self, row: int, service: Service | None, node: str) -> None:
        """Set the service columns of a row whose host has the given node; None means no service."""
        if service is None and not self.is_served.item(row):
            return
        self.is_served[row] = service is not None
        self.enabled[row] = service is not None and not service.disabled
        self.forced_down[row] = service is not None and service.forced_down
        self.last_seen_s[row] = 0.0 if service is None else service.last_seen_s
        self.created_at_s[row] = 0.0 if service is None else service.created_at_s
        failed = 0 if service is None else service.failed_builds
        # The count is clipped, because a state file may contain an integer of any size, and a
        # column has 64 bits.
        self.failed_builds[row] = max(0, min(failed, AMOUNT_MAX))
        self.failed_at_s[row] = 0.0 if service is None else service.failed_at_s
        level = 0.0 if service is None else service.failure_level
        self.failure_level[row] = level if 0 <= level <= AMOUNT_MAX else 0.0
        if service is None:
            self._service_ids.clear(row)
        else:
            self._service_ids.put(row, service.service_id)
        self.attestations.put(row, node, {} if service is None else service.attestations)

    def service(self, row: int, name: str) -> Service | None:
        """Return the service of a row under the given name, or None if the row has none.

        The record contains only what the columns hold: its disabled reason, attestations, audit and
        build failures are empty, its failure level is 0, and its counts are clipped (see
        `ComputeServices`).
        """
        if not self.is_served.item(row):
            return None
        return Service(
            host=name,
            service_id=self._service_ids.get(row),
            disabled=not self.enabled.item(row),
            forced_down=self.forced_down.item(row),
            last_seen_s=self.last_seen_s.item(row),
            created_at_s=self.created_at_s.item(row),
            failed_builds=self.failed_builds.item(row),
            failed_at_s=self.failed_at_s.item(row),
        )

    def _put_hardware(self, row: int, host: Host) -> None:
        self.metrics.put(row, host.metrics)
        self.addresses.put(row, host.host_ip)
        self.numa.put(row, host.numa_cells)
        self.pci.put(row, host.pci_pools)
        if host.pci_pools or host.child_uuids:
            self._hardware[row] = _Hardware(host.pci_pools, host.child_uuids)
        else:
            self._hardware.pop(row, None)

    def _release(self, row: int) -> None:
        if self.alive.item(row):
            self.profiles.interned.release(self.profile.item(row))
            self._ratios.release(self.ratios.item(row))

    def _cell_number(self, cell: str) -> int:
        number = self._cells.setdefault(cell, len(self._cells))
        if number == len(self._cell_names):
            self._cell_names.append(cell)
        return number


def _ratios_of(host: Host) -> _Ratios:
    found = (
        host.allocation_ratios,
        host.forced_ratios,
        host.operator_ratios,
        host.initial_ratios,
    )
    if not any(found):
        return _NO_RATIOS
    return _Ratios(*(tuple(sorted(one.items())) for one in found))


def _name_hash_of(host: Host) -> float:
    """Return a number in [0, 1) that depends only on the host's name and node."""
    # All schedulers must compute the same value, and Python's `hash` differs between processes. A
    # float holds 48 bits exactly.
    digest = hashlib.sha256(f"{host.name}\0{host.node}".encode("utf-8", "surrogatepass")).digest()
    return int.from_bytes(digest[:6], "big") / 2**48
