"""Devices for competing demands: an assignment whenever there is one, whatever the order.

Demands and pools form a bipartite graph, and a maximum flow from demands to pools assigns devices.
A physical function and the functions at its address exclude each other, which a flow cannot
express: the search tries how many addresses of each sort serve as physical functions.
"""

from collections.abc import Iterator, Mapping, Sequence
from itertools import islice, pairwise, product
from typing import Final

from berth.domain.hardware.pci import DeviceType
from berth.tables.host.pci import SHARING, FreePool

MODES_MAX: Final = 4096
"""Maximum number of ways to use physical functions that are tried on one host."""

Flow = list[dict[int, int]]
"""For each demand, the number of devices that it takes of each pool, by index."""


def match_devices(
    pools: Sequence[FreePool], counts: Sequence[int], usable: Sequence[Sequence[int]]
) -> Flow | None:
    """Return the devices for all demands, or None if there is no assignment.

    Args:
        pools: the free devices of one host.
        counts: the number of devices of each demand.
        usable: for each demand, the indices of the pools that may serve it, the preferred ones
            first.
    """
    found = _flow([pool.free for pool in pools], counts, usable)
    if found is None or not _conflicts(pools, found):
        return found
    for free in islice(_modes(pools, usable), MODES_MAX):
        found = _flow(free, counts, usable)
        if found is not None:
            return found
    return None


def _flow(free: list[int], counts: Sequence[int], usable: Sequence[Sequence[int]]) -> Flow | None:
    left, flow = list(free), [dict[int, int]() for _ in counts]
    for demand, count in enumerate(counts):
        missing = count
        while missing:
            path = _path(demand, left, flow, usable)
            if path is None:
                return None
            missing -= _augment(path, left, flow, missing)
    return flow


def _path(
    demand: int, left: Sequence[int], flow: Flow, usable: Sequence[Sequence[int]]
) -> list[tuple[int, int]] | None:
    """Return the shortest way to one more device for a demand, or None.

    The result lists (demand, pool) pairs: each demand takes devices of the pool from the next
    demand, and the last one takes free devices.
    """
    came_from: dict[int, tuple[int, int]] = {}
    seen_pools: set[int] = set()
    queue = [demand]
    for taker in queue:
        for pool in usable[taker]:
            if pool in seen_pools:
                continue
            seen_pools.add(pool)
            if left[pool]:
                path = [(taker, pool)]
                while path[0][0] != demand:
                    path.insert(0, came_from[path[0][0]])
                return path
            for owner, taken in enumerate(flow):
                if owner != demand and owner not in came_from and taken.get(pool):
                    came_from[owner] = (taker, pool)
                    queue.append(owner)
    return None


def _augment(path: Sequence[tuple[int, int]], left: list[int], flow: Flow, most: int) -> int:
    """Take up to `most` devices along a path, and return how many."""
    given = [flow[owner][pool] for (_, pool), (owner, _) in pairwise(path)]
    amount = min(most, left[path[-1][1]], *given)
    left[path[-1][1]] -= amount
    for (taker, pool), following in zip(path, [*path[1:], None], strict=True):
        flow[taker][pool] = flow[taker].get(pool, 0) + amount
        if following is not None:
            flow[following[0]][pool] -= amount
    return amount


def _conflicts(pools: Sequence[FreePool], flow: Flow) -> bool:
    """Return whether a flow uses a physical function together with functions at its address."""
    used = {pool for taken in flow for pool, count in taken.items() if count}
    sides = {
        (pools[one].pool.address, pools[one].pool.dev_type is DeviceType.PHYSICAL)
        for one in used
        if pools[one].pool.address and pools[one].pool.dev_type in SHARING
    }
    return any((address, not physical) in sides for address, physical in sides)


def _modes(pools: Sequence[FreePool], usable: Sequence[Sequence[int]]) -> Iterator[list[int]]:
    """Yield the free devices of each pool for each way to use the addresses with a conflict.

    Addresses whose pools serve the same demands are interchangeable, so only the number of those
    that serve as physical functions matters.
    """
    groups = list(_alike(pools, usable).values())
    for numbers in product(*(range(len(group) + 1) for group in groups)):
        free = [pool.free for pool in pools]
        for group, physical in zip(groups, numbers, strict=True):
            for place, members in enumerate(group):
                for one in members:
                    is_physical = pools[one].pool.dev_type is DeviceType.PHYSICAL
                    if is_physical != (place < physical):
                        free[one] = 0
        yield free


def _alike(
    pools: Sequence[FreePool], usable: Sequence[Sequence[int]]
) -> Mapping[object, list[list[int]]]:
    """Return the pools at each address with a conflict, grouped by what they can serve."""
    at: dict[str, list[int]] = {}
    served = [set(one) for one in usable]
    for one, pool in enumerate(pools):
        is_served = any(one in demand for demand in served)
        if is_served and pool.free and pool.pool.address and pool.pool.dev_type in SHARING:
            at.setdefault(pool.pool.address, []).append(one)
    found: dict[object, list[list[int]]] = {}
    for members in at.values():
        sides = {pools[one].pool.dev_type is DeviceType.PHYSICAL for one in members}
        if len(sides) > 1:
            sort = tuple(
                (
                    pools[one].pool.dev_type is DeviceType.PHYSICAL,
                    pools[one].free,
                    tuple(one in demand for demand in served),
                )
                for one in members
            )
            found.setdefault(tuple(sorted(sort)), []).append(members)
    return found
