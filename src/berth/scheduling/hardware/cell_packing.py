"""The choice of NUMA cells and devices that keeps cells whole.

A whole cell has devices close to it, and all of them are free. Guests that need all devices of a
cell fit on whole cells only, so packing gives every other guest what is left of cells in use.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

from berth.domain.hardware.assignment import DeviceShare
from berth.scheduling.hardware.device_packing import whole_nodes
from berth.scheduling.hardware.matching import covers
from berth.tables.host.cell_use import FreeCell
from berth.tables.host.pci import FreePool

_WHOLE: Final = 1
_UNTOUCHED: Final = 2


class CellChoice(NamedTuple):
    """The NUMA cells that must and that may be used, as bits by position, and the devices."""

    required: int
    allowed: int
    devices: tuple[DeviceShare, ...]


@dataclass(frozen=True, slots=True)
class Packing:
    """The cells to keep whole, and which of the others to use.

    `values` are those of `cell_values`; `order` contains the positions of the cells, the preferred
    ones first and the most valuable ones last.
    """

    values: Mapping[int, int]
    order: Sequence[int]


def cell_values(cells: Sequence[FreeCell], pools: Sequence[FreePool]) -> dict[int, int]:
    """Return the value of keeping each whole NUMA cell whole, by the id of the cell.

    The value is 2 for a whole cell that no guest uses, and 1 for any other. Cells that are not
    whole have none, because no guest with all their devices can use them any more.
    """
    whole = whole_nodes(pools)

    def value(cell: FreeCell) -> int:
        is_pinned = cell.free_count < len(cell.shape.cell.pcpuset)
        return _WHOLE if is_pinned or cell.shared_used or cell.memory_used_mb else _UNTOUCHED

    return {cell.cell_id: value(cell) for cell in cells if cell.cell_id in whole}


def best_choice(
    cells: Sequence[FreeCell],
    pools: Sequence[FreePool],
    masks: Sequence[int],
    packing: Packing,
    choices: Iterable[CellChoice],
) -> CellChoice | None:
    """Return the choice that leaves the most cells whole, or None if there is no choice.

    Devices whose distance is known come first: a choice with fewer of them close to other cells is
    better. The cells that the result allows are reduced to those that it needs.

    Args:
        cells: the host's NUMA cells.
        pools: the free devices.
        masks: for each guest cell, the NUMA cells that it fits on, as bits by position.
        packing: the cells to keep whole.
        choices: the feasible choices.
    """
    node_of = {pool.key: pool.kind.numa_node for pool in pools}
    values = [packing.values.get(cell.cell_id, 0) for cell in cells]
    rank = {place: number for number, place in enumerate(packing.order)}

    def cost(choice: CellChoice) -> tuple[int, ...]:
        used = [place for place in range(len(cells)) if choice.required >> place & 1]
        near = {cells[place].cell_id for place in used}
        nodes = [(node_of[share.pool], share.count) for share in choice.devices]
        far = sum(count for node, count in nodes if node is not None and node not in near)
        broken = {node for node, _ in nodes if node in packing.values}
        touched = broken | {
            cell.cell_id for place, cell in enumerate(cells) if choice.allowed >> place & 1
        }
        fresh = sum(
            value == _UNTOUCHED for node, value in packing.values.items() if node in touched
        )
        return (far, len(broken), fresh, *sorted(rank[place] for place in used))

    reduced = (_reduced(choice, masks, values, packing.order) for choice in choices)
    return min(reduced, key=cost, default=None)


def _reduced(
    choice: CellChoice, masks: Sequence[int], values: Sequence[int], order: Sequence[int]
) -> CellChoice:
    """Return the choice without the valuable cells that the guest can do without."""
    allowed = choice.allowed
    # The most valuable cells are the last ones of the order. Sets of cells that guests can occupy
    # form a matroid, so dropping them one by one leaves as few of them as possible.
    for place in reversed(order):
        bit = 1 << place
        if not values[place] or not allowed & bit or choice.required & bit:
            continue
        if covers([mask & allowed & ~bit for mask in masks], choice.required):
            allowed &= ~bit
    return choice._replace(allowed=allowed)
