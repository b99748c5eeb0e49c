"""Random forests of providers, and the requests that create them."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final
from uuid import UUID

from tests.differential.drawing import Draw

Json = dict[str, Any]

SHARES: Final = "MISC_SHARES_VIA_AGGREGATE"
CLASSES: Final = ("VCPU", "MEMORY_MB", "DISK_GB", "CUSTOM_DEV")
TRAITS: Final = ("CUSTOM_A", "CUSTOM_B", "HW_CPU_X86_VMX")
AGGREGATES: Final = tuple(str(UUID(int=number, version=4)) for number in range(1, 5))

_PROVIDERS_MAX = 12
_LARGE = 2**31 - 1


@dataclass(frozen=True, slots=True)
class Node:
    """One provider to be created.

    Attributes:
        uuid: the uuid of the provider, which is also its name.
        parent: the uuid of its parent, None for a root.
        inventories: its inventories while consumers claim.
        used: the amounts that a consumer claims of it.
        left: the inventories, some of them odd, that finally replace these; None to keep them.
        traits: its traits.
        aggregates: its aggregates.
    """

    uuid: str
    parent: str | None
    inventories: dict[str, Json]
    used: dict[str, int]
    left: dict[str, Json] | None
    traits: tuple[str, ...]
    aggregates: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Step:
    """One of the requests that create a forest; its body lacks the provider's generation.

    Attributes:
        method: the HTTP method.
        path: the path in the Placement API.
        body: the JSON of the body.
        version: the microversion.
        of: the uuid of the provider whose generation the body needs, if it needs one.
    """

    method: str
    path: str
    body: object = None
    version: str = "1.39"
    of: str | None = None


def draw_forest(draw: Draw) -> list[Node]:
    """Draw some trees, some of whose providers share; parents come before their children."""
    is_nested = draw.of((0, 2, 4, 9))
    is_deep = draw.of((0, 0, 8))
    is_shared = draw.of((0, 0, 1, 3, 6))
    is_grouped = draw.of((0, 3, 5))
    is_rich = draw.of((11, 15, 19))
    forest: list[Node] = []
    for number in range(1, draw.count(1, _PROVIDERS_MAX) + 1):
        has_parent = bool(forest) and draw.count(1, 10) <= is_nested
        is_chained = has_parent and draw.count(1, 10) <= is_deep
        traits = tuple(one for one in TRAITS if draw.count(1, 2) == 1)
        if draw.count(1, 10) <= is_shared:
            traits += (SHARES,)
        inventories = {name: _inventory(draw) for name in CLASSES if draw.count(1, 20) <= is_rich}
        forest.append(
            Node(
                uuid=str(UUID(int=draw.count(1, 2**64) << 32 | number, version=4)),
                parent=draw.of(forest[-1:] if is_chained else forest).uuid if has_parent else None,
                inventories=inventories,
                used=_used(draw, inventories),
                left=_left(draw, inventories) if draw.seldom(5) else None,
                traits=traits,
                aggregates=tuple(one for one in AGGREGATES if draw.count(1, 10) <= is_grouped),
            )
        )
    return forest


def steps_of(forest: list[Node]) -> Iterator[Step]:
    """Yield the requests that create a forest on an empty server."""
    for trait in TRAITS:
        if trait.startswith("CUSTOM_"):
            yield Step("PUT", f"/traits/{trait}")
    for name in CLASSES:
        if name.startswith("CUSTOM_"):
            yield Step("PUT", f"/resource_classes/{name}")
    for node in forest:
        yield from _making(node)
    for number, node in enumerate(forest, 1):
        if node.used:
            claim = {
                "allocations": {node.uuid: {"resources": node.used}},
                "project_id": "project",
                "user_id": "user",
                "consumer_generation": None,
                "consumer_type": "INSTANCE",
            }
            yield Step("PUT", f"/allocations/{UUID(int=number, version=4)}", claim)
    for node in forest:
        if node.left is not None:
            yield _inventories(node, node.left)


def _making(node: Node) -> Iterator[Step]:
    path = f"/resource_providers/{node.uuid}"
    named: Json = {"name": node.uuid, "uuid": node.uuid}
    if node.parent is not None:
        named["parent_provider_uuid"] = node.parent
    yield Step("POST", "/resource_providers", named)
    if node.inventories:
        yield _inventories(node, node.inventories)
    if node.traits:
        yield Step("PUT", f"{path}/traits", {"traits": list(node.traits)}, of=node.uuid)
    if node.aggregates:
        yield Step("PUT", f"{path}/aggregates", list(node.aggregates), "1.18")


def _inventories(node: Node, inventories: dict[str, Json]) -> Step:
    path = f"/resource_providers/{node.uuid}/inventories"
    return Step("PUT", path, {"inventories": inventories}, of=node.uuid)


def _inventory(draw: Draw) -> Json:
    total = draw.count(1, 8)
    found: Json = {"total": total}
    if draw.seldom(5):
        found["reserved"] = draw.count(0, total)
    if draw.seldom(5):
        found["allocation_ratio"] = draw.of((0.5, 0.7, 1.5, 2.0, 16.0))
    if draw.seldom(5):
        found["max_unit"] = draw.count(1, total)
    if draw.seldom(10):
        found["min_unit"] = draw.count(1, 2)
    if draw.seldom(10):
        found["step_size"] = draw.count(1, 2)
    return found


def _used(draw: Draw, inventories: dict[str, Json]) -> dict[str, int]:
    """Draw the amounts of a claim that fits, empty if none does."""
    used: dict[str, int] = {}
    for name, one in inventories.items():
        step, least = one.get("step_size", 1), one.get("min_unit", 1)
        capacity = int((one["total"] - one.get("reserved", 0)) * one.get("allocation_ratio", 1.0))
        most = min(capacity, one.get("max_unit", capacity))
        fitting = [amount for amount in range(least, most + 1) if amount % step == 0]
        if fitting and draw.seldom(3):
            used[name] = draw.of(fitting)
    return used


def _left(draw: Draw, inventories: dict[str, Json]) -> dict[str, Json]:
    """Draw odd inventories, which may be smaller than their usage or have no capacity at all."""
    return {name: {**one, **draw.of(_ODD)} for name, one in inventories.items()}


_ODD: Final[tuple[Json, ...]] = (
    {},
    {"total": 1},
    {"total": _LARGE},
    {"total": _LARGE, "max_unit": _LARGE, "allocation_ratio": 1.5},
    {"total": 2, "reserved": 2},
    {"total": 2, "reserved": 5},
    {"allocation_ratio": 0.0},
    {"allocation_ratio": -1.0},
    {"allocation_ratio": 0.01},
    {"allocation_ratio": 1e9},
    {"min_unit": 3, "max_unit": 2},
    {"step_size": 7},
    {"max_unit": 100},
)
