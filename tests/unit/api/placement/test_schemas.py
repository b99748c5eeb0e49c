"""The schemas of bodies and queries in each version."""

from typing import Any

import pytest

from berth.api.placement.schemas import allocations, building, providers, queries
from berth.api.placement.shapes import Steps, shape_at

U = "11111111-1111-4111-8111-111111111111"
OWNER = {"project_id": "p", "user_id": "u"}
HELD = {U: {"resources": {"VCPU": 1}}}
LISTED = [{"resource_provider": {"uuid": U}, "resources": {"VCPU": 1}}]
CLAIM = {"allocations": HELD, **OWNER}
SEEN = {"consumer_generation": None}
TYPED = {"consumer_type": "INSTANCE"}
MAPPED = {"mappings": {"": [U], "_NET-1": [U, U]}}
INVENTORIES = {"resource_provider_generation": 0, "inventories": {"VCPU": {"total": 1}}}

RIGHT: list[tuple[Steps, int, Any]] = [
    (providers.POST_PROVIDER, 0, {"name": "☃" * 200, "uuid": U.replace("-", "")}),
    (providers.POST_PROVIDER, 14, {"name": "", "parent_provider_uuid": None}),
    (providers.PUT_PROVIDER, 39, {"name": "x", "parent_provider_uuid": U}),
    (providers.PUT_INVENTORIES, 0, INVENTORIES),
    (providers.PUT_INVENTORIES, 0, {"resource_provider_generation": 0, "inventories": {}}),
    (
        providers.PUT_INVENTORY,
        0,
        {
            "resource_provider_generation": 1,
            "total": 2**31 - 1,
            "reserved": 0,
            "min_unit": 1,
            "max_unit": 1,
            "step_size": 1,
            "allocation_ratio": -2.5,
        },
    ),
    (providers.POST_INVENTORY, 0, {"resource_class": "CUSTOM_A_1", "total": 1.0}),
    (providers.PUT_AGGREGATES, 1, [U]),
    (providers.PUT_AGGREGATES, 19, {"aggregates": [], "resource_provider_generation": 0}),
    (providers.PUT_TRAITS, 6, {"traits": ["anything"], "resource_provider_generation": 0}),
    (building.POST_CLASS, 2, {"name": "CUSTOM_A"}),
    (allocations.PUT_ALLOCATIONS, 0, {"allocations": LISTED}),
    (allocations.PUT_ALLOCATIONS, 8, {"allocations": LISTED, **OWNER}),
    (allocations.PUT_ALLOCATIONS, 12, CLAIM),
    (
        allocations.PUT_ALLOCATIONS,
        12,
        {**CLAIM, "allocations": {U: {**HELD[U], "generation": 3}}},
    ),
    (allocations.PUT_ALLOCATIONS, 28, {**CLAIM, **SEEN, "allocations": {}}),
    (allocations.PUT_ALLOCATIONS, 34, {**CLAIM, "consumer_generation": 1, **MAPPED}),
    (allocations.PUT_ALLOCATIONS, 39, {**CLAIM, **SEEN, **TYPED}),
    (allocations.POST_ALLOCATIONS, 13, {U: {**CLAIM, "allocations": {}}}),
    (allocations.POST_ALLOCATIONS, 38, {U: {**CLAIM, **SEEN, **TYPED, **MAPPED}}),
    (allocations.POST_RESHAPER, 30, {"inventories": {U: INVENTORIES}, "allocations": {}}),
    (
        allocations.POST_RESHAPER,
        38,
        {"inventories": {U: INVENTORIES}, "allocations": {U: {**CLAIM, **SEEN, **TYPED}}},
    ),
    (queries.LIST_PROVIDERS, 0, {"name": "x", "uuid": U}),
    (queries.LIST_PROVIDERS, 39, {"in_tree": U, "required": "A", "resources": "", "member_of": ""}),
    (queries.LIST_TRAITS, 6, {"name": "in:A", "associated": "maybe"}),
    (queries.SHOW_USAGES, 9, {"project_id": "p", "user_id": "u"}),
    (queries.SHOW_USAGES, 38, {"project_id": "p", "consumer_type": "all"}),
    (queries.LIST_CANDIDATES, 10, {"resources": "VCPU:1"}),
    (queries.LIST_CANDIDATES, 21, {"resources": "", "limit": "1", "required": "", "member_of": ""}),
    (queries.LIST_CANDIDATES, 25, {"resources1": "VCPU:1", "group_policy": "isolate"}),
    (queries.LIST_CANDIDATES, 33, {"resources_A-b": "VCPU:1", "in_tree_A-b": U}),
    (queries.LIST_CANDIDATES, 36, {"root_required": "A", "same_subtree": "_A,_B"}),
]

WRONG: list[tuple[Steps, int, Any, str]] = [
    (providers.POST_PROVIDER, 0, {"name": "x", "parent_provider_uuid": U}, "was unexpected"),
    (providers.POST_PROVIDER, 0, {"nam": "x"}, "'name' is a required property"),
    (providers.POST_PROVIDER, 0, {"name": "x" * 201}, "is too long"),
    (providers.POST_PROVIDER, 0, {"name": 1}, "1 is not of type 'string'"),
    (providers.POST_PROVIDER, 0, {"name": "x", "uuid": "y"}, "'y' is not a 'uuid'"),
    (providers.PUT_PROVIDER, 39, {"name": "x", "uuid": U}, "was unexpected"),
    (
        providers.PUT_INVENTORY,
        0,
        {"resource_provider_generation": 1, "total": 0},
        "0 is less than the minimum of 1",
    ),
    (
        providers.PUT_INVENTORY,
        0,
        {"resource_provider_generation": 1, "total": 2**31},
        "Failed validating 'maximum'",
    ),
    (providers.PUT_INVENTORY, 0, {"total": 1}, "'resource_provider_generation' is a required"),
    (providers.POST_INVENTORY, 0, {"resource_class": "vcpu", "total": 1}, "does not match"),
    (
        providers.PUT_INVENTORIES,
        0,
        {"resource_provider_generation": 0, "inventories": {"vcpu": 5}},
        "5 is not of type 'object'",
    ),
    (providers.PUT_AGGREGATES, 1, [U, U], "has non-unique elements"),
    (providers.PUT_AGGREGATES, 19, [U], "is not of type 'object'"),
    (providers.PUT_TRAITS, 6, {"traits": [""], "resource_provider_generation": 0}, "''"),
    (building.POST_CLASS, 2, {"name": "IRON"}, "'IRON' does not match '^CUSTOM_[A-Z0-9_]+$'"),
    (allocations.PUT_ALLOCATIONS, 7, {"allocations": LISTED, **OWNER}, "were unexpected"),
    (allocations.PUT_ALLOCATIONS, 8, {"allocations": LISTED}, "is a required property"),
    (allocations.PUT_ALLOCATIONS, 11, CLAIM, "is not of type 'array'"),
    (allocations.PUT_ALLOCATIONS, 12, {**CLAIM, "allocations": {}}, "minProperties"),
    (allocations.PUT_ALLOCATIONS, 12, {**CLAIM, **SEEN}, "was unexpected"),
    (allocations.PUT_ALLOCATIONS, 28, CLAIM, "'consumer_generation' is a required property"),
    (allocations.PUT_ALLOCATIONS, 33, {**CLAIM, **SEEN, **MAPPED}, "was unexpected"),
    (allocations.PUT_ALLOCATIONS, 34, {**CLAIM, **SEEN, "mappings": {}}, "minProperties"),
    (allocations.PUT_ALLOCATIONS, 37, {**CLAIM, **SEEN, **TYPED}, "was unexpected"),
    (allocations.PUT_ALLOCATIONS, 38, {**CLAIM, **SEEN}, "'consumer_type' is a required property"),
    (allocations.PUT_ALLOCATIONS, 38, {**CLAIM, "more": 1}, "('more' was unexpected)"),
    (
        allocations.PUT_ALLOCATIONS,
        38,
        {**CLAIM, **SEEN, "consumer_type": "instance"},
        "'instance' does not match '^[A-Z0-9_]+$'",
    ),
    (
        allocations.PUT_ALLOCATIONS,
        12,
        {**CLAIM, "allocations": {U: {"resources": {"VCPU": 0}}}},
        "0 is less than the minimum of 1",
    ),
    (
        allocations.PUT_ALLOCATIONS,
        12,
        {**CLAIM, "allocations": {U: {"resources": {"VCPU": True}}}},
        "True is not of type 'integer'",
    ),
    (allocations.PUT_ALLOCATIONS, 12, {**CLAIM, "project_id": ""}, "minLength"),
    (allocations.POST_ALLOCATIONS, 13, {}, "minProperties"),
    (allocations.POST_ALLOCATIONS, 13, {"x": CLAIM}, "does not match any of the regexes"),
    (
        allocations.POST_RESHAPER,
        30,
        {"inventories": {}, "allocations": {}},
        "Failed validating 'minProperties' in schema['properties']['inventories']",
    ),
    (queries.LIST_PROVIDERS, 2, {"member_of": U}, "('member_of' was unexpected)"),
    (queries.LIST_PROVIDERS, 3, {"resources": "A:1"}, "('resources' was unexpected)"),
    (queries.LIST_PROVIDERS, 13, {"in_tree": U}, "('in_tree' was unexpected)"),
    (queries.LIST_PROVIDERS, 17, {"required": "A"}, "('required' was unexpected)"),
    (queries.LIST_PROVIDERS, 39, {"in_tree": "foo"}, "'foo' is not a 'uuid'"),
    (queries.SHOW_USAGES, 9, {}, "'project_id' is a required property"),
    (queries.SHOW_USAGES, 9, {"project_id": "p", "consumer_type": "A"}, "was unexpected"),
    (
        queries.SHOW_USAGES,
        38,
        {"project_id": "p", "consumer_type": "instance"},
        "'instance' does not match '^[A-Z0-9_]+$|^all|^unknown$'",
    ),
    (queries.LIST_CANDIDATES, 10, {"resources": "A:1", "limit": "1"}, "('limit' was unexpected)"),
    (
        queries.LIST_CANDIDATES,
        16,
        {"resources": "A:1", "limit": "0"},
        "Failed validating 'pattern'",
    ),
    (queries.LIST_CANDIDATES, 16, {"resources": "A:1", "required": "A"}, "was unexpected"),
    (queries.LIST_CANDIDATES, 17, {"resources": "A:1", "member_of": U}, "was unexpected"),
    (queries.LIST_CANDIDATES, 24, {"resources1": "A:1"}, "'resources' is a required property"),
    (queries.LIST_CANDIDATES, 25, {"group_policy": "maybe"}, "is not one of ['none', 'isolate']"),
    (queries.LIST_CANDIDATES, 25, {"resources01": "A:1"}, "does not match any of the regexes"),
    (queries.LIST_CANDIDATES, 30, {"in_tree": U}, "does not match any of the regexes"),
    (queries.LIST_CANDIDATES, 32, {"resources_A": "A:1"}, "does not match any of the regexes"),
    (queries.LIST_CANDIDATES, 34, {"root_required": "A"}, "does not match any of the regexes"),
    (queries.LIST_CANDIDATES, 35, {"same_subtree": "A"}, "does not match any of the regexes"),
]


@pytest.mark.parametrize(("steps", "minor", "value"), RIGHT)
def test_what_may_be(steps: Steps, minor: int, value: object) -> None:
    """A valid value is accepted from its version on."""
    assert shape_at(steps, minor).problem_of(value) is None


@pytest.mark.parametrize(("steps", "minor", "value", "text"), WRONG)
def test_what_may_not_be(steps: Steps, minor: int, value: object, text: str) -> None:
    """An invalid value has a problem with this text and is not plain."""
    shape = shape_at(steps, minor)
    assert text in (shape.problem_of(value) or "")
    assert shape.is_plain is None or not shape.is_plain(value)


ALL = [
    shape
    for module in (allocations, building, providers, queries)
    for steps in vars(module).values()
    if isinstance(steps, tuple) and steps and isinstance(steps[0], tuple)
    for _, shape in steps
]


def test_schemas_are_schemas() -> None:
    """All schemas are valid, which is not checked at each request."""
    assert len(ALL) > 30
    for shape in ALL:
        shape.validator.check_schema(dict(shape.schema))


@pytest.mark.parametrize(
    ("steps", "minor", "value"),
    [
        (allocations.PUT_ALLOCATIONS, 12, CLAIM),
        (allocations.PUT_ALLOCATIONS, 28, {**CLAIM, **SEEN, "allocations": {}}),
        (allocations.PUT_ALLOCATIONS, 36, {**CLAIM, **SEEN, **MAPPED}),
        (allocations.PUT_ALLOCATIONS, 39, {**CLAIM, **SEEN, **TYPED}),
        (allocations.POST_ALLOCATIONS, 39, {U: {**CLAIM, **SEEN, **TYPED, **MAPPED}}),
        (
            allocations.POST_RESHAPER,
            39,
            {"inventories": {U: INVENTORIES}, "allocations": {U: {**CLAIM, **SEEN, **TYPED}}},
        ),
        (providers.PUT_INVENTORIES, 0, INVENTORIES),
        (queries.LIST_CANDIDATES, 36, {"resources": "VCPU:1", "limit": "1000", "in_tree1": U}),
    ],
)
def test_what_comes_most_often_is_plain(steps: Steps, minor: int, value: object) -> None:
    """Common values are recognised as plain, which skips the schema."""
    shape = shape_at(steps, minor)
    assert shape.is_plain is not None
    assert shape.is_plain(value)
