"""The published OpenAPI document: valid, and complete with the Placement API."""

import re
from typing import Any

import jsonschema
import pytest
from schemathesis.specs.openapi.definitions import OPENAPI_31

from berth.api.app import OPERATIONS
from berth.api.placement.openapi import placement_paths
from berth.api.placement.routes import ACTIONS
from berth.api.placement.versions import MINOR_MAX
from berth.cli.commands.reference_files import openapi_file

DOCUMENT = openapi_file()
PATHS: dict[str, Any] = DOCUMENT["paths"]


def test_the_document_is_valid_openapi() -> None:
    """The document follows the schema of OpenAPI 3.1, and its schemas that of JSON Schema."""
    jsonschema.Draft202012Validator(OPENAPI_31).validate(DOCUMENT)
    for schema in DOCUMENT["components"]["schemas"].values():
        jsonschema.Draft202012Validator.check_schema(schema)


def test_an_invalid_document_is_noticed() -> None:
    """The schema that validates the document refuses a response without a description."""
    broken = {**DOCUMENT, "paths": {"/a": {"get": {"responses": {"200": {}}}}}}
    assert not jsonschema.Draft202012Validator(OPENAPI_31).is_valid(broken)


def test_every_operation_of_all_apis_is_described() -> None:
    """The document has the operations of the table of each API, and the newest of Placement."""
    described = {(method, path) for path, one in PATHS.items() for method in one}
    newest = [one for one in ACTIONS if one.until == MINOR_MAX]
    assert len(described) == len(OPERATIONS) + len(newest)
    assert {(one.method.lower(), f"/placement{one.path}") for one in newest} <= described


def test_parameters_in_paths_are_described() -> None:
    """Each operation describes exactly the parameters in its path."""
    for path, operations in PATHS.items():
        for method, one in operations.items():
            named = {each["name"] for each in one["parameters"] if each["in"] == "path"}
            assert named == set(re.findall(r"\{(\w+)\}", path)), (method, path)


def test_names_of_operations_are_unique() -> None:
    """Generators of clients use the operation ids as names."""
    names = [one["operationId"] for each in PATHS.values() for one in each.values()]
    assert len(names) == len(set(names))


@pytest.mark.parametrize("name", ["resources", "resources1", "required1", "group_policy", "limit"])
def test_a_query_of_candidates_has_its_groups(name: str) -> None:
    """The names that stand for numbered groups are described once, beside the fixed names."""
    one = placement_paths()["/placement/allocation_candidates"]["get"]
    assert [each["name"] for each in one["parameters"]].count(name) == 1
    assert one["description"] == "From microversion 1.10 on."


def test_a_body_is_that_of_the_newest_version() -> None:
    """Creating a provider takes a parent, which 1.14 added; renaming a class is gone since 1.7."""
    body = PATHS["/placement/resource_providers"]["post"]["requestBody"]
    schema = body["content"]["application/json"]["schema"]
    assert "parent_provider_uuid" in schema["properties"]
    assert "requestBody" not in PATHS["/placement/resource_classes/{name}"]["put"]
