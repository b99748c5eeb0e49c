"""Describes the Placement API for the OpenAPI document, from its routes and schemas."""

import re
from collections import Counter
from collections.abc import Iterator
from typing import Any, Final

from berth.api.placement.actions import PUBLIC, PlacementRoute
from berth.api.placement.routes import ACTIONS, PREFIX
from berth.api.placement.shapes import Steps
from berth.api.placement.versions import MINOR_MAX

Json = dict[str, Any]

_NAME: Final = re.compile(r"\{(\w+)\}")
_GROUP: Final = re.compile(r"\^(\w+)\(")
_VERSION_HEADER: Final[Json] = {
    "name": "OpenStack-API-Version",
    "in": "header",
    "required": False,
    "description": f"`placement 1.N`, 1.0 to 1.{MINOR_MAX}, or `placement latest`; 1.0 by default.",
    "schema": {"type": "string"},
}
_ERROR: Final[Json] = {
    "type": "object",
    "required": ["errors"],
    "properties": {
        "errors": {
            "type": "array",
            "items": {
                "type": "object",
                "required": ["status", "title", "detail"],
                "properties": {
                    "status": {"type": "integer"},
                    "title": {"type": "string"},
                    "detail": {"type": "string"},
                    "code": {"type": "string"},
                    "request_id": {"type": "string"},
                },
            },
        }
    },
}


def placement_paths() -> Json:
    """Return the paths of the Placement API in its newest microversion, with its prefix.

    An operation that an earlier microversion has in another form is described in the newest one.
    """
    paths: Json = {}
    names: Counter[str] = Counter()
    for action in ACTIONS:
        if action.until < MINOR_MAX:
            continue
        name = f"placement_{action.handler.__name__}"
        names[name] += 1
        described = {
            "operationId": name if names[name] == 1 else f"{name}_{names[name]}",
            **_operation(action),
        }
        paths.setdefault(PREFIX + action.path, {})[action.method.lower()] = described
    return paths


def _operation(action: PlacementRoute) -> Json:
    described: Json = {
        "summary": (action.handler.__doc__ or "").partition("\n")[0],
        "tags": ["placement"],
        "parameters": list(_parameters(action)),
        "responses": {
            "2XX": {"description": "Success."},
            "default": {
                "description": "The errors; before 1.23 without a code.",
                "content": {"application/json": {"schema": _ERROR}},
            },
        },
    }
    if action.rule != PUBLIC:
        described["security"] = [{"basic": []}, {"token": []}]
    if action.since:
        described["description"] = f"From microversion 1.{action.since} on."
    body = _newest(action.takes)
    if body is not None:
        content = {"application/json": {"schema": body}}
        described["requestBody"] = {"required": True, "content": content}
    return described


def _parameters(action: PlacementRoute) -> Iterator[Json]:
    for name in _NAME.findall(action.path):
        schema = {"type": "string", "minLength": 1}
        yield {"name": name, "in": "path", "required": True, "schema": schema}
    query = _newest(action.asks) or {}
    required = query.get("required", ())
    for name, schema in query.get("properties", {}).items():
        yield {"name": name, "in": "query", "required": name in required, "schema": schema}
    for pattern, schema in query.get("patternProperties", {}).items():
        # OpenAPI cannot describe names by a pattern, so one suffix stands for all of them.
        for group in _GROUP.findall(pattern):
            text = f"Any suffix in place of 1 names another group, by the pattern `{pattern}`."
            plain = {"name": group, "in": "query", "required": False, "schema": schema}
            yield plain
            yield {**plain, "name": f"{group}1", "description": text}
    yield _VERSION_HEADER


def _newest(steps: Steps | None) -> Json | None:
    """Return the newest schema of a body or a query."""
    return None if not steps else dict(steps[-1][1].schema)
