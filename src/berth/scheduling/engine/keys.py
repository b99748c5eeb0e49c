"""Hashable keys that cover everything that the rules of a policy read of a request."""

from collections.abc import Callable, Hashable, Iterable, Mapping
from dataclasses import fields, is_dataclass
from operator import attrgetter
from types import MappingProxyType, NoneType
from typing import Final, cast

from berth.domain.compute.flavor import Flavor, Image
from berth.domain.compute.needs import Needs
from berth.domain.compute.request import Request
from berth.domain.compute.server_group import GroupPolicy
from berth.scheduling.rules.aggregates import project_aggregates, zone_aggregates
from berth.scheduling.rules.rule import Filter, Query, Weigher
from berth.scheduling.rules.split_groups import is_split
from berth.tables.columnar.journal import GROUPS
from berth.tables.host.hosts import HostTable

KeyPart = Callable[[HostTable, Query], Hashable]
"""Takes (hosts, query) and returns one value that rules read of the query."""

_TIME: Final = "now_s"
_PLAIN: Final = (str, int, float, NoneType)

# The classes that dotted paths lead into.
_OWNERS: Final = MappingProxyType({"flavor": Flavor, "image": Image, "needs": Needs})


def paths_of(rules: Iterable[Filter | Weigher]) -> tuple[str, ...]:
    """Return the request paths that the rules read, sorted.

    The result leaves out `now_s` and any path that a shorter one covers.
    """
    every = {path for rule in rules for path in rule.reads.request if path != _TIME}
    return tuple(sorted(p for p in every if not any(p.startswith(f"{other}.") for other in every)))


def parts_of(paths: Iterable[str]) -> tuple[KeyPart, ...]:
    """Return a reader for each path (see `Reads.request`)."""
    return tuple(_part_of(path) for path in paths)


def _part_of(path: str) -> KeyPart:
    special = _SPECIAL.get(path)
    if special is not None:
        return special
    root, _, rest = path.partition(".")
    if root == "needs" and rest:
        read = attrgetter(rest)
        return lambda _, query: frozen(read(query.needs))
    if root == "hints" and rest:
        return lambda _, query: query.request.hints.get(rest)
    if root == "metadata" and rest:
        return lambda _, query: query.request.metadata.get(rest)
    if root == "image" and rest:
        of_image = attrgetter(rest)
        return lambda _, query: frozen(
            None if query.request.image is None else of_image(query.request.image)
        )
    of_request = attrgetter(path)
    return lambda _, query: frozen(of_request(query.request))


def _row_of_instance(hosts: HostTable, query: Query) -> Hashable:
    """Return the row that the instance is on, or None; rules use its uuid only to find that row."""
    occupant = hosts.occupants.by_uuid.get(query.instance_uuid)
    return None if occupant is None else occupant.row


def _instance_attributes(hosts: HostTable, query: Query) -> Hashable:
    """Return the row and the attributes of the query's instance, or None if it is on no row."""
    occupant = hosts.occupants.by_uuid.get(query.instance_uuid)
    if occupant is None:
        return None
    resident, attributes = occupant.resident, hosts.occupants.attributes(occupant.uuid)
    return occupant.row, resident.flavor_id, resident.counts, frozen(attributes)


def _group_rows(hosts: HostTable, query: Query) -> Hashable:
    """Return the rows of an affinity group's members and two flags; None for any other request.

    The flags are: whether a member is on a missing host, and whether the group is split.

    Only affinity compares rows of members with each other. Under any other policy a rule reads each
    row by itself, the journal reports its changes, and the key need not contain the rows.
    """
    group = query.group
    if group is None or group.policy is not GroupPolicy.AFFINITY:
        return None
    rows = frozenset(hosts.occupants.groups.rows(group.uuid))
    return rows, hosts.orphans.has_member(group.uuid), is_split(hosts, group.uuid)


_SPECIAL: Mapping[str, KeyPart] = {
    "group": lambda _, query: query.group,
    "group_rows": _group_rows,
    "instance_attributes": _instance_attributes,
    "instance_uuid": _row_of_instance,
    "project_aggregates": project_aggregates,
    "zone_aggregates": zone_aggregates,
}


def unknown_reads(rule: Filter | Weigher) -> tuple[str, ...]:
    """Return the request paths and column groups of a rule's `Reads` that do not exist."""
    columns = (group for group in rule.reads.columns if group not in GROUPS)
    return (*(path for path in rule.reads.request if not _exists(path)), *columns)


def _exists(path: str) -> bool:
    head, _, tail = path.partition(".")
    if path == _TIME or path in _SPECIAL or (head in {"hints", "metadata"} and tail):
        return True
    owner = _OWNERS.get(head) if tail else Request
    return owner is not None and (tail or head) in {one.name for one in fields(owner)}


def frozen(value: object) -> Hashable:
    """Return a hashable form of a value.

    Two values of one type have equal forms if and only if they are equal.

    Raises:
        TypeError: a part of the value has no hashable form.
    """
    if value is None or isinstance(value, _PLAIN):
        return value
    if isinstance(value, list | tuple):
        return tuple([frozen(one) for one in cast("list[object]", value)]) if value else ()
    if isinstance(value, Mapping):
        items = cast("Mapping[Hashable, object]", value).items()
        return frozenset((key, frozen(one)) for key, one in items)
    if is_dataclass(value):
        return tuple(frozen(getattr(value, one.name)) for one in fields(value))
    hash(value)
    return value
