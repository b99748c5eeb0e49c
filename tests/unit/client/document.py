"""The OpenAPI document as tests of the client read it, and a transport that checks against it."""

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any
from urllib.parse import parse_qsl

import httpx
from jsonschema import Draft202012Validator
from starlette.types import ASGIApp

from berth.api.app import OPERATIONS
from berth.api.openapi import openapi_document

Json = dict[str, Any]

PREFIX = "/berth/v1/"
DOCUMENT: Json = json.loads(json.dumps(openapi_document(OPERATIONS, "1")))
_MANY = "request_id"
"""The one parameter of a path that may contain slashes."""
_SUFFIXED = re.compile(r"(resources|required|member_of|in_tree)[_0-9A-Z].*")


def operations() -> Iterator[tuple[str, str, Json]]:
    """Yield method, path and description of each operation of Berth's own API."""
    for path, methods in DOCUMENT["paths"].items():
        if path.startswith(PREFIX):
            for method, described in methods.items():
                yield method.upper(), path, described


def resolved(schema: Json) -> Json:
    """Return a schema, or that to which it refers."""
    found = schema
    while "$ref" in found:
        found = DOCUMENT["components"]["schemas"][found["$ref"].rpartition("/")[2]]
    return found


def body_schema(described: Json) -> Json | None:
    """Return the schema of the body of a request, or None if it has none."""
    if "requestBody" not in described:
        return None
    return resolved(described["requestBody"]["content"]["application/json"]["schema"])


def answer_schema(described: Json, status: int) -> Json | None:
    """Return the schema of the response with a status, or None if it has no content."""
    found = described["responses"][str(status)]
    if "$ref" in found:
        found = DOCUMENT["components"]["responses"][found["$ref"].rpartition("/")[2]]
    return found["content"]["application/json"]["schema"] if "content" in found else None


def operation_of(method: str, path: str) -> tuple[str, Json]:
    """Return the path and the description of the operation that serves a request."""
    candidates = [
        (route.count("{"), route, described)
        for known, route, described in operations()
        if known == method and re.fullmatch(_pattern(route), path)
    ]
    assert candidates, f"{method} {path} is not in the document"
    _, route, described = min(candidates, key=lambda one: one[0])
    return route, described


def _pattern(route: str) -> str:
    return re.sub(r"\{(\w+)\}", lambda m: ".+" if m[1] == _MANY else "[^/]+", route)


def problems(schema: Json, value: object) -> list[str]:
    """Return what a schema of the document has against a value."""
    whole = {**schema, "components": DOCUMENT["components"]}
    return [error.message for error in Draft202012Validator(whole).iter_errors(value)]


class CheckedTransport(httpx.AsyncBaseTransport):
    """Sends requests to an application in this process, and checks them and the responses.

    Args:
        app: the application.

    Attributes:
        done: the operations that have succeeded, as `METHOD path`.
    """

    def __init__(self, app: ASGIApp) -> None:
        self._inner = httpx.ASGITransport(app)
        self.done: set[str] = set()

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        """Return the response to a request, after the checks."""
        route, described = operation_of(request.method, request.url.path)
        _check_request(request, described)
        answer = await self._inner.handle_async_request(request)
        content = await answer.aread()
        schema = answer_schema(described, answer.status_code)
        if schema is None:
            assert content == b""
        else:
            assert problems(schema, json.loads(content)) == []
        if answer.is_success:
            self.done.add(f"{request.method} {route}")
        headers = [(k, v) for k, v in answer.headers.raw if k != b"content-length"]
        return httpx.Response(answer.status_code, headers=headers, content=content)


def _check_request(request: httpx.Request, described: Json) -> None:
    described_query = {
        p["name"]: p["schema"] for p in described["parameters"] if p["in"] == "query"
    }
    for name, text in parse_qsl(request.url.query.decode(), keep_blank_values=True):
        # The groups of a query for candidates have suffixes, which OpenAPI cannot describe.
        found = _SUFFIXED.fullmatch(name)
        schema = described_query[found[1] if found and name not in described_query else name]
        assert any(problems(schema, value) == [] for value in _readings(text)), (name, text)
    schema = body_schema(described)
    if schema is None:
        assert request.content == b""
    else:
        assert problems(schema, json.loads(request.content)) == []


def _readings(text: str) -> Iterator[object]:
    """Yield a query parameter as text, and as the JSON value that the text is, if it is one."""
    yield text
    try:
        yield json.loads(text)
    except ValueError:
        return


def mismatches(ours: Json, theirs: Json, components: Mapping[str, Json]) -> list[str]:
    """Return where a value of the client differs from the schema of a response.

    Args:
        ours: the JSON Schema of the client's type.
        theirs: the schema in the document.
        components: the schemas to which `ours` refers, by name.
    """
    return list(_Comparison(components).differences(ours, theirs, "$"))


class _Comparison:
    def __init__(self, components: Mapping[str, Json]) -> None:
        self._components = components
        self._compared: set[tuple[str, str]] = set()

    def differences(self, ours: Json, theirs: Json, where: str) -> Iterator[str]:
        pair = (ours.get("$ref", ""), theirs.get("$ref", ""))
        if all(pair):
            if pair in self._compared:
                return
            self._compared.add(pair)
        ours, theirs = self._own(ours), resolved(theirs)
        alternatives = [self._own(one) for one in ours.get("anyOf", [ours])]
        for sent in map(resolved, theirs.get("anyOf", [theirs])):
            fitting = [one for one in alternatives if _types(sent) <= _accepted(one)]
            if not fitting:
                yield f"{where}: {_types(sent)} is not among {[_accepted(a) for a in alternatives]}"
                continue
            yield from self._parts(fitting[0], sent, where)

    def _own(self, schema: Json) -> Json:
        while "$ref" in schema:
            schema = self._components[schema["$ref"].rpartition("/")[2]]
        return schema

    def _parts(self, ours: Json, theirs: Json, where: str) -> Iterator[str]:
        if "properties" in ours:
            yield from self._fields(ours, theirs, where)
        elif isinstance(ours.get("additionalProperties"), dict):
            given = theirs.get("additionalProperties")
            if not isinstance(given, dict):
                yield f"{where}: is no mapping"
                return
            yield from self.differences(ours["additionalProperties"], given, f"{where}.*")
        for index, (mine, sent) in enumerate(zip(_items(ours), _items(theirs), strict=True)):
            yield from self.differences(mine, sent, f"{where}[{index}]")

    def _fields(self, ours: Json, theirs: Json, where: str) -> Iterator[str]:
        mine, sent = ours["properties"], theirs.get("properties", {})
        yield from (f"{where}.{name}: the client lacks it" for name in sent.keys() - mine.keys())
        yield from (f"{where}.{name}: not in the document" for name in mine.keys() - sent.keys())
        needed = set(ours.get("required", ())) - set(theirs.get("required", ()))
        yield from (f"{where}.{name}: may be absent" for name in needed)
        for name in mine.keys() & sent.keys():
            yield from self.differences(mine[name], sent[name], f"{where}.{name}")


def _types(schema: Json) -> set[str]:
    if "type" in schema:
        return {schema["type"]}
    if "enum" in schema:
        return {"string" if isinstance(one, str) else "other" for one in schema["enum"]}
    return {"anything"}


def _accepted(schema: Json) -> set[str]:
    types = _types(schema)
    if types == {"number"}:
        return {"number", "integer"}
    if types == {"anything"}:
        return {"anything", "string", "number", "integer", "boolean", "null", "array", "object"}
    return types


def _items(schema: Json) -> list[Json]:
    fixed: list[Json] = schema.get("prefixItems", [])
    rest = schema.get("items")
    return [*fixed, rest] if isinstance(rest, dict) and rest else fixed
