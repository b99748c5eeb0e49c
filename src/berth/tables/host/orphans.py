"""Strays: what the ledger has told of hosts that are not in the table (yet, or any more).

A feed may tell of an instance or a provider before its host, and a host may be removed and come
back while both stay. A table that forgot them would differ from one loaded from a snapshot.
"""

from collections import Counter
from dataclasses import dataclass

from berth.domain.inventory.provider import Provider
from berth.tables.host.occupants import Resident


@dataclass(frozen=True, slots=True)
class LocatedResident:
    """An instance whose host is not in the table."""

    resident: Resident
    name: str
    node: str | None

    @property
    def uuid(self) -> str:
        """The instance."""
        return self.resident.uuid


class Orphans:
    """Instances by the host name that they are on, and providers by uuid."""

    def __init__(self) -> None:
        self.providers: dict[str, Provider] = {}
        self.by_uuid: dict[str, LocatedResident] = {}
        self._by_name: dict[str, dict[str, LocatedResident]] = {}
        self._members: Counter[str] = Counter()
        self._moving: Counter[str] = Counter()

    def put(self, located: LocatedResident) -> None:
        """Keep an instance; it must not be there."""
        self.by_uuid[located.uuid] = located
        self._by_name.setdefault(located.name, {})[located.uuid] = located
        if located.resident.group_uuid is not None:
            self._members[located.resident.group_uuid] += 1
            if located.resident.is_move:
                self._moving[located.resident.group_uuid] += 1

    def on(self, name: str) -> list[LocatedResident]:
        """Return the instances that are on hosts of a name which are not here."""
        return list(self._by_name.get(name, {}).values())

    def has_member(self, group_uuid: str) -> bool:
        """Tell whether an instance of a server group is on a host that is not here."""
        return group_uuid in self._members

    def is_moving(self, group_uuid: str) -> bool:
        """Tell whether a member of a server group is on its way from or to such a host."""
        return group_uuid in self._moving

    def remove(self, uuid: str) -> None:
        """Forget an instance; one that is not there is no error."""
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
        """Return and forget the instances that are on a host."""
        here = self._by_name.get(name, {}).values()
        taken = [located for located in here if located.node is None or located.node == node]
        for located in taken:
            self.remove(located.uuid)
        return taken


def _uncount(counts: Counter[str], key: str) -> None:
    counts[key] -= 1
    if not counts[key]:
        del counts[key]
