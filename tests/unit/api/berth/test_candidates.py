"""Explanations of allocation candidates."""

import pytest

from berth.api.berth.schemas.candidates import CandidatesQuery
from berth.api.placement.schemas.queries import LIST_CANDIDATES
from tests.unit.api.cloud import Json, Stack

PATH = "/berth/v1/candidates/explain"
ALL = {"providers": 3, "trees": 3}
NONE = {"providers": 0, "trees": 0}


async def explained(stack: Stack, query: str) -> Json:
    """Return the explanation of a query."""
    answer = await stack.ask("GET", f"{PATH}?{query}")
    assert answer.status == 200, answer.body
    body: Json = answer.body
    return body


async def test_each_constraint_tells_what_it_leaves(stack: Stack) -> None:
    """Each step has the providers before and after it, and claims are included."""
    await stack.server(availability_zone="nova:host-1")
    body = await explained(stack, "resources=VCPU:15,MEMORY_MB:1")
    assert body["fleet"] == ALL
    assert body["ends_at"] is None
    steps = {(one["constraint"], *one["names"]): one for one in body["steps"]}
    assert steps["inventory", "VCPU"]["after"] == ALL
    assert steps["room", "VCPU"]["before"] == ALL
    assert steps["room", "VCPU"]["after"] == {"providers": 2, "trees": 2}
    assert steps["room", "VCPU"]["group"] == ""
    last = body["steps"][-1]
    assert (last["group"], last["constraint"]) == (None, "combination")
    assert last["after"] == {"providers": 2, "trees": 2}


async def test_what_leaves_nothing_is_named(stack: Stack) -> None:
    """`ends_at` is the index of the step that leaves nothing, which has its group."""
    query = "resources_A=VCPU:1&resources_B=MEMORY_MB:999999&group_policy=isolate"
    body = await explained(stack, query)
    step = body["steps"][body["ends_at"]]
    assert step == {
        "group": "_B",
        "constraint": "units",
        "names": ["MEMORY_MB"],
        "before": ALL,
        "after": NONE,
    }


@pytest.mark.parametrize(
    ("query", "text"),
    [
        ("", "There must be at least one resources"),
        ("resources=VCPU", "Badly formed resources parameter"),
        ("resources=VCPU:0", "requires amount >= 1"),
        ("resources=CUSTOM_NO:1", "No such resource class CUSTOM_NO"),
        ("resources=VCPU:1&required=CUSTOM_NO", "No such trait(s): CUSTOM_NO"),
        ("resources=VCPU:1&limit=0", "limit"),
        ("resources=VCPU:1&color=red", "color"),
        ("resources=%FF:1", "Invalid query string parameters"),
    ],
)
async def test_bad_queries_are_refused(stack: Stack, query: str, text: str) -> None:
    """The message is that of the Placement API, in the error form of this API."""
    answer = await stack.ask("GET", f"{PATH}?{query}")
    assert answer.status == 400
    assert text in answer.body["badRequest"]["message"]


async def test_only_administrators_ask(stack: Stack) -> None:
    """A user who is not an administrator gets 403."""
    answer = await stack.ask("GET", f"{PATH}?resources=VCPU:1", token="bob")
    assert answer.status == 403


async def test_a_server_without_the_placement_api_has_none() -> None:
    """A server without a provider table answers 404."""
    stack = Stack(has_providers=False)
    await stack.start()
    assert (await stack.ask("GET", f"{PATH}?resources=VCPU:1")).status == 404


def test_the_document_has_every_parameter() -> None:
    """The schema describes every query parameter."""
    schema = LIST_CANDIDATES[-1][1].schema
    grouped = {pattern.strip("^").partition("(")[0] for pattern in schema["patternProperties"]}
    assert {*CandidatesQuery.__struct_fields__} == grouped | schema["properties"].keys()
