"""Sorts server lists by Nova's sort keys."""

from collections.abc import Callable, Iterable, Sequence
from typing import Final, cast

from berth.api.compute.views.servers import ServerWriter, extra_of, power_state
from berth.api.routing import Call
from berth.domain.compute.instance import Instance, hostname_of
from berth.domain.errors import InvalidInputError, NotFoundError
from berth.services.requests.permissions import LOCKED, vm_state

_Value = str | float | None
_Read = Callable[[Instance], _Value]
# A function that returns the value to compare, and whether the order is descending.
_Part = tuple[_Read, bool]

SORTED_MAX: Final = 50_000
"""The maximum number of servers in a list that does not have the ledger's order.

Each page of such a list reads and sorts all servers.
"""

_NEWEST_FIRST: Final = (("created_at", True), ("uuid", True))
_DIRECTIONS: Final = {"asc": False, "desc": True}
_FOR_ADMINISTRATORS: Final = frozenset({"host", "node"})
# Microversion 2.73 adds `locked` as a filter and as a sort key.
_LOCKED: Final = (2, 73)


def _extra(name: str) -> _Read:
    def read(instance: Instance) -> _Value:
        return cast("_Value", cast("dict[str, object]", extra_of(instance)).get(name))

    return read


_READS: Final[dict[str, _Read]] = {
    "config_drive": lambda one: bool(extra_of(one).get("config_drive")),
    "created_at": lambda one: one.created_at_s,
    "display_description": _extra("description"),
    "display_name": lambda one: one.name,
    "host": lambda one: one.host,
    "hostname": hostname_of,
    "image_ref": lambda one: None if one.image is None else one.image.image_id,
    "instance_type_id": lambda one: one.flavor.flavor_id,
    "key_name": _extra("key_name"),
    "launch_index": lambda one: one.launch_index,
    "launched_at": lambda one: one.launched_at_s,
    "locked": lambda one: LOCKED in one.extra,
    "node": lambda one: one.node,
    "power_state": lambda one: power_state(one.status),
    "project_id": lambda one: one.project_id,
    "task_state": lambda one: None if one.task is None else one.task.value,
    "terminated_at": lambda one: one.terminated_at_s,
    "updated_at": lambda one: one.updated_at_s,
    "user_id": lambda one: one.user_id,
    "uuid": lambda one: one.uuid,
    "vm_state": lambda one: vm_state(one.status),
}
_ZONE: Final = "availability_zone"


class Sorting:
    """An order of servers by several keys, from the most to the least significant."""

    def __init__(self, parts: Sequence[_Part]) -> None:
        self._parts = parts

    def sort(self, instances: Iterable[Instance]) -> list[Instance]:
        """Return instances in this order; in ascending order, a missing value comes first."""
        found = list(instances)
        # Python's sort is stable. Sorting by one key after the other, the least significant first,
        # therefore sorts by all keys, each with its own direction.
        for read, is_falling in reversed(self._parts):
            found.sort(key=lambda one: _comparable(read(one)), reverse=is_falling)
        return found

    def after(self, instances: Iterable[Instance], marker: Instance) -> list[Instance]:
        """Return the instances that come after the marker, in this order.

        The marker need not be among the instances.
        """
        # The marker may no longer match the filter, so it is inserted to find its place.
        others = (one for one in instances if one.uuid != marker.uuid)
        found = self.sort([marker, *others])
        return found[[one.uuid for one in found].index(marker.uuid) + 1 :]


def sorting_of(call: Call) -> Sorting | None:
    """Return the requested order, or None for the ledger's own order, which is newest first.

    As in Nova, the n-th direction is for the n-th key. A key without one gets the first direction,
    or `desc` if there is none. The time of creation and the uuid are the least significant keys.
    Keys for administrators are ignored in requests of other callers.

    Raises:
        InvalidInputError: a key or direction is unknown, or there are more directions than keys.
    """
    keys = [text for name, text in call.query_items() if name == "sort_key" and text]
    words = [text for name, text in call.query_items() if name == "sort_dir" and text]
    if wrong := [word for word in words if word not in _DIRECTIONS]:
        raise InvalidInputError("sort_dir", f"must be asc or desc, not {wrong[0][:80]!r}")
    if len(words) > max(len(keys), 1):
        raise InvalidInputError(
            "sort_dir", "appears more often than sort_key; use at most one for each"
        )
    known = {*_READS, _ZONE} - (set() if call.version >= _LOCKED else {"locked"})
    if unknown := [key for key in keys if key not in known]:
        names = ", ".join(sorted(known))
        raise InvalidInputError("sort_key", f"{unknown[0]!r} is unknown; use one of {names}")
    default = _DIRECTIONS[words[0]] if words else True
    directions = dict.fromkeys(keys, default) | {
        key: _DIRECTIONS[word] for key, word in zip(keys, words, strict=False)
    }
    if not call.identity.is_admin:
        directions = {key: one for key, one in directions.items() if key not in _FOR_ADMINISTRATORS}
    # Paging by marker requires a total order, which the uuid ensures.
    for key, _ in _NEWEST_FIRST:
        directions.setdefault(key, default)
    if tuple(directions.items()) == _NEWEST_FIRST:
        return None
    return Sorting([(_read_of(call, key), is_falling) for key, is_falling in directions.items()])


async def marker_of(call: Call, uuid: str, project_id: str | None) -> Instance:
    """Return the instance after which a page begins.

    Raises:
        InvalidInputError: the instance does not exist, or belongs to another project.
    """
    try:
        marker = await call.parts.instances.get(uuid)
    except NotFoundError:
        marker = None
    if marker is None or project_id not in {None, marker.project_id}:
        raise InvalidInputError("marker", f"[{uuid}] could not be found")
    return marker


def _read_of(call: Call, key: str) -> _Read:
    return ServerWriter(call).zone if key == _ZONE else _READS[key]


# None does not compare with other values, so pairs are compared; None comes first.
def _comparable(value: _Value) -> tuple[bool, str | float]:
    return (False, "") if value is None else (True, value)
