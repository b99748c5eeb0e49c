"""Requests about inventories of a provider."""

from tests.differential.placement_writes.drawn import Drawn
from tests.differential.placement_writes.steps import Step
from tests.differential.placement_writes.universe import CLASSES, STANDARD_CLASSES

Json = dict[str, object]


def replace_all(drawn: Drawn) -> Step:
    """Draw a request that replaces a provider's inventories, mostly keeping used classes."""
    uuid = drawn.provider()
    body: Json = {
        "resource_provider_generation": drawn.seen(uuid),
        "inventories": inventories_of(drawn, uuid),
    }
    return Step("PUT", _path(drawn, uuid), drawn.minor, body)


def add(drawn: Drawn) -> Step:
    """Draw a request that adds an inventory, mostly of a class that the provider lacks."""
    uuid = drawn.provider()
    here = drawn.state.providers.get(uuid)
    has = {} if here is None else here.inventories
    missing = [name for name in CLASSES if is_known(drawn, name) and name not in has]
    name = drawn.draw.of(missing if missing and not drawn.draw.seldom(6) else CLASSES)
    body: Json = {"resource_class": name, **inventory(drawn)}
    if drawn.draw.seldom(3):
        body["resource_provider_generation"] = drawn.seen(uuid)
    return Step("POST", _path(drawn, uuid), drawn.minor, body)


def replace_one(drawn: Drawn) -> Step:
    """Draw a request that replaces the inventory of one class."""
    uuid = drawn.provider()
    body: Json = {"resource_provider_generation": drawn.seen(uuid), **inventory(drawn)}
    return Step("PUT", f"{_path(drawn, uuid)}/{_class(drawn, uuid)}", drawn.minor, body)


def remove_one(drawn: Drawn) -> Step:
    """Draw a request that removes the inventory of one class."""
    uuid = drawn.provider()
    return Step("DELETE", f"{_path(drawn, uuid)}/{_class(drawn, uuid)}", drawn.minor)


def remove_all(drawn: Drawn) -> Step:
    """Draw a request that removes all inventories of a provider."""
    return Step("DELETE", _path(drawn, drawn.provider()), drawn.minor)


def inventories_of(drawn: Drawn, uuid: str) -> dict[str, Json]:
    """Draw all inventories of a provider."""
    draw, here = drawn.draw, drawn.state.providers.get(uuid)
    used = {} if here is None else here.used
    kept = [name for name in CLASSES if used.get(name) and not draw.seldom(8)]
    known = [name for name in CLASSES if is_known(drawn, name) or draw.seldom(25)]
    names = [name for name in known if name in kept or draw.seldom(2)]
    if draw.seldom(40):
        names.append(draw.of(("CUSTOM_NOBODYS", "custom", "MAGIC")))
    return {name: inventory(drawn) for name in names}


def is_known(drawn: Drawn, name: str) -> bool:
    """Tell whether a resource class exists."""
    return name in STANDARD_CLASSES or name in drawn.state.names


def inventory(drawn: Drawn) -> Json:
    """Draw the inventory of one class."""
    draw = drawn.draw
    total = draw.count(1, 12)
    found: Json = {"total": total}
    if draw.seldom(5):
        found["reserved"] = draw.of((0, 0, 1, 1, 2, total, total + 1))
    if draw.seldom(5):
        found["allocation_ratio"] = draw.of((0.5, 1, 1.5, 2.0, 16.0))
    if draw.seldom(40):
        found["allocation_ratio"] = draw.of((0.01, 0, -1.0, 1e9))
    if draw.seldom(6):
        found["max_unit"] = draw.count(1, total)
    if draw.seldom(8):
        found["min_unit"] = draw.count(1, 3)
    if draw.seldom(8):
        found["step_size"] = draw.count(1, 3)
    return found


def _class(drawn: Drawn, uuid: str) -> str:
    here = drawn.state.providers.get(uuid)
    if here is not None and here.inventories and not drawn.draw.seldom(6):
        return drawn.draw.of(sorted(here.inventories))
    return drawn.name_in_path(CLASSES, 8)


def _path(drawn: Drawn, uuid: str) -> str:
    return f"/resource_providers/{drawn.in_path(uuid)}/inventories"
