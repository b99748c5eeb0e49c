"""The instances on each host, and counts by server group, flavor and image property."""

import warnings
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from berth.domain.hardware.assignment import Assignment
from berth.tables.host.image_counts import ImageCounts
from berth.tables.host.resident_columns import NO_ATTRIBUTES, Attributes, ResidentColumns


@dataclass(frozen=True, slots=True)
class Resident:
    """An instance on a host, or a migration that holds resources there, as rules see it.

    `is_move` is True for a migration; `uuid` is then that of the migration. `building` is True if
    the task of the instance puts load on the host's disks. `counts` is False for the other side of
    a resize on the same host, because the instance counts there already.
    """

    uuid: str
    group_uuid: str | None = None
    building: bool = False
    flavor_id: str = ""
    image_properties: Mapping[str, str] = field(default_factory=dict[str, str])
    assignment: Assignment | None = None
    is_move: bool = False
    counts: bool = True


class Occupant(NamedTuple):
    """A resident and the row that it is on."""

    resident: Resident
    row: int

    @property
    def uuid(self) -> str:
        """The uuid of the resident."""
        return self.resident.uuid

    @property
    def group_uuid(self) -> str | None:
        """The server group of the resident, or None."""
        return self.resident.group_uuid

    @property
    def building(self) -> bool:
        """Whether the task of the resident puts load on the host's disks."""
        return self.resident.building


class RowCounts:
    """Counts by key and row; a count of 0 has no entry."""

    def __init__(self) -> None:
        self._rows: dict[str, dict[int, int]] = {}

    def rows(self, key: str) -> dict[int, int]:
        """Return the count of each row, without rows of count 0."""
        return self._rows.get(key, {})

    def add(self, key: str, row: int, *, by: int = 1) -> None:
        """Add `by` to the count of a row; the result must not be negative."""
        if not by:
            return
        rows = self._rows.setdefault(key, {})
        rows[row] = rows.get(row, 0) + by
        if not rows[row]:
            del rows[row]
        if not rows:
            del self._rows[key]


class Occupants:
    """Instances by uuid and row, and members of server groups by row.

    Attributes:
        by_uuid: the instances.
        columns: the attributes of the instances.
        groups: the number of members of each server group on each row.
    """

    def __init__(self) -> None:
        self.by_uuid: dict[str, Occupant] = {}
        self.columns = ResidentColumns()
        self.groups = RowCounts()
        self._moving: Counter[str] = Counter()
        self._images = ImageCounts()
        self._flavors: RowCounts | None = None

    def on_row(self, row: int) -> frozenset[str]:
        """Return the uuids of the instances on a row."""
        return self.columns.uuids(row)

    def attributes(self, uuid: str) -> Attributes:
        """Return the attributes of an instance, or `NO_ATTRIBUTES` if it is on no row."""
        occupant = self.by_uuid.get(uuid)
        return NO_ATTRIBUTES if occupant is None else self.columns.attributes(occupant.row, uuid)

    def group_rows(self, group_uuid: str) -> dict[int, int]:
        """Deprecated: use `groups.rows`."""
        warnings.warn(
            "Occupants.group_rows is deprecated; use Occupants.groups.rows",
            DeprecationWarning,
            stacklevel=2,
        )
        return self.groups.rows(group_uuid)

    def is_moving(self, group_uuid: str) -> bool:
        """Return whether a member of the group is moving and is therefore counted on two hosts."""
        return group_uuid in self._moving

    def flavor_rows(self, flavor_id: str) -> dict[int, int]:
        """Return the number of instances of a flavor on each row, without rows that have none.

        The counts are made at the first call and updated from then on; few policies read them.
        """
        if self._flavors is None:
            self._flavors = RowCounts()
            for one in self.by_uuid.values():
                self._flavors.add(one.resident.flavor_id, one.row, by=one.resident.counts)
        return self._flavors.rows(flavor_id)

    def images(self, names: frozenset[str]) -> ImageCounts:
        """Return counts of instances by these image properties, or by all if `names` is empty.

        The counts are made at the first call and updated from then on; few policies read them.
        """
        if self._images.keep(names):
            found = self.by_uuid.values()
            self._images.add_all(
                (one.row, one.resident.image_properties) for one in found if one.resident.counts
            )
        return self._images

    def put(self, occupant: Occupant, attributes: Attributes = NO_ATTRIBUTES) -> None:
        """Add an instance, which must not be present yet."""
        resident, row = occupant
        self.by_uuid[resident.uuid] = occupant
        self.columns.put(
            row,
            resident.uuid,
            attributes,
            flavor_id=resident.flavor_id,
            counts=resident.counts,
        )
        if resident.group_uuid is not None:
            self.groups.add(resident.group_uuid, row)
            if resident.is_move:
                self._moving[resident.group_uuid] += 1
        if not resident.counts:
            return
        if self._images.is_kept:
            self._images.add(row, resident.image_properties)
        if self._flavors is not None:
            self._flavors.add(resident.flavor_id, row)

    def remove(self, uuid: str) -> Occupant | None:
        """Remove and return an instance, or return None if it is not present."""
        occupant = self.by_uuid.pop(uuid, None)
        if occupant is None:
            return None
        self.columns.remove(occupant.row, uuid)
        if occupant.group_uuid is not None:
            self.groups.add(occupant.group_uuid, occupant.row, by=-1)
            if occupant.resident.is_move:
                self._end_move(occupant.group_uuid)
        if not occupant.resident.counts:
            return occupant
        if self._images.is_kept:
            self._images.add(occupant.row, occupant.resident.image_properties, by=-1)
        if self._flavors is not None:
            self._flavors.add(occupant.resident.flavor_id, occupant.row, by=-1)
        return occupant

    def _end_move(self, group_uuid: str) -> None:
        self._moving[group_uuid] -= 1
        if not self._moving[group_uuid]:
            del self._moving[group_uuid]
