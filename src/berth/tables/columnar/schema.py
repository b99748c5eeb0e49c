"""The fixed columns of hosts, resource classes and NUMA cells: name, type, unit and source."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import DTypeLike


@dataclass(frozen=True, slots=True)
class Column:
    """A column: an array, or derived from other columns (see `Derived`)."""

    name: str
    dtype: DTypeLike
    unit: str
    source: str
    is_derived: bool = False


HOST_COLUMNS = (
    Column("alive", np.bool_, "", "the row holds a host"),
    Column("enabled", np.bool_, "", "Service.disabled, negated"),
    Column("forced_down", np.bool_, "", "Service.forced_down"),
    Column("last_seen_s", np.float64, "Unix seconds", "Service.last_seen_s"),
    Column("failed_builds", np.int64, "builds", "Service.failed_builds"),
    Column("failed_at_s", np.float64, "Unix seconds", "Service.failed_at_s"),
    Column("failure_level", np.float32, "builds, decayed", "Service.failure_level"),
    Column("is_served", np.bool_, "", "the host has a Service"),
    Column("created_at_s", np.float64, "Unix seconds", "Service.created_at_s"),
    Column("profile", np.int32, "index of HostTable.profiles", "Host attributes, interned"),
    Column("hypervisor_version", np.int64, "", "Host.hypervisor_version", is_derived=True),
    Column("cell", np.int32, "id, 0 for no cell", "Host.cell, in order of first appearance"),
    Column("ratios", np.int32, "id, 0 for none", "Host.…_ratios, interned"),
    Column("num_instances", np.int32, "instances", "instances on the host, including holds"),
    Column(
        "num_io_ops",
        np.int32,
        "instances",
        "instances with a task that loads the disks of the host",
    ),
    Column("rank", np.int64, "position", "order of (name, node), to break ties"),
    Column("name_hash", np.float64, "0 to 1", "a digest of (name, node)"),
)

CLASS_COLUMNS = (
    Column("total", np.int64, "unit of the class", "Inventory.total"),
    Column("used", np.int64, "unit of the class", "allocations and holds"),
    Column("capacity", np.int64, "unit of the class", "Inventory.capacity, including the ratio"),
    Column("room", np.int64, "unit of the class", "largest allocation that fits now"),
    Column("terms", np.int32, "id, 0 for no inventory", "the rest of Inventory, interned"),
    Column("free", np.int64, "unit of the class", "capacity - used; may be < 0", is_derived=True),
    Column(
        "physical_free",
        np.int64,
        "unit of the class",
        "total - reserved - used, no ratio",
        is_derived=True,
    ),
    Column(
        "ratio_free",
        np.float64,
        "unit of the class",
        "total x ratio - reserved - used",
        is_derived=True,
    ),
    Column("reserved", np.int64, "unit of the class", "Inventory.reserved", is_derived=True),
    Column("min_unit", np.int64, "unit of the class", "Inventory.min_unit", is_derived=True),
    Column("unit_max", np.int64, "unit of the class", "Inventory.unit_max", is_derived=True),
    Column("step_size", np.int64, "unit of the class", "Inventory.step_size", is_derived=True),
    Column("ratio", np.float64, "", "Inventory.allocation_ratio", is_derived=True),
)
"""The columns of each resource class."""

CELL_COLUMNS = (
    Column("row", np.int64, "row", "row of the cell's host"),
    Column("cell_id", np.int64, "", "NumaCell.cell_id"),
    Column("socket", np.int64, "", "NumaCell.socket; -1 if unknown"),
    Column("shared_cpus", np.int64, "CPUs", "NumaCell.cpuset"),
    Column("shared_used", np.int64, "CPUs", "CPUs of unpinned guests, including holds"),
    Column("dedicated", np.int64, "CPUs", "NumaCell.pcpuset"),
    Column("free", np.int64, "CPUs", "free dedicated CPUs"),
    Column("usable", np.int64, "CPUs", "free dedicated CPUs that belong to a core"),
    Column("paired", np.int64, "CPUs", "see numa.most_paired"),
    Column("cores", np.int64, "cores", "cores with a free dedicated CPU"),
    Column("whole_cores", np.int64, "cores", "cores whose threads are all free"),
    Column("threads", np.int32, "CPUs", "maximum number of threads in a core"),
    Column("is_old", np.bool_, "", "shared and dedicated CPUs are the same"),
    Column("memory_mb", np.int64, "MiB", "NumaCell.memory_mb"),
    Column("memory_used_mb", np.int64, "MiB", "memory of guests with a NUMA topology"),
    Column("smallest_kb", np.int64, "KiB", "smallest page size; 0 if none is reported"),
    Column("smallest_total_kb", np.int64, "KiB", "memory in pages of that size"),
    Column("smallest_free_kb", np.int64, "KiB", "free memory in those pages; may be < 0"),
)
"""The columns of NUMA cells, with one entry per cell (see `numa.NumaCells`)."""
