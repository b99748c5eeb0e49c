"""Hardware turns: no CPU and no device is given to two instances, whoever decides.

What an instance gets of a host's NUMA cells and devices is chosen by the scheduler, and the
ledger counts no single CPUs. So each placement that chooses some carries a guard of its host
(docs/adr/0007-guards.md): it is refused as stale when another such placement was committed there
that the decision did not know.
"""

import asyncio
from collections import OrderedDict, deque
from collections.abc import AsyncGenerator, Iterable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from weakref import WeakValueDictionary

from berth.domain.compute.decision import Placement
from berth.domain.ledger.write import Guard

_HOSTS_KEPT = 4096
_COMMITS_KEPT = 16


def hardware_guard(host_uuid: str) -> str:
    """Return the guard of a host's NUMA cells and devices."""
    return f"hardware {host_uuid}"


def hosts_with_choices(placements: Iterable[Placement]) -> list[str]:
    """Return the uuids of the hosts of which cells or devices were chosen, sorted."""
    return sorted(
        {
            one.provider_uuid
            for one in placements
            if one.assignment is not None and (one.assignment.numa or one.assignment.devices)
        }
    )


class DeviceLocks:
    """Has this process's placements on one host committed one after another, each under guard.

    A process knows its own placements before the feed tells them, as they are held: of two that
    are under way at once the later decision saw the earlier one's hold. So what it has committed
    itself must not make its next placement stale. Each committed guard says that nobody else
    committed between the version it had seen and its own; where such stretches join the version
    of a decision's table, the decision has seen all up to their end.
    """

    def __init__(self) -> None:
        self._locks: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()
        self._own: OrderedDict[str, deque[tuple[int, int]]] = OrderedDict()

    @asynccontextmanager
    async def guards(
        self, placements: Iterable[Placement], table_version: int
    ) -> AsyncGenerator[list[Guard], None]:
        """Wait for one's turn on every host, and give the guards to commit under meanwhile.

        Args:
            placements: what was decided; the instances must be held already.
            table_version: the version that it was decided on.
        """
        hosts = hosts_with_choices(placements)
        async with AsyncExitStack() as turns:
            for host_uuid in hosts:
                lock = self._locks.setdefault(host_uuid, asyncio.Lock())
                await turns.enter_async_context(lock)
            names = [hardware_guard(host_uuid) for host_uuid in hosts]
            yield [Guard(name, self._seen(name, table_version)) for name in names]

    def note(self, guards: Sequence[Guard], version: int) -> None:
        """Note that a unit with these guards was committed as that version."""
        for guard in guards:
            own = self._own.setdefault(guard.name, deque(maxlen=_COMMITS_KEPT))
            own.append((guard.seen, version))
            self._own.move_to_end(guard.name)
        while len(self._own) > _HOSTS_KEPT:
            self._own.popitem(last=False)

    def _seen(self, name: str, table_version: int) -> int:
        """Return the version up to which a decision has seen all under a guard."""
        seen = table_version
        for began, version in self._own.get(name, ()):
            if began <= seen < version:
                seen = version
        return seen
