"""Requests about resource classes, traits and aggregates."""

from tests.differential.placement_writes.drawn import Drawn
from tests.differential.placement_writes.steps import Step
from tests.differential.placement_writes.universe import (
    AGGREGATES,
    BAD_NAMES,
    CLASSES,
    CUSTOM_CLASSES,
    CUSTOM_TRAITS,
    TRAITS,
)

_COUNTS = 19


def put_trait(drawn: Drawn) -> Step:
    """Draw a request that creates a trait."""
    return Step("PUT", f"/traits/{_trait(drawn)}", drawn.minor)


def remove_trait(drawn: Drawn) -> Step:
    """Draw a request that removes a trait."""
    return Step("DELETE", f"/traits/{_trait(drawn)}", drawn.minor)


def show_trait(drawn: Drawn) -> Step:
    """Draw a request for one trait."""
    return Step("GET", f"/traits/{drawn.name_in_path(TRAITS)}", drawn.minor)


def list_traits(drawn: Drawn) -> Step:
    """Draw a request that lists traits, with any filters."""
    draw = drawn.draw
    names = ",".join(draw.some((*TRAITS, "CUSTOM_NOBODYS"), 4))
    ways = (f"in:{names}", "startswith:CUSTOM", "startswith:HW_CPU_X86_V", "startswith:custom")
    odd = ("in:", "startswith:", "", "CUSTOM_T", "like:CUSTOM_T", "in", "in:a:b", "startswith:%25")
    items: list[str] = []
    if not draw.seldom(3):
        items.append(f"name={draw.of(odd if draw.seldom(8) else ways)}")
    if draw.seldom(2):
        items.append(f"associated={draw.of(('true', 'false', 'True', 'FALSE', '1', ''))}")
    if draw.seldom(40):
        items.append(draw.of(("names=in:A", "associated=true&associated=false", "name=in:A&name=")))
    return Step("GET", f"/traits?{'&'.join(items)}" if items else "/traits", drawn.minor)


def put_provider_traits(drawn: Drawn) -> Step:
    """Draw a request that sets the traits of a provider."""
    draw, uuid = drawn.draw, drawn.provider()
    traits = draw.some(TRAITS if draw.seldom(12) else drawn.traits(), 3)
    if draw.seldom(30):
        traits += draw.of((["CUSTOM_NOBODYS"], ["custom"], traits, [""], ["A" * 256]))
    body = {"traits": traits, "resource_provider_generation": drawn.seen(uuid)}
    return Step("PUT", f"/resource_providers/{drawn.in_path(uuid)}/traits", drawn.minor, body)


def remove_provider_traits(drawn: Drawn) -> Step:
    """Draw a request that removes all traits of a provider."""
    path = f"/resource_providers/{drawn.in_path(drawn.provider())}/traits"
    return Step("DELETE", path, drawn.minor)


def put_aggregates(drawn: Drawn) -> Step:
    """Draw a request that sets the aggregates of a provider, in the version's form."""
    draw, uuid = drawn.draw, drawn.provider()
    uuids = draw.some(AGGREGATES, 3)
    if draw.seldom(40):
        uuids += draw.of((uuids, ["nobody"], [AGGREGATES[0].replace("-", "").upper()]))
    body: object = uuids
    if drawn.form >= _COUNTS:
        body = {"aggregates": uuids, "resource_provider_generation": drawn.seen(uuid)}
    return Step("PUT", f"/resource_providers/{drawn.in_path(uuid)}/aggregates", drawn.minor, body)


def create_class(drawn: Drawn) -> Step:
    """Draw a request that creates a resource class."""
    return Step("POST", "/resource_classes", drawn.minor, {"name": _class(drawn)})


def put_class(drawn: Drawn) -> Step:
    """Draw a request that ensures a resource class, or renames it before 1.7."""
    body = {"name": _class(drawn)} if drawn.form < 7 or drawn.draw.seldom(20) else None
    return Step("PUT", f"/resource_classes/{_class(drawn)}", drawn.minor, body)


def remove_class(drawn: Drawn) -> Step:
    """Draw a request that removes a resource class."""
    return Step("DELETE", f"/resource_classes/{_class(drawn)}", drawn.minor)


def show_class(drawn: Drawn) -> Step:
    """Draw a request for one resource class or for all."""
    if drawn.draw.seldom(3):
        return Step("GET", "/resource_classes", drawn.minor)
    return Step("GET", f"/resource_classes/{drawn.name_in_path(CLASSES)}", drawn.minor)


def _class(drawn: Drawn) -> str:
    draw = drawn.draw
    if draw.seldom(20):
        return draw.of((*CLASSES, *BAD_NAMES))
    return draw.of((*CUSTOM_CLASSES, *CUSTOM_CLASSES, "CUSTOM_C"))


def _trait(drawn: Drawn) -> str:
    return drawn.name_in_path(TRAITS if drawn.draw.seldom(10) else CUSTOM_TRAITS, 20)
