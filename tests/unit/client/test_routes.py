"""Each operation of the OpenAPI document has a method in the client, which the commands use."""

import importlib
import pkgutil
from pathlib import Path
from types import NoneType
from typing import Any

import msgspec
import pytest

import berth.client
from berth.client.requests import Route
from tests.unit.client.document import (
    Json,
    answer_schema,
    body_schema,
    mismatches,
    operations,
    problems,
)

# Operations that the client leaves out, with the reason.
EXEMPT: dict[str, str] = {}
# Fields and parameters that the client leaves out, with the reason.
LEFT_OUT = {
    "POST /berth/v1/decide": {"OS-SCH-HNT:scheduler_hints": "the older name of the hints"},
}


def routes() -> dict[str, Route[Any]]:
    """Return all routes of the client, as `METHOD path`."""
    found: dict[str, Route[Any]] = {}
    for module in pkgutil.iter_modules(berth.client.__path__):
        for value in vars(importlib.import_module(f"berth.client.{module.name}")).values():
            if isinstance(value, Route):
                found[f"{value.method} {value.path.replace(':path}', '}')}"] = value
    return found


ROUTES = routes()
DESCRIBED = {f"{method} {path}": described for method, path, described in operations()}


def test_the_client_has_every_operation() -> None:
    """An operation without a route is listed above with a reason, and no route is unknown."""
    assert DESCRIBED.keys() - ROUTES.keys() == EXEMPT.keys()
    assert ROUTES.keys() - DESCRIBED.keys() == set()


def test_commands_leave_paths_to_the_client() -> None:
    """No command has a path of Berth's own API."""
    folder = Path(berth.client.__path__[0]).parent / "cli"
    modules = {path: path.read_text("utf-8") for path in folder.rglob("*.py")}
    assert len(modules) > 1
    assert [path.name for path, text in modules.items() if "/berth/v1" in text] == []


@pytest.mark.parametrize("name", sorted(DESCRIBED.keys() - EXEMPT.keys()))
def test_a_route_sends_what_the_operation_takes(name: str) -> None:
    """The parameters, the fields of the body and the headers have the same names."""
    route, described, left_out = ROUTES[name], DESCRIBED[name], LEFT_OUT.get(name, {})
    taken: dict[str, set[str]] = {"query": set(), "header": set(), "path": set()}
    for parameter in described["parameters"]:
        taken[parameter["in"]].add(parameter["name"])
    assert set(route.query) == taken["query"] - left_out.keys()
    assert set(route.headers) == taken["header"]
    fields = (body_schema(described) or {}).get("properties", {})
    assert set(route.body) == fields.keys() - left_out.keys()


@pytest.mark.parametrize("name", sorted(DESCRIBED.keys() - EXEMPT.keys()))
def test_a_route_returns_what_the_operation_answers(name: str) -> None:
    """Each field of the response is a field of the client's value, and has its type."""
    route, described = ROUTES[name], DESCRIBED[name]
    (status,) = [int(one) for one in described["responses"] if one.startswith("2")]
    theirs = answer_schema(described, status)
    if theirs is None:
        assert route.answers is NoneType
        return
    schemas, components = msgspec.json.schema_components(
        [route.answers],
        ref_template="#/{name}",
        schema_hook=lambda _: {"description": "Any JSON value."},
    )
    assert mismatches(next(iter(schemas)), theirs, components) == []


@pytest.mark.parametrize(
    ("ours", "theirs", "found"),
    [
        ({"type": "string"}, {"enum": ["a", "b"]}, 0),
        ({"type": "number"}, {"type": "integer"}, 0),
        ({"type": "integer"}, {"type": "number"}, 1),
        ({"anyOf": [{"type": "string"}, {"type": "null"}]}, {"type": "string"}, 0),
        ({"type": "string"}, {"anyOf": [{"type": "string"}, {"type": "null"}]}, 1),
        ({"properties": {"a": {}}, "type": "object"}, {"properties": {}, "type": "object"}, 1),
        ({"properties": {}, "type": "object"}, {"properties": {"a": {}}, "type": "object"}, 1),
        (
            {"properties": {"a": {}}, "required": ["a"], "type": "object"},
            {"properties": {"a": {"type": "null"}}, "type": "object"},
            1,
        ),
        (
            {"items": {"type": "string"}, "type": "array"},
            {"items": {"type": "integer"}, "type": "array"},
            1,
        ),
    ],
)
def test_differences_are_found(ours: Json, theirs: Json, found: int) -> None:
    """A missing, unknown or optional field and another type are each one difference."""
    assert len(mismatches(ours, theirs, {})) == found


def test_a_value_is_checked_against_a_schema() -> None:
    """The schemas of the document are complete enough to refuse a wrong response."""
    schema = answer_schema(DESCRIBED["GET /berth/v1/capacity"], 200)
    assert schema is not None
    assert problems(schema, {"total": 3, "is_partial": False}) == []
    assert problems(schema, {"total": "3", "is_partial": False}) != []
