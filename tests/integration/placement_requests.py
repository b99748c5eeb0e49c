"""For every action of the Placement API, a request that succeeds in each of its versions."""

from collections.abc import Callable, Mapping
from typing import Any, Final, NamedTuple

from tests.integration.placement_nouns import CHILD, GENERATION, PROVIDER, furnish
from tests.unit.api.placement.world import Json, World, claim, consumer

IDLE: Final = "CUSTOM_IDLE"
"""A trait and a class that no provider has."""

_OWN: Final = f"/resource_providers/{PROVIDER}"
_IDLE_CHILD: Final = f"/resource_providers/{CHILD}"
_SEEN: Final = {"resource_provider_generation": GENERATION}
_HAS: Final = {"VCPU": {"total": 9}, "MEMORY_MB": {"total": 9}}
_HELD: Final = {PROVIDER: {"VCPU": 1}}


class Right(NamedTuple):
    """A request that succeeds, with its status in old and in new versions."""

    path: str
    status: int = 200
    body: Callable[[int], Any] | None = None
    old_status: int = 0
    old_until: int = -1

    def status_in(self, minor: int) -> int:
        """Return the status of success in a version."""
        return self.old_status if minor <= self.old_until else self.status


def _fixed(body: object) -> Callable[[int], object]:
    return lambda _: body


def _claim(minor: int) -> Json:
    if minor < 12:
        provider = {"uuid": PROVIDER}
        told: Json = {"allocations": [{"resource_provider": provider, "resources": {"VCPU": 1}}]}
        return told if minor < 8 else {**told, "project_id": "p", "user_id": "u"}
    whole = claim(_HELD)
    late = ("consumer_generation", 28), ("consumer_type", 38)
    gone = {name for name, since in late if minor < since}
    return {name: value for name, value in whole.items() if name not in gone}


def _claims(minor: int) -> Json:
    return {consumer(2): _claim(minor)}


def _renamed(minor: int) -> Json | None:
    return {"name": "CUSTOM_NEW"} if minor < 7 else None


def _reshape(minor: int) -> Json:
    return {
        "inventories": {PROVIDER: {**_SEEN, "inventories": _HAS}},
        "allocations": _claims(minor),
    }


def _aggregates(minor: int) -> object:
    return {"aggregates": [], **_SEEN} if minor >= 19 else []


RIGHT: Final[Mapping[tuple[str, str], Right]] = {
    ("GET", ""): Right(""),
    ("GET", "/"): Right("/"),
    ("GET", "/resource_providers"): Right("/resource_providers?name=provider-1"),
    ("POST", "/resource_providers"): Right(
        "/resource_providers", 200, _fixed({"name": "new"}), 201, 19
    ),
    ("GET", "/resource_providers/{uuid}"): Right(_OWN),
    ("PUT", "/resource_providers/{uuid}"): Right(_OWN, 200, _fixed({"name": "new"})),
    ("DELETE", "/resource_providers/{uuid}"): Right(_IDLE_CHILD, 204),
    ("GET", "/resource_providers/{uuid}/inventories"): Right(f"{_OWN}/inventories"),
    ("POST", "/resource_providers/{uuid}/inventories"): Right(
        f"{_OWN}/inventories", 201, _fixed({"resource_class": "DISK_GB", "total": 1})
    ),
    ("PUT", "/resource_providers/{uuid}/inventories"): Right(
        f"{_OWN}/inventories", 200, _fixed({**_SEEN, "inventories": _HAS})
    ),
    ("DELETE", "/resource_providers/{uuid}/inventories"): Right(f"{_IDLE_CHILD}/inventories", 204),
    ("GET", "/resource_providers/{uuid}/inventories/{resource_class}"): Right(
        f"{_OWN}/inventories/VCPU"
    ),
    ("PUT", "/resource_providers/{uuid}/inventories/{resource_class}"): Right(
        f"{_OWN}/inventories/VCPU", 200, _fixed({**_SEEN, "total": 9})
    ),
    ("DELETE", "/resource_providers/{uuid}/inventories/{resource_class}"): Right(
        f"{_OWN}/inventories/MEMORY_MB", 204
    ),
    ("GET", "/resource_providers/{uuid}/usages"): Right(f"{_OWN}/usages"),
    ("GET", "/resource_providers/{uuid}/aggregates"): Right(f"{_OWN}/aggregates"),
    ("PUT", "/resource_providers/{uuid}/aggregates"): Right(f"{_OWN}/aggregates", 200, _aggregates),
    ("GET", "/resource_providers/{uuid}/allocations"): Right(f"{_OWN}/allocations"),
    ("GET", "/resource_providers/{uuid}/traits"): Right(f"{_OWN}/traits"),
    ("PUT", "/resource_providers/{uuid}/traits"): Right(
        f"{_OWN}/traits", 200, _fixed({**_SEEN, "traits": [IDLE]})
    ),
    ("DELETE", "/resource_providers/{uuid}/traits"): Right(f"{_OWN}/traits", 204),
    ("GET", "/traits"): Right("/traits?name=startswith:CUSTOM_"),
    ("GET", "/traits/{name}"): Right(f"/traits/{IDLE}", 204),
    ("PUT", "/traits/{name}"): Right("/traits/CUSTOM_NEW", 201),
    ("DELETE", "/traits/{name}"): Right(f"/traits/{IDLE}", 204),
    ("GET", "/resource_classes"): Right("/resource_classes"),
    ("POST", "/resource_classes"): Right("/resource_classes", 201, _fixed({"name": "CUSTOM_NEW"})),
    ("GET", "/resource_classes/{name}"): Right(f"/resource_classes/{IDLE}"),
    ("PUT", "/resource_classes/{name}"): Right(
        f"/resource_classes/{IDLE}",
        204,
        _renamed,
        200,
        6,
    ),
    ("DELETE", "/resource_classes/{name}"): Right(f"/resource_classes/{IDLE}", 204),
    ("POST", "/allocations"): Right("/allocations", 204, _claims),
    ("GET", "/allocations/{consumer_uuid}"): Right(f"/allocations/{consumer(1)}"),
    ("PUT", "/allocations/{consumer_uuid}"): Right(f"/allocations/{consumer(2)}", 204, _claim),
    ("DELETE", "/allocations/{consumer_uuid}"): Right(f"/allocations/{consumer(1)}", 204),
    ("GET", "/allocation_candidates"): Right("/allocation_candidates?resources=VCPU:1"),
    ("GET", "/usages"): Right("/usages?project_id=project"),
    ("POST", "/reshaper"): Right("/reshaper", 204, _reshape),
}
"""The requests by method and path of the action."""


async def furnished() -> World:
    """Return a service with the records that the requests need."""
    world = World()
    await furnish(world)
    await world.done("PUT", f"/traits/{IDLE}")
    await world.done("PUT", f"/resource_classes/{IDLE}")
    return world
