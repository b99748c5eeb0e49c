"""Guards and locks that keep a CPU or a device from being assigned to two instances.

The scheduler chooses which NUMA cells and devices of a host an instance gets, and the ledger does
not count single CPUs. Each placement with such a choice therefore carries a guard of its host
(docs/adr/0007-guards.md): the ledger rejects it as stale when another such placement was committed
on the host that the decision had not seen.
"""

import asyncio
from collections import OrderedDict, deque
from collections.abc import AsyncGenerator, Iterable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from weakref import WeakValueDictionary

from berth.domain.compute.decision import Placement
from berth.domain.ledger.write import Guard

# Bounds of the memory: the least recently used hosts, and the oldest commits of a host, are
# forgotten. Forgetting is safe: the guard then names an older version, and at worst a commit is
# rejected as stale and decided again.
_HOSTS_KEPT = 4096
_COMMITS_KEPT = 16


def hardware_guard(host_uuid: str) -> str:
    """Return the name of the guard of a host's NUMA cells and devices."""
    return f"hardware {host_uuid}"


def hosts_with_choices(placements: Iterable[Placement]) -> list[str]:
    """Return the uuids of the hosts on which cells or devices were chosen, sorted."""
    return sorted(
        {
            one.provider_uuid
            for one in placements
            if one.assignment is not None and (one.assignment.numa or one.assignment.devices)
        }
    )


class DeviceLocks:
    """Serializes this process's device placements on each host, and computes their guards.

    A process knows its own placements before the change feed reports them, because it holds them in
    the replica: of two concurrent decisions, the later one saw the hold of the earlier. A commit of
    this process must therefore not make its own next placement stale. Each committed guard proves
    that no other process committed between the version that it had seen and its own version. When
    such intervals connect to the version of a decision's table, the decision has seen everything up
    to their end.
    """

    def __init__(self) -> None:
        self._locks: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()
        self._own: OrderedDict[str, deque[tuple[int, int]]] = OrderedDict()

    @asynccontextmanager
    async def guards(
        self, placements: Iterable[Placement], table_version: int
    ) -> AsyncGenerator[list[Guard], None]:
        """Lock every host with choices, and yield the guards to commit under.

        Args:
            placements: the decision's placements; their instances must be held already.
            table_version: the version of the table that the decision was made on.
        """
        # The hosts are sorted, so two orders that lock several hosts cannot deadlock.
        hosts = hosts_with_choices(placements)
        async with AsyncExitStack() as turns:
            for host_uuid in hosts:
                # Weak values: a lock lives as long as an order that holds it or waits for it.
                lock = self._locks.setdefault(host_uuid, asyncio.Lock())
                await turns.enter_async_context(lock)
            names = [hardware_guard(host_uuid) for host_uuid in hosts]
            yield [Guard(name, self._seen(name, table_version)) for name in names]

    def note(self, guards: Sequence[Guard], version: int) -> None:
        """Record that a unit with these guards was committed as the given version."""
        for guard in guards:
            own = self._own.setdefault(guard.name, deque(maxlen=_COMMITS_KEPT))
            own.append((guard.seen, version))
            self._own.move_to_end(guard.name)
        while len(self._own) > _HOSTS_KEPT:
            self._own.popitem(last=False)

    def _seen(self, name: str, table_version: int) -> int:
        """Return the version up to which a decision has seen every commit under a guard."""
        seen = table_version
        for began, version in self._own.get(name, ()):
            # An interval that begins after `seen` leaves a gap, in which another process may have
            # committed.
            if began <= seen < version:
                seen = version
        return seen
