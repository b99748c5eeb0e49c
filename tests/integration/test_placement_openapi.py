"""The Placement API fails at no request, and refusals change nothing (schemathesis)."""

import asyncio
import os
from collections.abc import Iterator, Sequence
from typing import Any, Final

import schemathesis
from hypothesis import HealthCheck, settings
from schemathesis import Case
from schemathesis.checks import not_a_server_error
from schemathesis.schemas import BaseSchema

from berth.api.placement.actions import PlacementRoute
from berth.api.placement.app import build_placement_app
from berth.api.placement.routes import ACTIONS
from tests.integration.placement_nouns import PROVIDER, dump, failures, furnish, known
from tests.unit.api.placement.world import Json, World

# Of each operation; the variable asks for more.
EXAMPLES: Final = int(os.environ.get("BERTH_FUZZ_EXAMPLES", "8"))
_REFUSED: Final = 400
_GENERATION: Final = "resource_provider_generation"
MEANT: Final = {
    "resources": "^(VCPU|MEMORY_MB|CUSTOM_FAST):[1-9]$",
    "required": "^!?(CUSTOM_FAST|MISC_SHARES_VIA_AGGREGATE)$",
    "root_required": "^!?(CUSTOM_FAST|HW_CPU_X86_VMX)$",
    "member_of": "^!?[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-8[0-9a-f]{3}-[0-9a-f]{12}$",
}
"""Patterns for parameters that the schema allows to be any text."""

world = World()
asyncio.run(furnish(world))


def described(minor: int) -> Json:
    """Return an OpenAPI document of one microversion, made from the API's routes and schemas."""
    paths: Json = {}
    for action in ACTIONS:
        if action.since <= minor <= action.until and action.path:
            paths.setdefault(action.path, {})[action.method.lower()] = _operation(action, minor)
    return {"openapi": "3.1.0", "info": {"title": "Placement", "version": "1"}, "paths": paths}


def _operation(action: PlacementRoute, minor: int) -> Json:
    names = [part.partition("}")[0] for part in action.path.split("{")[1:]]
    parameters: list[Json] = [
        {"name": name, "in": "path", "required": True, "schema": {"type": "string", "minLength": 1}}
        for name in names
    ]
    query = _at(action.asks, minor)
    if query is not None:
        parameters += _parameters(query)
    operation: Json = {"parameters": parameters, "responses": {"default": {"description": ""}}}
    body = _at(action.takes, minor)
    if body is not None:
        content = {"application/json": {"schema": body}}
        operation["requestBody"] = {"required": True, "content": content}
    return operation


def _parameters(query: Json) -> Iterator[Json]:
    """Yield the parameters of a query, those of groups with and without a suffix."""
    named: Json = dict(query.get("properties", {}))
    for pattern, schema in query.get("patternProperties", {}).items():
        name = pattern.strip("^").partition("(")[0]
        named |= {name: schema, f"{name}1": schema}
    for name, schema in named.items():
        meant = MEANT.get(name.rstrip("1"), ".*")
        pattern = {"pattern": meant} if schema == {"type": "string"} else {}
        yield {"name": name, "in": "query", "schema": {**schema, **pattern}}


def _at(steps: Sequence[tuple[int, Any]] | None, minor: int) -> Json | None:
    found = [shape.schema for since, shape in steps or () if since <= minor]
    return found[-1] if found else None


def schema_of(minor: int) -> BaseSchema:
    """Return the schemathesis schema of one microversion."""
    schema = schemathesis.openapi.from_dict(described(minor))
    schema.app = build_placement_app(world.parts)
    return schema


oldest, middle, newest = map(schema_of, (0, 27, 39))


def send(case: Case[Any], minor: int) -> None:
    """Send a case, often to an existing record; check that only a successful write changes data."""
    generated = "".join(str(value) for value in (case.path_parameters or {}).values())
    if case.method != "DELETE" and len(generated) % 2:
        case.path_parameters = {name: known(name) for name in case.path_parameters}
        if isinstance(case.body, dict) and _GENERATION in case.body:
            told = asyncio.run(world.get(f"/resource_providers/{PROVIDER}"))
            case.body[_GENERATION] = told["generation"]
    before = asyncio.run(dump(world))
    version = f"placement 1.{minor}"
    answer = case.call(headers={"x-auth-token": "admin", "openstack-api-version": version})
    case.validate_response(answer, checks=[not_a_server_error])
    if answer.status_code >= _REFUSED or case.method == "GET":
        assert asyncio.run(dump(world)) == before
    assert failures(world) == []


_ANY = settings(max_examples=EXAMPLES, deadline=None, suppress_health_check=list(HealthCheck))


@newest.parametrize()
@_ANY
def test_the_newest_version_fails_at_nothing(case: Case[Any]) -> None:
    """No request to version 1.39 is a server error, and no refusal changes anything."""
    send(case, 39)


@middle.parametrize()
@_ANY
def test_a_version_between_fails_at_nothing(case: Case[Any]) -> None:
    """No request to version 1.27 is a server error, and no refusal changes anything."""
    send(case, 27)


@oldest.parametrize()
@_ANY
def test_the_oldest_version_fails_at_nothing(case: Case[Any]) -> None:
    """No request to version 1.0 is a server error, and no refusal changes anything."""
    send(case, 0)
