"""The order of devices that keeps NUMA cells whole.

A cell is whole while all devices close to it are free. Guests that need all devices of a cell fit
on whole cells only, so other guests take devices of cells that are not whole, and of as few cells
as possible.
"""

from collections.abc import Iterable, Mapping, Sequence

from berth.tables.host.pci import FreePool


def whole_nodes(pools: Iterable[FreePool]) -> frozenset[int]:
    """Return the ids of the NUMA cells close to which all devices of a host are free."""
    counted = [
        (pool.kind.numa_node, pool.free == pool.pool.count)
        for pool in pools
        # Remotely managed devices are never given out, so they make no difference.
        if pool.pool.count and not pool.kind.is_remote
    ]
    broken = {node for node, is_free in counted if not is_free}
    return frozenset(node for node, _ in counted if node is not None and node not in broken)


def packed(
    usable: Sequence[FreePool], left: Mapping[str, int], wanted: int, values: Mapping[int, int]
) -> list[FreePool]:
    """Return the pools in an order that takes devices of as few whole cells as possible.

    Among equal orders, devices come from as few cells as possible, and from those with the fewest
    devices left. Within a cell, pools keep their order.

    Args:
        usable: the pools that may serve a demand, in order of use.
        left: the number of free devices of each pool, by pool key.
        wanted: the number of devices of the demand.
        values: the value of keeping each whole cell whole, by the cell's id.
    """
    room: dict[int | None, int] = {}
    for pool in usable:
        node = pool.kind.numa_node
        room[node] = room.get(node, 0) + left[pool.key]
    broken = {node: count for node, count in room.items() if node not in values}
    rest: dict[int | None, int] = {n: count for n, count in room.items() if n in values}
    missing = wanted - sum(broken.values())
    mixed = [*broken, *_fewest(rest, missing, values)]
    alone = [*_fewest(rest, wanted, values), *broken]
    if missing <= 0:
        order = [*_fewest(broken, wanted, values), *rest]
    elif any(count >= wanted for count in rest.values()):
        # A whole cell must be broken. If it has enough devices, no other cell is used, unless the
        # cells that are already broken allow a less valuable whole cell to be broken.
        first = mixed[len(broken)]
        order = mixed if values[first or 0] < values[alone[0] or 0] else alone
    else:
        order = mixed
    place = {node: number for number, node in enumerate(order)}
    return sorted(usable, key=lambda pool: place[pool.kind.numa_node])


def _fewest(
    room: Mapping[int | None, int], wanted: int, values: Mapping[int, int]
) -> list[int | None]:
    """Return cells in an order in which the fewest of them supply the wanted devices."""

    def value(node: int | None) -> int:
        return 0 if node is None else values.get(node, 0)

    order: list[int | None] = []
    left = dict(room)
    while left:
        enough = [node for node, count in left.items() if count >= wanted]
        # Once one cell suffices, the one with the fewest devices is taken, of the least valuable.
        if enough:
            best = min(enough, key=lambda node: (value(node), left[node]))
        else:
            best = max(left, key=lambda node: (left[node], -value(node)))
        order.append(best)
        wanted -= left.pop(best)
    return order
