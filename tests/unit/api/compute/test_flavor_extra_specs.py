"""Extra specs of flavors."""

import pytest

from tests.unit.api.cloud import Json, Stack

PATH = "/v2.1/flavors/small/os-extra_specs"


async def test_specs_are_set_and_read(stack: Stack) -> None:
    """Numbers are stored as strings."""
    body = {"extra_specs": {"hw:cpu_policy": "shared", "quota:x": 5, "y": 0.5}}
    answer = await stack.ask("POST", PATH, body)
    specs = {"hw:cpu_policy": "shared", "quota:x": "5", "y": "0.5"}
    assert answer.body == {"extra_specs": specs}
    assert (await stack.ask("GET", PATH, token="bob")).body == {"extra_specs": specs}
    shown = (await stack.ask("GET", "/v2.1/flavors/small", version="2.61")).body["flavor"]
    assert shown["extra_specs"] == specs


async def test_one_spec_is_read_written_and_removed(stack: Stack) -> None:
    """Each spec has its own path."""
    path = f"{PATH}/hw:numa_nodes"
    answer = await stack.ask("PUT", path, {"hw:numa_nodes": "1"})
    assert answer.body == {"hw:numa_nodes": "1"}
    assert (await stack.ask("GET", path)).body == {"hw:numa_nodes": "1"}
    assert (await stack.ask("DELETE", path)).status == 200
    assert (await stack.ask("GET", path)).status == 404
    assert (await stack.ask("DELETE", path)).status == 404


@pytest.mark.parametrize(
    "body",
    [
        {"extra_specs": {"a/b": "x"}},
        {"extra_specs": {"": "x"}},
        {"extra_specs": {"a": None}},
        {"extra_specs": {"a": "x" * 256}},
        {"extra_specs": {"resources:VCPU": "many"}},
        {"extra_specs": {"trait:HW_CPU_X86_AVX": "perhaps"}},
        {"specs": {}},
    ],
)
async def test_bad_specs_are_refused(stack: Stack, body: Json) -> None:
    """Invalid keys and values, including unusable resources and traits, are refused."""
    assert (await stack.ask("POST", PATH, body)).status == 400


@pytest.mark.parametrize("body", [{"other": "1"}, {}, {"x": "1", "other": "1"}])
async def test_the_body_must_fit_the_path(stack: Stack, body: Json) -> None:
    """The body must have exactly the spec of the path."""
    assert (await stack.ask("PUT", f"{PATH}/x", body)).status == 400


async def test_the_flavor_must_be_there(stack: Stack) -> None:
    """Each operation on an unknown flavor gets 404."""
    path = "/v2.1/flavors/none/os-extra_specs"
    assert (await stack.ask("GET", path)).status == 404
    assert (await stack.ask("POST", path, {"extra_specs": {"a": "b"}})).status == 404
    assert (await stack.ask("DELETE", f"{path}/a")).status == 404
