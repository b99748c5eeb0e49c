"""Generates the OpenAPI document from the tables of operations and their schemas."""

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any

from berth.api.assertions import AssertedIdentity
from berth.api.codec import schemas_of
from berth.api.errors import FaultBody
from berth.api.header_fields import FORCE_HEADER
from berth.api.microversion import MAX, MIN, Version, text_of
from berth.api.routing import ApiOperation, Role

Json = dict[str, Any]

_REFS = "#/components/schemas/{name}"
_PARAMETER = re.compile(r"\{(\w+)(?::path)?\}")
_COMPUTE = "/v2.1/"
_FAULT_REF = {"$ref": "#/components/responses/Fault"}
_VERSION_HEADER: Json = {
    "name": "OpenStack-API-Version",
    "in": "header",
    "required": False,
    "description": f"`compute X.Y`, {text_of(MIN)} to {text_of(MAX)}, or `compute latest`.",
    "schema": {"type": "string", "pattern": r"^compute (latest|2\.([1-9][0-9]?|10[0-4]))$"},
}
_IDEMPOTENCY_HEADER: Json = {
    "name": "Idempotency-Key",
    "in": "header",
    "required": False,
    "description": "Requests with the same key in the same project are treated as one.",
    "schema": {"type": "string", "minLength": 1, "maxLength": 255, "pattern": "^[!-~]+$"},
}
_STATEMENT_HEADER: Json = {
    "name": "X-Berth-Zone-Statement",
    "in": "header",
    "required": True,
    "description": "Names the tenant for which the parent zone sends the request, and signs both.",
    "schema": {"type": "string", "minLength": 1, "maxLength": 4096},
}
_FORCE_HEADER: Json = {
    "name": FORCE_HEADER,
    "in": "header",
    "required": False,
    "description": "For administrators: `true` overrides the safety check of this operation.",
    "schema": {"type": "boolean"},
}
# Each of these small APIs has one tag, which keeps the document's navigation short.
_WHOLE_ROOMS = frozenset({"identity", "image", "zones"})
_EMPTY = 204
_TOKENS = "/auth/tokens"
_ZONES = "/zones"
_FORCED = frozenset(
    {
        ("POST", "/v2.1/servers/{server_id}/action"),
        ("PUT", "/v2.1/os-aggregates/{aggregate_id}"),
        ("POST", "/v2.1/os-aggregates/{aggregate_id}/action"),
        ("PUT", "/berth/v1/instances/{instance_uuid}/zone"),
    }
)
_KEYED = frozenset({"/v2.1/servers", "/berth/v1/decide", "/zones/servers", "/zones/boot"})


def openapi_document(operations: Sequence[ApiOperation], version: str) -> Json:
    """Return the OpenAPI 3.1 document that describes all operations.

    Args:
        operations: every operation that is served.
        version: version of the document.
    """
    kinds: list[type] = [FaultBody]
    for operation in operations:
        kinds += [k for k in (operation.query, operation.body, operation.answers) if k]
    kinds = list(dict.fromkeys(kinds))
    schemas, components = schemas_of(kinds, _REFS)
    by_kind = dict(zip(kinds, schemas, strict=True))
    paths: Json = {}
    names: Counter[str] = Counter()
    for operation in operations:
        described = _describe(operation, by_kind, components)
        # Operation ids must be unique, and one handler may serve several paths.
        name = operation.handler.__name__
        names[name] += 1
        described["operationId"] = name if names[name] == 1 else f"{name}_{names[name]}"
        # A parameter that may contain slashes is written `{name:path}` in routes.
        path = operation.path.replace(":path}", "}")
        paths.setdefault(path, {})[operation.method.lower()] = described
    return {
        "openapi": "3.1.0",
        "info": {"title": "Berth", "version": version, "license": {"name": "Apache-2.0"}},
        "paths": paths,
        "components": {
            "schemas": components,
            "responses": {"Fault": _fault_response(by_kind[FaultBody])},
            "securitySchemes": {
                "basic": {"type": "http", "scheme": "basic"},
                "token": {"type": "apiKey", "in": "header", "name": "X-Auth-Token"},
            },
        },
    }


def _fault_response(fault: Json) -> Json:
    schema = {
        "type": "object",
        "minProperties": 1,
        "maxProperties": 1,
        "additionalProperties": fault,
    }
    return {
        "description": "The code and the message of the error, under the name of the fault.",
        "content": {"application/json": {"schema": schema}},
    }


def _describe(operation: ApiOperation, by_kind: dict[type, Json], components: Json) -> Json:
    described: Json = {
        "summary": (operation.handler.__doc__ or "").partition("\n")[0],
        "tags": [_tag_of(operation.path)],
        "parameters": list(_parameters(operation, by_kind, components)),
        "responses": _responses(operation, by_kind),
    }
    if operation.role is not Role.PUBLIC:
        described["security"] = [{}, {"basic": []}, {"token": []}]
    if operation.body is not None:
        content = {"application/json": {"schema": by_kind[operation.body]}}
        described["requestBody"] = {"required": True, "content": content}
    note = _availability(operation.since, operation.until)
    if operation.role is Role.ADMIN:
        note = f"{note} Only for administrators.".strip()
    if operation.stated is AssertedIdentity.MAY:
        note = f"{note} Parent zones use it for their tenants, with X-Berth-Zone-Statement.".strip()
    if note:
        described["description"] = note
    return described


def _tag_of(path: str) -> str:
    _, room, *rest = path.split("/")
    if room in _WHOLE_ROOMS:
        return room
    return (rest[0] if rest else "") or "versions"


def _availability(since: Version, until: Version) -> str:
    if since > MIN:
        return f"From microversion {text_of(since)} on."
    return f"Up to microversion {text_of(until)}." if until < MAX else ""


def _parameters(
    operation: ApiOperation, by_kind: dict[type, Json], components: Json
) -> Iterable[Json]:
    for name in _PARAMETER.findall(operation.path):
        schema = {"type": "string", "minLength": 1, "maxLength": 255}
        yield {"name": name, "in": "path", "required": True, "schema": schema}
    if operation.query is not None:
        reference: str = by_kind[operation.query]["$ref"]
        query = components[reference.rpartition("/")[2]]
        required = query.get("required", ())
        for name, schema in query["properties"].items():
            yield {
                "name": name,
                "in": "query",
                "required": name in required,
                "schema": _without_null(schema),
            }
    if operation.path.startswith(_COMPUTE) and operation.role is not Role.PUBLIC:
        yield _VERSION_HEADER
    if operation.path in _KEYED and operation.method == "POST":
        yield _IDEMPOTENCY_HEADER
    if (operation.method, operation.path) in _FORCED:
        yield _FORCE_HEADER
    if operation.stated is AssertedIdentity.MUST:
        yield _STATEMENT_HEADER


def _without_null(schema: Json) -> Json:
    """Return the schema without `null` if one type remains, because a query cannot contain null."""
    choices = [one for one in schema.get("anyOf", ()) if one != {"type": "null"}]
    return choices[0] if len(choices) == 1 else schema


def _responses(operation: ApiOperation, by_kind: dict[type, Json]) -> Json:
    success: Json = {"description": "Success."}
    if operation.answers is not None:
        success["content"] = {"application/json": {"schema": by_kind[operation.answers]}}
    statuses = [400, 405, 414, 431, 500, 503]
    if operation.path.startswith(_COMPUTE):
        statuses.append(406)
    if operation.role is not Role.PUBLIC or operation.path.endswith(_TOKENS):
        statuses += [401, 403, 404, 429]
    elif "{" in operation.path:
        # A parameter that contains a slash makes a path that no route serves.
        statuses.append(404)
    if operation.path.endswith("/{tag}") and operation.method == "PUT":
        statuses.append(204)
    if operation.body is not None:
        statuses += [408, 413, 415]
    if operation.method != "GET" or operation.path.endswith("/write-off"):
        statuses.append(409)
    is_about_zones = operation.stated is not AssertedIdentity.NEVER or operation.path.startswith(
        _ZONES
    )
    if is_about_zones or operation.path.endswith("{server_id}/action"):
        statuses.append(501)
    responses: Json = {str(operation.status): success}
    if operation.older_status is not None:
        responses[str(operation.older_status)] = success
    responses |= {str(status): _FAULT_REF for status in sorted(statuses) if status != _EMPTY}
    if _EMPTY in statuses:
        responses[str(_EMPTY)] = {"description": "The server already has the tag."}
    return responses
