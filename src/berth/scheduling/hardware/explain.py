"""Explains why a host's NUMA cells or devices cannot take a guest, and names helpful changes."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from berth.domain.compute.decision import Relaxation
from berth.domain.hardware.guest_topology import (
    GuestTopology,
    PageSizeClass,
    ThreadPolicy,
)
from berth.domain.hardware.pci import NumaPolicy
from berth.scheduling.hardware.cell_demand import CellDemand, demands_of
from berth.scheduling.hardware.cell_fit import (
    OvercommitRatios,
    allowed_pages,
    fit_cell,
    floats,
    free_kb,
    page_size,
)
from berth.scheduling.hardware.device_fit import DeviceDemand
from berth.scheduling.hardware.device_masks import sources_of, usable_devices
from berth.scheduling.hardware.hardware_masks import hosts_with_hardware
from berth.scheduling.hardware.matching import is_matchable
from berth.scheduling.hardware.pinning import pin
from berth.scheduling.rules.rule import count_hosts, example_names, without
from berth.tables.columnar.bitsets import Rows
from berth.tables.host.cell_use import FreeCell
from berth.tables.host.hosts import HostTable

_KB_PER_MB = 1024


def why_no_hardware(
    hosts: HostTable,
    topology: GuestTopology | None,
    devices: Sequence[DeviceDemand],
    row: int,
) -> str:
    """Return the reason why a guest's topology and devices do not fit, as text for operators."""
    cells = hosts.numa.cells(row)
    if topology is None or not cells:
        return "it reports no NUMA cells"
    asked = len(topology.cells)
    if asked > len(cells):
        return f"{asked} NUMA cells requested, but it has {len(cells)}"
    ratios = OvercommitRatios.of(hosts, row)
    # The first reason that applies is returned, so the most specific ones come first.
    masks: list[int] = []
    for number, (guest, demand) in enumerate(
        zip(topology.cells, demands_of(topology), strict=True)
    ):
        fitting = [fit_cell(cell, demand, guest, ratios) is not None for cell in cells]
        if not any(fitting):
            subject = f"guest cell {number} needs" if asked > 1 else "needs"
            return f"{subject} {nearest_shortage(cells, demand, ratios)} on one NUMA cell"
        masks.append(sum(1 << place for place, fits in enumerate(fitting) if fits))
    if topology.wants_threads and all(cell.shape.threads <= 1 for cell in cells):
        return "none of its cores has several threads, which the image requires"
    if not is_matchable(masks):
        return f"its NUMA cells can take each of the {asked} guest cells, but not all together"
    names = ", ".join(sorted({demand.alias for demand in devices}))
    return f"no NUMA cells with room have the devices ({names}) near enough"


def relax_hardware(
    filter_name: str,
    hosts: HostTable,
    topology: GuestTopology | None,
    devices: Sequence[DeviceDemand],
    rows: Rows,
) -> list[Relaxation]:
    """Return the single changes to a topology that would let some of the rows take it.

    Its CPUs and memory are left out: the search for relaxations reduces the sizes of the flavor.

    Args:
        filter_name: the filter that removes the rows, for the relaxations.
        hosts: the table.
        topology: the guest's topology; None if it has none.
        devices: the requested devices.
        rows: (K,) the rows that only this filter removes.
    """
    if topology is None:
        return []

    def passing(changed: GuestTopology, wanted: Sequence[DeviceDemand] = devices) -> Rows:
        winners: Rows = rows[hosts_with_hardware(hosts, changed, wanted, rows)]
        return winners

    return [
        Relaxation(
            filter=filter_name,
            subject=change.subject,
            text=f"{change.text}: {count_hosts(change.winners.size)}",
            hosts=int(change.winners.size),
            examples=example_names(hosts, change.winners),
        )
        for change in _changes(topology, devices, passing)
        if change.winners.size
    ]


@dataclass(frozen=True, slots=True)
class _Change:
    """One change of a topology, as text, and the rows that could then take the guest."""

    subject: str
    text: str
    winners: Rows


_Passing = Callable[..., Rows]


def _changes(
    topology: GuestTopology, devices: Sequence[DeviceDemand], passing: _Passing
) -> Iterator[_Change]:
    """Yield changes that may help, with the rows that could then take the guest."""
    if topology.thread_policy in (ThreadPolicy.REQUIRE, ThreadPolicy.ISOLATE):
        text = f"without the thread policy {topology.thread_policy}"
        yield _Change("thread policy", text, passing(replace(topology, thread_policy=None)))
    if topology.page_size is not None:
        yield _Change(
            "page size", "without a page size", passing(replace(topology, page_size=None))
        )
    if topology.isolates_emulator:
        bare = replace(topology, isolates_emulator=False)
        yield _Change("emulator threads", "without isolated emulator threads", passing(bare))
    if any(demand.numa_policy is not NumaPolicy.PREFERRED for demand in devices):
        anywhere = [replace(demand, numa_policy=NumaPolicy.PREFERRED) for demand in devices]
        yield _Change("devices", "with devices anywhere on the host", passing(topology, anywhere))


def why_no_devices(hosts: HostTable, demands: Sequence[DeviceDemand], row: int) -> str:
    """Return the requested devices that a row lacks, as text for operators."""
    here = np.array([row])
    reasons: list[str] = []
    for source in sources_of(hosts, demands):
        free, demand = int(usable_devices(hosts, source, here)[0]), source.demand
        if free < demand.count:
            reasons.append(f"{demand.alias}: {demand.count:,} requested, {free:,} free")
    names = ", ".join(sorted({demand.alias for demand in demands}))
    return "; ".join(reasons) or f"its devices do not suffice for all of {names} together"


def relax_devices(
    filter_name: str, hosts: HostTable, demands: Sequence[DeviceDemand], rows: Rows
) -> list[Relaxation]:
    """Return the single changes to the requested devices that would let some of the rows pass.

    Args:
        filter_name: the filter that removes the rows, for the relaxations.
        hosts: the table.
        demands: the requested devices.
        rows: (K,) the rows that only this filter removes.
    """
    sources = sources_of(hosts, demands)
    free = [usable_devices(hosts, source, rows) for source in sources]
    short = np.sum([one < s.demand.count for one, s in zip(free, sources, strict=True)], axis=0)
    found: list[Relaxation] = []
    for count, source in zip(free, sources, strict=True):
        demand = source.demand
        # A change of this demand helps only the hosts that lack devices for this demand alone.
        alone = (count < demand.count) & (short == 1)
        some = alone & (count > 0)
        if some.any():
            most = int(count[some].max())
            winners = rows[some & (count == most)]
            less = demand.count - most
            noun = "device" if less == 1 else "devices"
            found.append(
                Relaxation(
                    filter=filter_name,
                    subject=demand.alias,
                    text=f"{less:,} fewer {noun} of {demand.alias}: {count_hosts(winners.size)}",
                    hosts=int(winners.size),
                    change=-less,
                    examples=example_names(hosts, winners),
                )
            )
        what = f"the devices of {demand.alias}"
        found += without(filter_name, demand.alias, what, hosts, rows[alone & (count == 0)])
    return found


class CellShortage(NamedTuple):
    """Something that a NUMA cell lacks, as a share of the demand and as text."""

    share: float
    text: str


def nearest_shortage(
    cells: Sequence[FreeCell], demand: CellDemand, ratios: OvercommitRatios
) -> str:
    """Return, as text, the shortage of the NUMA cell that comes closest to meeting the demand."""
    lacks = [list(shortages_of(cell, demand, ratios)) for cell in cells]
    least = min(lacks, key=lambda one: (len(one), sum(lack.share for lack in one)))
    return " and ".join(lack.text for lack in least)


def shortages_of(
    cell: FreeCell, demand: CellDemand, ratios: OvercommitRatios
) -> Iterator[CellShortage]:
    """Yield the shortages of a NUMA cell for one guest cell; none if the guest cell fits."""
    if page_size(cell, demand) is None:
        yield _memory(cell, demand)
    if demand.floats and not floats(cell, demand, ratios):
        yield _shared(cell, demand, ratios)
    if demand.is_pinned and pin(cell, demand) is None:
        yield _dedicated(cell, demand)


def _memory(cell: FreeCell, demand: CellDemand) -> CellShortage:
    wanted_kb = demand.memory_mb * _KB_PER_MB
    if demand.page_size is None:
        short_kb = wanted_kb - free_kb(cell, demand)
        if short_kb > 0:
            noun = "free memory" if demand.is_pinned else "memory"
            return CellShortage(
                min(short_kb / max(wanted_kb, 1), 1.0), f"{_in_mb(short_kb)} more {noun}"
            )
        return CellShortage(1.0, f"memory in whole pages of {cell.shape.smallest_kb:,} KiB")
    wish = demand.page_size
    text = f"{wish} pages" if isinstance(wish, PageSizeClass) else f"pages of {wish:,} KiB"
    pages = allowed_pages(cell, demand)
    if not pages:
        return CellShortage(1.0, text)
    whole = [free for size, free in pages if not wanted_kb % size]
    if not whole:
        return CellShortage(1.0, f"memory in whole {text}")
    short_kb = wanted_kb - max(whole)
    return CellShortage(
        min(short_kb / max(wanted_kb, 1), 1.0), f"{_in_mb(short_kb)} more in free {text}"
    )


def _shared(cell: FreeCell, demand: CellDemand, ratios: OvercommitRatios) -> CellShortage:
    shape = cell.shape
    missing = demand.shared - shape.shared_cpus
    if missing > 0:
        return CellShortage(missing / demand.shared, f"{_cpus(missing, 'shared')}")
    over = cell.shared_used + demand.shared - shape.shared_cpus * ratios.cpus
    if over > 0:
        more = -int(-over // 1)
        text = f"room for {_cpus(more, 'shared')} within the CPU ratio {ratios.cpus:g}"
        return CellShortage(min(over / max(demand.shared, 1), 1.0), text)
    over_mb = cell.memory_used_mb + demand.memory_mb - shape.cell.memory_mb * ratios.memory
    more_mb = _in_mb(-int(-over_mb // 1) * _KB_PER_MB)
    text = f"room for {more_mb} within the memory ratio {ratios.memory:g}"
    return CellShortage(min(over_mb / max(demand.memory_mb, 1), 1.0), text)


def _dedicated(cell: FreeCell, demand: CellDemand) -> CellShortage:
    wanted = demand.dedicated + demand.emulator
    missing = wanted - cell.free_count
    if missing > 0:
        return CellShortage(missing / wanted, _cpus(missing, "free dedicated"))
    if demand.emulator and not demand.dedicated:
        return CellShortage(1.0, "a dedicated CPU in addition to the emulator's")
    if demand.threads is ThreadPolicy.ISOLATE:
        return CellShortage(0.5, f"{demand.dedicated} free cores with a single thread")
    if demand.threads is ThreadPolicy.REQUIRE:
        return CellShortage(0.5, f"{demand.dedicated} free dedicated CPUs that share cores")
    return CellShortage(0.5, f"{wanted} free dedicated CPUs that belong to reported cores")


def _cpus(count: int, kind: str) -> str:
    return f"{count:,} more {kind} {'CPU' if count == 1 else 'CPUs'}"


def _in_mb(amount_kb: int) -> str:
    return f"{-(-amount_kb // _KB_PER_MB):,} MB"
