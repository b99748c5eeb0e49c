"""Guards and locks that keep a CPU or a device from being assigned to two instances.

The scheduler chooses which NUMA cells and devices of a host an instance gets, and the ledger does
not count single CPUs. Each placement with such a choice therefore carries a guard of its host
(docs/adr/0007-guards.md). The ledger rejects it as stale when another such placement, which the
decision had not seen, was committed on the host.
"""

import asyncio
from collections import OrderedDict, deque
from collections.abc import AsyncGenerator, Iterable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from weakref import WeakValueDictionary

from berth.domain.compute.decision import Placement
from berth.domain.ledger.write import Guard

# At most this many hosts, and commits of each host, are remembered; the least recent ones are
# forgotten. That is safe: a guard then names an older version, and at worst a commit is rejected as
# stale and decided again.
_HOSTS_KEPT = 4096
_COMMITS_KEPT = 16


def hardware_guard(host_uuid: str) -> str:
    """Return the name of the guard on a host's NUMA cells and devices."""
    return f"hardware {host_uuid}"


def hosts_with_choices(placements: Iterable[Placement]) -> list[str]:
    """Return the uuids of the hosts on which NUMA cells or devices were chosen, sorted."""
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
    the replica: of two concurrent decisions, the later one has seen the hold of the earlier one. A
    commit of this process must therefore not make its own next placement stale. Each committed
    guard proves that no other process committed under it between the version that it names and the
    version of its commit. When such intervals connect to the version of a decision's table, the
    decision has seen everything up to their end.
    """

    def __init__(self) -> None:
        self._locks: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()
        self._own: OrderedDict[str, deque[tuple[int, int]]] = OrderedDict()

    @asynccontextmanager
    async def guards(
        self, placements: Iterable[Placement], table_version: int
    ) -> AsyncGenerator[list[Guard], None]:
        """Lock every host on which NUMA cells or devices were chosen, and yield the guards.

        Args:
            placements: the decision's placements, whose instances must already be held.
            table_version: the version of the table that the decision was made on.
        """
        # The hosts are sorted, so two orders that lock several hosts cannot deadlock.
        hosts = hosts_with_choices(placements)
        async with AsyncExitStack() as turns:
            for host_uuid in hosts:
                # The dict is weak, so a lock lives as long as an order holds it or waits for it.
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
