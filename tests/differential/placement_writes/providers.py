"""Requests that create, change, remove, show and list resource providers."""

from collections.abc import Sequence
from urllib.parse import quote

from tests.differential.placement_writes.drawn import Drawn
from tests.differential.placement_writes.steps import Step
from tests.differential.placement_writes.universe import (
    AGGREGATES,
    CLASSES,
    NAMES,
    PROVIDERS,
    TRAITS,
    UNKNOWN,
)

PATH = "/resource_providers"
_TREES = 14


def create(drawn: Drawn) -> Step:
    """Draw a request that creates a provider, mostly one that does not exist."""
    draw, state = drawn.draw, drawn.state
    missing = [uuid for uuid in PROVIDERS if uuid not in state.providers]
    uuid = draw.of(missing if missing and not draw.seldom(8) else PROVIDERS)
    body: dict[str, object] = {"name": _name(drawn)}
    if not draw.seldom(60):
        body["uuid"] = uuid.replace("-", "") if draw.seldom(20) else uuid
    if drawn.form >= _TREES and draw.seldom(2):
        body["parent_provider_uuid"] = _parent(drawn)
    return Step("POST", PATH, drawn.minor, body)


def change(drawn: Drawn) -> Step:
    """Draw a request that changes a provider's name and perhaps its parent."""
    draw, uuid = drawn.draw, drawn.provider()
    here = drawn.state.providers.get(uuid)
    name = here.name if here is not None and draw.seldom(2) else _name(drawn)
    body: dict[str, object] = {"name": name}
    if drawn.form >= _TREES and not draw.seldom(4):
        own = None if here is None else here.parent_uuid
        body["parent_provider_uuid"] = own if draw.seldom(3) else _parent(drawn)
    return Step("PUT", f"{PATH}/{drawn.in_path(uuid)}", drawn.minor, body)


def remove(drawn: Drawn) -> Step:
    """Draw a request that removes a provider."""
    return Step("DELETE", f"{PATH}/{drawn.in_path(drawn.provider())}", drawn.minor)


def show(drawn: Drawn) -> Step:
    """Draw a request for a provider or one of its parts."""
    what = drawn.draw.of(
        ("", "/inventories", "/usages", "/aggregates", "/traits", "/allocations", "/inventories/")
    )
    what += drawn.name_in_path(CLASSES) if what.endswith("/") else ""
    return Step("GET", f"{PATH}/{drawn.in_path(drawn.provider())}{what}", drawn.minor)


def list_all(drawn: Drawn) -> Step:
    """Draw a request that lists providers, with filters of the version's form."""
    items = _filters(drawn)[: drawn.draw.of((0, 1, 1, 1, 2, 3, 4))]
    if drawn.draw.seldom(15):
        items = [_spoilt(drawn, *item) for item in items]
    query = "&".join(f"{key}={quote(value, safe=':,!')}" for key, value in items)
    return Step("GET", f"{PATH}?{query}" if query else PATH, drawn.minor)


def _name(drawn: Drawn) -> str:
    draw = drawn.draw
    taken = {one.name for one in drawn.state.providers.values()}
    if draw.seldom(40):
        return draw.of(("", " ", "\u00e9\u4e16", "n" * 200, "n" * 201, "Two", "a\nb"))
    free = [name for name in NAMES if name not in taken]
    return draw.of(free if free and not draw.seldom(5) else NAMES)


def _parent(drawn: Drawn) -> str | None:
    draw = drawn.draw
    if draw.seldom(5):
        return None
    return UNKNOWN if draw.seldom(20) else drawn.provider()


def _filters(drawn: Drawn) -> list[tuple[str, str]]:
    draw, form = drawn.draw, drawn.form
    known = [one.name for one in drawn.state.providers.values()]
    items = [("name", draw.of((*NAMES, *known)))] if draw.seldom(2) else []
    if draw.seldom(2):
        items.append(("uuid", drawn.provider()))
    if form >= 3:
        times = draw.of((1, 2)) if form >= 24 else 1
        items += [("member_of", _member_of(drawn)) for _ in range(times)]
    if form >= 4:
        items.append(("resources", _resources(drawn)))
    if form >= 14:
        items.append(("in_tree", UNKNOWN if draw.seldom(15) else drawn.provider()))
    if form >= 18:
        times = draw.of((1, 2)) if form >= 39 else 1
        items += [("required", _required(drawn)) for _ in range(times)]
    return draw.shuffled(items)


def _member_of(drawn: Drawn) -> str:
    draw = drawn.draw
    uuids: Sequence[str] = draw.some((*AGGREGATES, UNKNOWN), 3) or AGGREGATES[:1]
    value = uuids[0] if len(uuids) == 1 and draw.seldom(2) else "in:" + ",".join(uuids)
    return f"!{value}" if drawn.form >= 32 and draw.seldom(2) else value


def _resources(drawn: Drawn) -> str:
    draw = drawn.draw
    names = draw.some(CLASSES, 2) or CLASSES[:1]
    return ",".join(f"{name}:{draw.of((1, 1, 2, 3, 8))}" for name in names)


def _required(drawn: Drawn) -> str:
    draw = drawn.draw
    known = TRAITS if draw.seldom(8) else drawn.traits()
    if drawn.form >= 39 and draw.seldom(3):
        return "in:" + ",".join(draw.some(known, 3) or known[:1])
    traits = draw.some(known, draw.of((0, 1, 2)))
    if drawn.form >= 22 and (not traits or draw.seldom(2)):
        traits.append("!" + draw.of([one for one in TRAITS if one not in traits]))
    return ",".join(traits or known[:1])


def _spoilt(drawn: Drawn, key: str, value: str) -> tuple[str, str]:
    """Return the parameter with another meaning, or with none."""
    return drawn.draw.of(
        (
            (key, ""),
            (key, f"{value},"),
            (key, f" {value}"),
            (key, value.replace(":", "=")),
            (key, value.lower()),
            (key, f"in:{value}"),
            (key, f"!{value}"),
            (key, f"!!{value}"),
            (key, value.replace(":1", ":0")),
            (key, value.replace(":1", ":x")),
            (key, value.replace(":1", ":1:1")),
            (key, value.replace("-", "")),
            (key, value.upper()),
            (key, "0"),
            (f"{key}1", value),
            (key.upper(), value),
        )
    )
