"""Instances and providers whose host is not in the table.

The change feed may deliver an instance or a provider before its host, and a host may be removed and
added again while its instances and its provider stay in the ledger. A table that dropped them would
differ from one that is loaded from a snapshot.
"""

from collections import Counter
from dataclasses import dataclass

from berth.domain.inventory.provider import Provider
from berth.tables.host.occupants import Resident
from berth.tables.host.resident_columns import NO_ATTRIBUTES, Attributes


@dataclass(frozen=True, slots=True)
class LocatedResident:
    """A resident, the name of its host, its node (None if unknown), and its attributes."""

    resident: Resident
    name: str
    node: str | None
    attributes: Attributes = NO_ATTRIBUTES

    @property
    def uuid(self) -> str:
        """The uuid of the resident."""
        return self.resident.uuid


class Orphans:
    """Instances and root providers whose host is not in the table.

    Attributes:
        providers: root providers whose host is not in the table, by uuid.
        by_uuid: the instances, by uuid.
    """

    def __init__(self) -> None:
        self.providers: dict[str, Provider] = {}
        self.by_uuid: dict[str, LocatedResident] = {}
        self._by_name: dict[str, dict[str, LocatedResident]] = {}
        self._members: Counter[str] = Counter()
        self._moving: Counter[str] = Counter()

    def put(self, located: LocatedResident) -> None:
        """Add an instance, which must not be present yet."""
        self.by_uuid[located.uuid] = located
        self._by_name.setdefault(located.name, {})[located.uuid] = located
        if located.resident.group_uuid is not None:
            self._members[located.resident.group_uuid] += 1
            if located.resident.is_move:
                self._moving[located.resident.group_uuid] += 1

    def on(self, name: str) -> list[LocatedResident]:
        """Return the instances whose missing host has the given name."""
        return list(self._by_name.get(name, {}).values())

    def has_member(self, group_uuid: str) -> bool:
        """Return whether a member of a server group is on a missing host."""
        return group_uuid in self._members

    def is_moving(self, group_uuid: str) -> bool:
        """Return whether a member of a server group is moving from or to a missing host."""
        return group_uuid in self._moving

    def remove(self, uuid: str) -> None:
        """Remove an instance; an unknown uuid is ignored."""
        located = self.by_uuid.pop(uuid, None)
        if located is None:
            return
        here = self._by_name[located.name]
        del here[uuid]
        if not here:
            del self._by_name[located.name]
        group_uuid = located.resident.group_uuid
        if group_uuid is not None:
            _uncount(self._members, group_uuid)
            if located.resident.is_move:
                _uncount(self._moving, group_uuid)

    def take(self, name: str, node: str) -> list[LocatedResident]:
        """Remove and return the instances of a host that is being added."""
        here = self._by_name.get(name, {}).values()
        # An instance without a recorded node belongs to any node of its host.
        taken = [located for located in here if located.node is None or located.node == node]
        for located in taken:
            self.remove(located.uuid)
        return taken


def _uncount(counts: Counter[str], key: str) -> None:
    counts[key] -= 1
    if not counts[key]:
        del counts[key]
