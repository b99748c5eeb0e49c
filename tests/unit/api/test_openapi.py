"""The OpenAPI document, the tables it is generated from, and the page that describes them."""

import json
import re
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from berth.api.app import OPERATIONS
from berth.api.microversion import MAX, MIN
from berth.api.openapi import openapi_document
from berth.api.routing import ApiOperation, Role
from tests.unit.api.cloud import Stack

PAGE = Path(__file__).parents[3] / "docs" / "reference" / "http-api.md"
DOCUMENT: Any = json.loads(json.dumps(openapi_document(OPERATIONS, "1.2.3")))


def named(operation: ApiOperation) -> str:
    """Return the id of a test case."""
    return f"{operation.method} {operation.path}"


def shown_path(operation: ApiOperation) -> str:
    """Return the path of an operation in the document; only routes say that an id has slashes."""
    return operation.path.replace(":path}", "}")


async def test_the_document_is_served(stack: Stack) -> None:
    """The API serves the document."""
    answer = await stack.ask("GET", "/openapi.json")
    assert answer.status == 200
    assert answer.headers["content-type"] == "application/json"
    assert answer.body["paths"] == DOCUMENT["paths"]


def test_the_version_header_allows_the_microversions_of_the_service() -> None:
    """The pattern of the header matches each version up to the latest one, and no other."""
    described = DOCUMENT["paths"]["/v2.1/servers"]["post"]["parameters"]
    header = next(one for one in described if one["name"] == "OpenStack-API-Version")
    pattern = header["schema"]["pattern"]
    allowed = {minor for minor in range(200) if re.search(pattern, f"compute 2.{minor}")}
    assert allowed == set(range(MIN[1], MAX[1] + 1))


def test_every_reference_leads_somewhere() -> None:
    """Every reference resolves to a part of the document."""
    for reference in re.findall(r'"\$ref": "([^"]+)"', json.dumps(DOCUMENT)):
        found = DOCUMENT
        for part in reference.removeprefix("#/").split("/"):
            found = found[part]


def test_names_of_operations_are_unique() -> None:
    """Every operation has its own id, which client generators use as a method name."""
    named = [one for path in DOCUMENT["paths"].values() for one in path.values()]
    names = Counter(one["operationId"] for one in named)
    assert len(named) == len(OPERATIONS)
    assert [name for name, number in names.items() if number > 1] == []


@pytest.mark.parametrize("operation", OPERATIONS, ids=named)
def test_an_operation_is_described(operation: ApiOperation) -> None:
    """The description has a summary, the body, the parameters and the responses."""
    described = DOCUMENT["paths"][shown_path(operation)][operation.method.lower()]
    assert described["summary"].endswith(".") or described["summary"].endswith("501.")
    assert str(operation.status) in described["responses"]
    assert ("requestBody" in described) is (operation.body is not None)
    logs_in = operation.path.endswith("/auth/tokens")
    assert ("401" in described["responses"]) is (logs_in or operation.role is not Role.PUBLIC)
    in_path = [p["name"] for p in described["parameters"] if p["in"] == "path"]
    assert in_path == re.findall(r"{(\w+)}", shown_path(operation))


@pytest.mark.parametrize("operation", OPERATIONS, ids=named)
def test_the_reference_page_has_every_operation(operation: ApiOperation) -> None:
    """The reference page has a row for each operation."""
    row = rf"\| `{operation.method} {re.escape(shown_path(operation))}` \|"
    assert re.search(row, PAGE.read_text())
