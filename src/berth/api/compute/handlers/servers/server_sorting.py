"""Orders of lists of servers that clients ask for, by Nova's names of what servers have."""

from collections.abc import Callable, Iterable, Sequence
from typing import Final, cast

from berth.api.compute.views.servers import ServerWriter, extra_of, hostname, power_state
from berth.api.routing import Call
from berth.domain.compute.instance import Instance
from berth.domain.errors import InvalidInputError, NotFoundError
from berth.services.requests.permissions import LOCKED, vm_state

_Value = str | float | None
_Read = Callable[[Instance], _Value]
_Part = tuple[_Read, bool]
"""What to compare, and whether the largest comes first."""

SORTED_MAX: Final = 50_000
"""Most servers of a list in another order than the ledger's: all of them are read for each page."""

_NEWEST_FIRST: Final = (("created_at", True), ("uuid", True))
_DIRECTIONS: Final = {"asc": False, "desc": True}
_FOR_ADMINISTRATORS: Final = frozenset({"host", "node"})
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
    "hostname": hostname,
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
    """One order of servers: what is compared first, what next, to the uuid, which decides."""

    def __init__(self, parts: Sequence[_Part]) -> None:
        self._parts = parts

    def sort(self, instances: Iterable[Instance]) -> list[Instance]:
        """Return instances in this order; where one has nothing to compare it is the smallest."""
        found = list(instances)
        for read, is_falling in reversed(self._parts):
            found.sort(key=lambda one: _comparable(read(one)), reverse=is_falling)
        return found

    def after(self, instances: Iterable[Instance], marker: Instance) -> list[Instance]:
        """Return those that come after one, whether it is among them or not, in this order."""
        others = (one for one in instances if one.uuid != marker.uuid)
        found = self.sort([marker, *others])
        return found[[one.uuid for one in found].index(marker.uuid) + 1 :]


def sorting_of(call: Call) -> Sorting | None:
    """Read the order that a list is asked in; None: newest first, as the ledger has it.

    As in Nova, directions go to keys one by one, those that are missing are the first one or
    `desc`, the time of creation and the uuid are compared last, and keys for administrators are
    passed over for others.

    Raises:
        InvalidInputError: it is no key, no direction, or there are more of these than keys.
    """
    keys = [text for name, text in call.query_items() if name == "sort_key" and text]
    words = [text for name, text in call.query_items() if name == "sort_dir" and text]
    if any(word not in _DIRECTIONS for word in words):
        raise InvalidInputError("sort_dir", "must be asc or desc")
    if len(words) > max(len(keys), 1):
        raise InvalidInputError("sort_dir", "is given more often than sort_key")
    known = {*_READS, _ZONE} - (set() if call.version >= _LOCKED else {"locked"})
    if strangers := [key for key in keys if key not in known]:
        names = ", ".join(sorted(known))
        raise InvalidInputError("sort_key", f"{strangers[0]!r} is none; there are {names}")
    default = _DIRECTIONS[words[0]] if words else True
    asked = dict.fromkeys(keys, default) | {
        key: _DIRECTIONS[word] for key, word in zip(keys, words, strict=False)
    }
    if not call.identity.is_admin:
        asked = {key: one for key, one in asked.items() if key not in _FOR_ADMINISTRATORS}
    for key, _ in _NEWEST_FIRST:
        asked.setdefault(key, default)
    if tuple(asked.items()) == _NEWEST_FIRST:
        return None
    return Sorting([(_read_of(call, key), is_falling) for key, is_falling in asked.items()])


async def marker_of(call: Call, uuid: str, project_id: str | None) -> Instance:
    """Return the instance that a page comes after.

    Raises:
        InvalidInputError: there is none of the project.
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


def _comparable(value: _Value) -> tuple[bool, str | float]:
    return (False, "") if value is None else (True, value)
