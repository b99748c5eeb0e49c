"""All kinds of requests, with their weights and the microversions that have them."""

from collections.abc import Callable, Iterator
from typing import Final, NamedTuple

from tests.differential.drawing import Draw
from tests.differential.placement_writes import allocations, inventories, names, providers
from tests.differential.placement_writes.drawn import Drawn, minor_of
from tests.differential.placement_writes.odd import spoilt
from tests.differential.placement_writes.state import State
from tests.differential.placement_writes.steps import Step
from tests.differential.placement_writes.universe import (
    CUSTOM_CLASSES,
    CUSTOM_TRAITS,
    NEWEST,
    PROJECTS,
)

Drawer = Callable[[Drawn], Step]


class Kind(NamedTuple):
    """One kind of request.

    Attributes:
        weight: its relative frequency.
        draw: draws a request of this kind.
        since: the first minor version that has it.
        until: the last minor version that has it.
    """

    weight: int
    draw: Drawer
    since: int = 0
    until: int = NEWEST


KINDS: Final = (
    Kind(4, providers.create),
    Kind(5, providers.change),
    Kind(3, providers.change, 14, 36),
    Kind(3, providers.remove),
    Kind(8, providers.show, 6),
    Kind(12, providers.list_all),
    Kind(8, providers.list_all, 32),
    Kind(6, inventories.replace_all),
    Kind(5, inventories.add),
    Kind(5, inventories.replace_one),
    Kind(3, inventories.remove_one),
    Kind(2, inventories.remove_all, 5),
    Kind(6, names.put_provider_traits, 6),
    Kind(1, names.remove_provider_traits, 6),
    Kind(6, names.put_aggregates, 1),
    Kind(3, names.put_trait, 6),
    Kind(3, names.remove_trait, 6),
    Kind(2, names.show_trait, 6),
    Kind(6, names.list_traits, 6),
    Kind(3, names.create_class, 2),
    Kind(2, names.put_class, 7),
    Kind(2, names.put_class, 2, 6),
    Kind(4, names.remove_class, 2),
    Kind(3, names.show_class, 2),
    Kind(16, allocations.put),
    Kind(9, allocations.put_many, 13),
    Kind(4, allocations.free),
    Kind(4, allocations.show),
    Kind(4, allocations.usages, 9),
    Kind(6, allocations.reshape, 30),
)
_EVERY: Final = tuple(kind for kind in KINDS for _ in range(kind.weight))
_FEW: Final = 3


def draw_step(draw: Draw, state: State) -> Step:
    """Draw the next request, mostly one that creates missing records while there are few."""
    kind = draw.of(_EVERY) if draw.seldom(3) else _missing(state) or draw.of(_EVERY)
    minor = minor_of(draw, kind.since, kind.until)
    form = draw.count(0, NEWEST) if draw.seldom(40) else minor
    step = kind.draw(Drawn(draw, state, minor, form))
    return spoilt(draw, step) if draw.seldom(8) else step


def _missing(state: State) -> Kind | None:
    """Return a kind that creates missing records, None if there are enough."""
    if len(state.providers) < _FEW:
        return Kind(1, providers.create)
    if state.names.isdisjoint(CUSTOM_CLASSES):
        return Kind(1, names.create_class, 2)
    if state.names.isdisjoint(CUSTOM_TRAITS):
        return Kind(1, names.put_trait, 6)
    if sum(1 for one in state.providers.values() if one.inventories) < _FEW - 1:
        return Kind(1, inventories.replace_all)
    return None


def audit(state: State, minor: int) -> Iterator[Step]:
    """Yield requests that show all records.

    Args:
        state: the current state.
        minor: a minor version that has all of these requests.
    """
    for path in ("/resource_providers", "/resource_classes", "/traits?name=startswith:CUSTOM_"):
        yield Step("GET", path, minor)
    for uuid in state.providers:
        for what in ("inventories", "usages", "aggregates", "traits", "allocations"):
            yield Step("GET", f"/resource_providers/{uuid}/{what}", minor)
    for uuid in state.holdings:
        yield Step("GET", f"/allocations/{uuid}", minor)
    for project in PROJECTS:
        yield Step("GET", f"/usages?project_id={project.replace(' ', '+')}", minor)
