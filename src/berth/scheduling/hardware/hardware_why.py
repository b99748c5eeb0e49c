"""Why a host's NUMA cells cannot take a guest, and what would make them."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

from berth.domain.compute.decision import Relaxation
from berth.domain.hardware.guest_topology import (
    GuestCell,
    GuestTopology,
    PageSizeClass,
    ThreadPolicy,
)
from berth.domain.hardware.pci import NumaPolicy
from berth.scheduling.hardware.cell_demand import demands_of
from berth.scheduling.hardware.cell_fit import OvercommitRatios, fit_cell
from berth.scheduling.hardware.cell_lacks import nearest_lack
from berth.scheduling.hardware.device_fit import DeviceDemand
from berth.scheduling.hardware.hardware_masks import hosts_with_hardware
from berth.scheduling.hardware.matching import is_matchable
from berth.scheduling.rules.rule import count_hosts, example_names
from berth.tables.columnar.bitsets import Rows
from berth.tables.host.hosts import HostTable

_KB_PER_MB = 1024


def why_no_hardware(
    hosts: HostTable,
    topology: GuestTopology | None,
    devices: Sequence[DeviceDemand],
    row: int,
) -> str:
    """Say what a row lacks, in words for an operator."""
    cells = hosts.numa.cells(row)
    if topology is None or not cells:
        return "it reports no NUMA cells"
    asked = len(topology.cells)
    if asked > len(cells):
        return f"{asked} NUMA cells asked, it has {len(cells)}"
    ratios = OvercommitRatios.of(hosts, row)
    masks: list[int] = []
    for number, (guest, demand) in enumerate(
        zip(topology.cells, demands_of(topology), strict=True)
    ):
        fitting = [fit_cell(cell, demand, guest, ratios) is not None for cell in cells]
        if not any(fitting):
            who = f"guest cell {number} needs" if asked > 1 else "needs"
            return f"{who} {nearest_lack(cells, demand, ratios)} on one NUMA cell"
        masks.append(sum(1 << place for place, fits in enumerate(fitting) if fits))
    if topology.wants_threads and all(cell.shape.threads <= 1 for cell in cells):
        return "none of its cores has several threads, which the image requires"
    if not is_matchable(masks):
        return f"its NUMA cells have room for each of the {asked} guest cells, but not for all"
    names = ", ".join(sorted({demand.alias for demand in devices}))
    return f"no NUMA cells with room have the devices ({names}) near enough"


def relax_hardware(
    filter_name: str,
    hosts: HostTable,
    topology: GuestTopology | None,
    devices: Sequence[DeviceDemand],
    rows: Rows,
) -> list[Relaxation]:
    """Return the single changes to a topology that let some of the rows take it."""
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
            change=change.amount,
            examples=example_names(hosts, change.winners),
        )
        for change in _changes(topology, devices, passing)
        if change.winners.size
    ]


@dataclass(frozen=True, slots=True)
class _Change:
    """One change of a topology, in words, and the rows that would take it then."""

    subject: str
    text: str
    winners: Rows
    amount: int | None = None


_Passing = Callable[..., Rows]
_Shrink = Callable[[int], GuestTopology]


def _changes(
    topology: GuestTopology, devices: Sequence[DeviceDemand], passing: _Passing
) -> Iterator[_Change]:
    """Yield changes that may help, with the rows that they win."""
    for subject, noun, shrink, largest, step in _amounts(topology):

        def works(times: int, shrink: _Shrink = shrink, step: int = step) -> bool:
            return passing(shrink(times * step)).size > 0

        less = _least(works, largest // step)
        if less:
            amount = less * step
            where = " in every guest cell" if len(topology.cells) > 1 else ""
            what = noun.removesuffix("s") if amount == 1 else noun
            yield _Change(subject, f"{amount:,} {what}{where}", passing(shrink(amount)), -amount)
    if topology.thread_policy in (ThreadPolicy.REQUIRE, ThreadPolicy.ISOLATE):
        said = f"without the thread policy {topology.thread_policy}"
        yield _Change("thread policy", said, passing(replace(topology, thread_policy=None)))
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


_Amount = tuple[str, str, _Shrink, int, int]


def _amounts(topology: GuestTopology) -> Iterator[_Amount]:
    """Yield what may be asked less of: subject, words, how, most, and in steps of how much."""
    cells = topology.cells

    def with_cells(change: Callable[[GuestCell], GuestCell]) -> GuestTopology:
        return replace(topology, cells=tuple(change(cell) for cell in cells))

    def fewer_dedicated(less: int) -> GuestTopology:
        return with_cells(lambda c: replace(c, dedicated_cpus=_fewer(c.dedicated_cpus, less)))

    def fewer_shared(less: int) -> GuestTopology:
        return with_cells(lambda c: replace(c, shared_cpus=_fewer(c.shared_cpus, less)))

    def less_memory(less: int) -> GuestTopology:
        return with_cells(lambda c: replace(c, memory_mb=max(c.memory_mb - less, 0)))

    dedicated = max(len(cell.dedicated_cpus) for cell in cells)
    shared = max(len(cell.shared_cpus) for cell in cells)
    memory_mb = max(cell.memory_mb for cell in cells)
    yield "dedicated CPUs", "fewer dedicated CPUs", fewer_dedicated, max(dedicated - 1, 0), 1
    yield "shared CPUs", "fewer shared CPUs", fewer_shared, max(shared - 1, 0), 1
    step = -(-topology.page_size // _KB_PER_MB) if isinstance(topology.page_size, int) else 1
    if (
        isinstance(topology.page_size, PageSizeClass)
        and topology.page_size is not PageSizeClass.SMALL
    ):
        step = 2  # megabytes: the size of the smallest huge pages that are in use
    yield "memory", "MB less memory", less_memory, max(memory_mb - step, 0), step


def _fewer(cpus: frozenset[int], less: int) -> frozenset[int]:
    return frozenset(sorted(cpus)[: max(len(cpus) - less, 0)])


def _least(works: Callable[[int], bool], most: int) -> int:
    """Return the least number from 1 to `most` that works, 0 for none; more always works too."""
    if most < 1 or not works(most):
        return 0
    low, high = 1, most
    while low < high:
        middle = (low + high) // 2
        if works(middle):
            high = middle
        else:
            low = middle + 1
    return low
