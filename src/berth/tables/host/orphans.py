"""Strays: what the ledger has told of hosts that are not in the table (yet, or any more).

A feed may tell of an instance or a provider before its host, and a host may be removed and come
back while both stay. A table that forgot them would differ from one loaded from a snapshot.
"""

from collections import Counter
from dataclasses import dataclass

from berth.domain.inventory.provider import Provider
from berth.tables.host.occupants import Resident


@dataclass(frozen=True, slots=True)
class Stray:
    """An instance whose host is not in the table."""

    resident: Resident
    name: str
    node: str | None

    @property
    def uuid(self) -> str:
        """The instance."""
        return self.resident.uuid


class Strays:
    """Instances by the host name that they are on, and providers by uuid."""

    def __init__(self) -> None:
        self.providers: dict[str, Provider] = {}
        self._by_uuid: dict[str, Stray] = {}
        self._by_name: dict[str, dict[str, Stray]] = {}
        self._members: Counter[str] = Counter()
        self._moving: Counter[str] = Counter()

    def put(self, stray: Stray) -> None:
        """Keep an instance; it must not be there."""
        self._by_uuid[stray.uuid] = stray
        self._by_name.setdefault(stray.name, {})[stray.uuid] = stray
        if stray.resident.group_uuid is not None:
            self._members[stray.resident.group_uuid] += 1
            if stray.resident.is_move:
                self._moving[stray.resident.group_uuid] += 1

    def on(self, name: str) -> list[Stray]:
        """Return the instances that are on hosts of a name which are not here."""
        return list(self._by_name.get(name, {}).values())

    def get(self, uuid: str) -> Stray | None:
        """Return an instance on a host that is not here; None for any other."""
        return self._by_uuid.get(uuid)

    def has_member(self, group_uuid: str) -> bool:
        """Tell whether an instance of a server group is on a host that is not here."""
        return group_uuid in self._members

    def is_moving(self, group_uuid: str) -> bool:
        """Tell whether a member of a server group is on its way from or to such a host."""
        return group_uuid in self._moving

    def remove(self, uuid: str) -> None:
        """Forget an instance; one that is not there is no error."""
        stray = self._by_uuid.pop(uuid, None)
        if stray is None:
            return
        here = self._by_name[stray.name]
        del here[uuid]
        if not here:
            del self._by_name[stray.name]
        group_uuid = stray.resident.group_uuid
        if group_uuid is not None:
            _uncount(self._members, group_uuid)
            if stray.resident.is_move:
                _uncount(self._moving, group_uuid)

    def take(self, name: str, node: str) -> list[Stray]:
        """Return and forget the instances that are on a host."""
        here = self._by_name.get(name, {}).values()
        taken = [stray for stray in here if stray.node is None or stray.node == node]
        for stray in taken:
            self.remove(stray.uuid)
        return taken


def _uncount(counts: Counter[str], key: str) -> None:
    counts[key] -= 1
    if not counts[key]:
        del counts[key]
