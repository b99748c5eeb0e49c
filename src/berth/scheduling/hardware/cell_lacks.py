"""What a host cell lacks for a guest cell, in words for an operator."""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from berth.domain.hardware.guest_topology import PageSizeClass, ThreadPolicy
from berth.scheduling.hardware.cell_demand import CellDemand
from berth.scheduling.hardware.cell_fit import (
    OvercommitRatios,
    allowed_pages,
    floats,
    free_kb,
    page_size,
)
from berth.scheduling.hardware.pinning import pin
from berth.tables.host.cell_use import FreeCell

_KB_PER_MB = 1024


class CellShortage(NamedTuple):
    """One thing that is missing: how much as a share of what is asked, and in words."""

    share: float
    text: str


def nearest_lack(cells: Sequence[FreeCell], demand: CellDemand, ratios: OvercommitRatios) -> str:
    """Say what the cell lacks that lacks the least."""
    lacks = [list(lacks_of(cell, demand, ratios)) for cell in cells]
    least = min(lacks, key=lambda one: (len(one), sum(lack.share for lack in one)))
    return " and ".join(lack.text for lack in least)


def lacks_of(
    cell: FreeCell, demand: CellDemand, ratios: OvercommitRatios
) -> Iterator[CellShortage]:
    """Yield what one cell lacks for one guest cell; nothing when it fits."""
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
        return CellShortage(1.0, f"memory in whole pages of {cell.shape.smallest_kb:,} kB")
    wish = demand.page_size
    said = f"{wish} pages" if isinstance(wish, PageSizeClass) else f"pages of {wish:,} kB"
    pages = allowed_pages(cell, demand)
    if not pages:
        return CellShortage(1.0, said)
    whole = [free for size, free in pages if not wanted_kb % size]
    if not whole:
        return CellShortage(1.0, f"memory in whole {said}")
    short_kb = wanted_kb - max(whole)
    return CellShortage(
        min(short_kb / max(wanted_kb, 1), 1.0), f"{_in_mb(short_kb)} more in free {said}"
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
        return CellShortage(1.0, "a dedicated CPU of its own beside the emulator's")
    if demand.threads is ThreadPolicy.ISOLATE:
        return CellShortage(
            0.5, f"{demand.dedicated} cores without threads that are free as a whole"
        )
    if demand.threads is ThreadPolicy.REQUIRE:
        return CellShortage(0.5, f"{demand.dedicated} free dedicated CPUs that are siblings")
    return CellShortage(0.5, f"{wanted} free dedicated CPUs that belong to cores")


def _cpus(count: int, kind: str) -> str:
    return f"{count:,} more {kind} {'CPU' if count == 1 else 'CPUs'}"


def _in_mb(amount_kb: int) -> str:
    return f"{-(-amount_kb // _KB_PER_MB):,} MB"
