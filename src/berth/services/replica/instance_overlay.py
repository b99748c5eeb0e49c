"""The instance overlay: the hosts whose instances are reported by their agents, not by the feed.

Instances on these hosts change only by `put` and `remove`. The feed still reports usage. Of its
events about instances, only those of this process's own claims matter: a claimed instance stays in
the table as *expected* until an agent reports it.
"""

from collections.abc import Callable, Iterator, Mapping

from berth.tables.host.feed import put_located
from berth.tables.host.hosts import HostTable
from berth.tables.host.occupants import Resident
from berth.tables.host.orphans import LocatedResident
from berth.tables.host.resident_columns import Attributes


class InstanceOverlay:
    """Instances in a host table that come from agents instead of the change feed.

    Args:
        is_held: returns whether an instance is in the table only because this process holds it.

    Attributes:
        hosts: names of the hosts whose instances the feed does not report; mostly none.
        outdated: the hosts that lost an instance to another host, by name, with the version at
            which they lost it. Agents' lists from before that version are out of date. The instance
            tracker removes the entries.
    """

    def __init__(self, is_held: Callable[[str], bool]) -> None:
        self.hosts: set[str] = set()
        self.outdated: dict[str, int] = {}
        self._is_held = is_held
        # The instances of this process's claims that no agent has reported yet, each with the
        # version of its claim.
        self._expected: dict[str, int] = {}

    def forget(self) -> None:
        """Empty the overlay: the feed reports the instances of all hosts again."""
        self.hosts.clear()
        self.outdated.clear()
        self._expected.clear()

    def ignores_event(self, hosts: HostTable, uuid: str, located: LocatedResident | None) -> bool:
        """Return whether the caller must ignore an event of the feed.

        If the event moves an instance from a host that the feed reports to one that an agent
        reports, this method removes it from the former host. If the event moves it from a host that
        an agent reports to one that the feed reports, this method notes the loss in `outdated`.

        Args:
            hosts: the table.
            uuid: the uuid of the instance or migration.
            located: the host on which the event puts it, or None for no host.
        """
        before = place_of(hosts, uuid)
        if located is None:
            return before in self.hosts
        if located.name not in self.hosts:
            # The feed reports the new host, so its event is applied. The agent of the host that
            # lost the instance still lists it until its next report.
            self._note_loss(before, located.name, hosts.version)
            return False
        if before is not None and before not in self.hosts and not self._is_held(uuid):
            hosts.remove_instance(uuid)
        return True

    def expect(self, hosts: HostTable, located: LocatedResident) -> None:
        """Put a claimed instance back into the table after the feed has delivered the claim.

        The instance stays there as expected until an agent reports it. If the table already has the
        instance on a host, nothing changes.
        """
        if place_of(hosts, located.uuid) is None:
            put_located(hosts, located)
            self._expected[located.uuid] = hosts.version

    def residents_on(self, hosts: HostTable, name: str, version: int) -> dict[str, Resident]:
        """Return the residents of a host by uuid, without those that are there only as holds.

        Claims up to the given version are no longer expected afterwards.

        Args:
            hosts: the table.
            name: the name of the host.
            version: the ledger version of the agent's list; newer claims are left out.
        """
        found: dict[str, Resident] = {}
        for resident in _residents(hosts, name):
            uuid = resident.uuid
            if self._expected:
                # The agent made its list before this claim was committed, so the instance cannot be
                # in it.
                if self._expected.get(uuid, 0) > version:
                    continue
                self._expected.pop(uuid, None)
            if not self._is_held(uuid):
                found[uuid] = resident
        return found

    def put(self, hosts: HostTable, located: LocatedResident, version: int) -> None:
        """Put an instance on the host where its agent reported it at a version.

        A newer claim of this process takes precedence.
        """
        if not self._is_ours(located.uuid, version):
            self._expected.pop(located.uuid, None)
            self._note_loss(place_of(hosts, located.uuid), located.name, version)
            put_located(hosts, located)

    def remove(self, hosts: HostTable, uuid: str, name: str, version: int) -> None:
        """Remove an instance from a host.

        Nothing happens if the table has the instance on another host, or if this process has
        claimed it later.

        Args:
            hosts: the table.
            uuid: the instance.
            name: the name of the host.
            version: the ledger version of the list that lacks the instance.
        """
        if place_of(hosts, uuid) == name and not self._is_ours(uuid, version):
            self._expected.pop(uuid, None)
            hosts.remove_instance(uuid)

    def _note_loss(self, before: str | None, now: str, version: int) -> None:
        if before is not None and before != now and before in self.hosts:
            self.outdated[before] = max(version, self.outdated.get(before, 0))

    def _is_ours(self, uuid: str, version: int) -> bool:
        return self._is_held(uuid) or self._expected.get(uuid, 0) > version


def place_of(hosts: HostTable, uuid: str) -> str | None:
    """Return the name of the host that an instance is on, or None if it is on no host."""
    occupant = hosts.occupants.by_uuid.get(uuid)
    if occupant is not None:
        return hosts.name(occupant.row)
    located = hosts.orphans.by_uuid.get(uuid)
    return None if located is None else located.name


def with_attributes(
    hosts: HostTable, residents: Mapping[str, Resident]
) -> Iterator[tuple[Resident, Attributes]]:
    """Yield each of the residents, which are given by uuid, with its attributes in the table."""
    for uuid, resident in residents.items():
        located = hosts.orphans.by_uuid.get(uuid)
        known = hosts.occupants.attributes(uuid) if located is None else located.attributes
        yield resident, known


def _residents(hosts: HostTable, name: str) -> Iterator[Resident]:
    for row in hosts.host_names.of_name(name):
        for uuid in hosts.occupants.on_row(row):
            occupant = hosts.occupants.by_uuid.get(uuid)
            if occupant is not None:
                yield occupant.resident
    for located in hosts.orphans.on(name):
        yield located.resident
