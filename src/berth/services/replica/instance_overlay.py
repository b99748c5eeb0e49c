"""Beside the feed: hosts of which agents tell what instances they have, and the feed does not.

What becomes of instances there comes by `put` and `remove` alone. The feed still tells what is
used, so of its events about instances only those of claims of this process matter: their
instances stay in the table as *expected* until an agent tells of them.
"""

from collections.abc import Callable, Iterator

from berth.tables.host.feed import put_located
from berth.tables.host.hosts import HostTable
from berth.tables.host.occupants import Resident
from berth.tables.host.orphans import LocatedResident


class InstanceOverlay:
    """Instances that a host table has from elsewhere than the change feed.

    Args:
        is_held: tells whether an instance is in the table by a hold of this process alone.

    Attributes:
        hosts: names of the hosts whose instances the feed does not tell; mostly none.
        outdated: those that lost an instance to another host, and the versions at which they had
            lost it: their lists are older, and have changed since. Whoever tracks empties it.
    """

    def __init__(self, is_held: Callable[[str], bool]) -> None:
        self.hosts: set[str] = set()
        self.outdated: dict[str, int] = {}
        self._is_held = is_held
        self._expected: dict[str, int] = {}
        """Instances of own claims that no agent has told of yet, and the versions of the claims."""

    def forget(self) -> None:
        """Have the feed tell of all hosts again."""
        self.hosts.clear()
        self.outdated.clear()
        self._expected.clear()

    def ignores_event(self, hosts: HostTable, uuid: str, located: LocatedResident | None) -> bool:
        """Tell whether an event of the feed is to change nothing.

        An instance that leaves a host of which the feed tells is taken off it all the same.

        Args:
            hosts: the table.
            uuid: of the instance, or the move.
            located: where the event has it; None for nowhere.
        """
        before = place_of(hosts, uuid)
        if located is None:
            return before in self.hosts
        if located.name not in self.hosts:
            self._note_loss(before, located.name, hosts.version)
            return False
        if before is not None and before not in self.hosts and not self._is_held(uuid):
            hosts.remove_instance(uuid)
        return True

    def expect(self, hosts: HostTable, located: LocatedResident) -> None:
        """Keep the instance of a claim of this process that the feed has told of now."""
        if place_of(hosts, located.uuid) is None:
            put_located(hosts, located)
            self._expected[located.uuid] = hosts.version

    def residents_on(self, hosts: HostTable, name: str, version: int) -> dict[str, Resident]:
        """Return the list of a host: what the table has there by more than claims of its own.

        Args:
            hosts: the table.
            name: of the host.
            version: of the ledger that the list is to be compared at; claims that are newer do
                not count.
        """
        found: dict[str, Resident] = {}
        for resident in _residents(hosts, name):
            uuid = resident.uuid
            if self._expected:
                if self._expected.get(uuid, 0) > version:
                    continue
                self._expected.pop(uuid, None)
            if not self._is_held(uuid):
                found[uuid] = resident
        return found

    def put(self, hosts: HostTable, located: LocatedResident, version: int) -> None:
        """Note an instance on a host as somebody told of it at a version; own claims are newer."""
        if not self._is_ours(located.uuid, version):
            self._expected.pop(located.uuid, None)
            self._note_loss(place_of(hosts, located.uuid), located.name, version)
            put_located(hosts, located)

    def remove(self, hosts: HostTable, uuid: str, name: str, version: int) -> None:
        """Note that an instance is not on a host any more; elsewhere it stays."""
        if place_of(hosts, uuid) == name and not self._is_ours(uuid, version):
            self._expected.pop(uuid, None)
            hosts.remove_instance(uuid)

    def _note_loss(self, before: str | None, now: str, version: int) -> None:
        if before is not None and before != now and before in self.hosts:
            self.outdated[before] = max(version, self.outdated.get(before, 0))

    def _is_ours(self, uuid: str, version: int) -> bool:
        return self._is_held(uuid) or self._expected.get(uuid, 0) > version


def place_of(hosts: HostTable, uuid: str) -> str | None:
    """Return the name of the host that an instance is on; None for nowhere."""
    occupant = hosts.occupants.by_uuid.get(uuid)
    if occupant is not None:
        return hosts.name(occupant.row)
    located = hosts.orphans.by_uuid.get(uuid)
    return None if located is None else located.name


def _residents(hosts: HostTable, name: str) -> Iterator[Resident]:
    for row in hosts.rows_of_name(name):
        for uuid in hosts.occupants.on_row(row):
            occupant = hosts.occupants.by_uuid.get(uuid)
            if occupant is not None:
                yield occupant.resident
    for located in hosts.orphans.on(name):
        yield located.resident
