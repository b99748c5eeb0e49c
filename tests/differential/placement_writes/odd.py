"""Requests made invalid in their body, headers, method or path."""

from collections.abc import Callable, Iterator, Mapping
from copy import deepcopy
from dataclasses import replace
from typing import Any, Final

from tests.differential.drawing import Draw
from tests.differential.placement_writes.steps import Step

_VALUES: Final[tuple[object, ...]] = (
    None,
    True,
    False,
    0,
    -1,
    1.0,
    1.5,
    2147483647,
    2147483648,
    10**12,
    10**19,
    1e300,
    "",
    "1",
    "a",
    "VCPU",
    "A" * 256,
    [],
    {},
    ["a"],
    {"a": 1},
)
_RAW: Final = (
    ("{", ""),
    ("}", ""),
    ("{", "{,"),
    ("{", "[{"),
    ('"', "'"),
    (":", "="),
    ("}", ",}"),
    ("1", "NaN"),
    ("1", "01"),
    ("1", "1e2"),
    ('"', '"\\u0000'),
    ('"', '"\\ud800'),
    ("{", '{"a":1,'),
    ("{", '{"allocations":1,'),
)
_TYPES: Final = (
    None,
    "text/plain",
    "application/json; charset=utf-8",
    "APPLICATION/JSON",
    "application/x-www-form-urlencoded",
    "json",
    "application/json, text/plain",
)
_ACCEPTS: Final = (
    None,
    "*/*",
    "text/html",
    "text/plain",
    "application/*",
    "application/json;q=0",
    "text/html, application/json;q=0.5",
    "text/plain;q=0.9, */*;q=0.1",
    "nonsense",
)
_VERSIONS: Final = (
    None,
    "placement latest",
    "placement 1.40",
    "placement 2.0",
    "placement 0.9",
    "placement 1",
    "placement x.y",
    "placement 1.-1",
    "placement 1.3.4",
    "placement",
    "compute 2.1",
    "compute 2.1, placement 1.20",
    "placement 1.20, placement 1.10",
    "PLACEMENT 1.20",
    "placement  1.20",
    "placement 1.020",
    "nonsense",
)
_METHODS: Final = ("GET", "PUT", "POST", "DELETE", "PATCH", "OPTIONS", "HEAD", "FETCH")
_PATHS: Final = (
    "/nothing",
    "//",
    "/resource_providers/",
    "/resource_provider",
    "/allocation",
    "/reshaper/now",
    "/resource_classes/",
    "/traits/",
    "/",
    "",
)


def spoilt(draw: Draw, step: Step) -> Step:
    """Return the request with one part replaced by an unusual or invalid one."""
    ways: tuple[Callable[[Draw, Step], Step], ...]
    ways = (_with_path, _with_method, _with_accept, _with_version, _without_token)
    if step.body is not None:
        ways = (_with_body, _with_body, _with_body, _with_body, _with_raw, _with_type, *ways)
    return draw.of(ways)(draw, step)


def _with_body(draw: Draw, step: Step) -> Step:
    body: Any = deepcopy(step.body)
    places = list(_places(body))
    if not places:
        return replace(step, body=draw.of(_VALUES))
    parent, key = draw.of(places)
    way = draw.of(("value", "value", "value", "gone", "more"))
    if way == "gone":
        del parent[key]
    elif way == "more" and isinstance(parent, dict):
        parent[draw.of(("more", "generation", "custom", "VCPU", "uuid"))] = draw.of(_VALUES)
    else:
        parent[key] = draw.of(_VALUES)
    return replace(step, body=body)


def _places(value: Any) -> Iterator[tuple[Any, Any]]:  # noqa: ANN401 - JSON, of any shape
    """Yield every object or list with each of its keys or indices."""
    if isinstance(value, dict):
        keys: Mapping[Any, Any] = value
    elif isinstance(value, list):
        keys = dict(enumerate(value))
    else:
        return
    for key, item in keys.items():
        yield value, key
        yield from _places(item)


def _with_raw(draw: Draw, step: Step) -> Step:
    return replace(step, spoilt=(draw.of(_RAW),))


def _with_type(draw: Draw, step: Step) -> Step:
    return replace(step, headers={"content-type": draw.of(_TYPES)})


def _with_accept(draw: Draw, step: Step) -> Step:
    return replace(step, headers={"accept": draw.of(_ACCEPTS)})


def _with_version(draw: Draw, step: Step) -> Step:
    return replace(step, headers={"openstack-api-version": draw.of(_VERSIONS)})


def _without_token(draw: Draw, step: Step) -> Step:
    return replace(step, headers={"x-auth-token": draw.of((None, "user:project"))})


def _with_method(draw: Draw, step: Step) -> Step:
    return replace(step, method=draw.of(_METHODS))


def _with_path(draw: Draw, step: Step) -> Step:
    path, mark, query = step.path.partition("?")
    changed = (f"{path}/", f"{path}/x", f"/{path}", f"{path}.json", path.upper(), *_PATHS)
    ask = draw.of((f"{mark}{query}", f"{mark}{query}", "?limit=1", "?a=%ff", "?name=%00", "?&&"))
    return replace(step, path=f"{draw.of(changed) if draw.seldom(2) else path}{ask}")
