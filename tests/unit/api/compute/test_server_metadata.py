"""Metadata of servers in the compute API."""

import pytest

from tests.unit.api.cloud import Json, Stack


@pytest.fixture
async def path(stack: Stack) -> str:
    """Return the path of the metadata of a server with two items."""
    return f"/v2.1/servers/{await stack.server(metadata={'a': '1', 'b': '2'})}/metadata"


async def items(stack: Stack, path: str) -> Json:
    """Return all items."""
    found: Json = (await stack.ask("GET", path)).body["metadata"]
    return found


async def test_items_are_added(stack: Stack, path: str) -> None:
    """POST adds and overwrites items, and returns all of them."""
    answer = await stack.ask("POST", path, {"metadata": {"b": "3", "c": "4"}})
    assert answer.status == 200
    assert answer.body["metadata"] == {"a": "1", "b": "3", "c": "4"}
    assert await items(stack, path) == {"a": "1", "b": "3", "c": "4"}


async def test_items_are_replaced(stack: Stack, path: str) -> None:
    """PUT replaces all items."""
    await stack.ask("PUT", path, {"metadata": {"z": ""}})
    assert await items(stack, path) == {"z": ""}


async def test_one_item_is_read_written_and_removed(stack: Stack, path: str) -> None:
    """Each item has its own path."""
    assert (await stack.ask("GET", f"{path}/a")).body == {"meta": {"a": "1"}}
    answer = await stack.ask("PUT", f"{path}/a", {"meta": {"a": "9"}})
    assert answer.body == {"meta": {"a": "9"}}
    assert (await stack.ask("DELETE", f"{path}/b")).status == 204
    assert await items(stack, path) == {"a": "9"}
    assert (await stack.ask("GET", f"{path}/b")).status == 404
    assert (await stack.ask("DELETE", f"{path}/b")).status == 404


@pytest.mark.parametrize(
    "body", [{"meta": {"b": "1"}}, {"meta": {}}, {"meta": {"a": "1", "b": "1"}}, {"meta": {"a": 1}}]
)
async def test_the_body_must_fit_the_path(stack: Stack, path: str, body: Json) -> None:
    """The body must have exactly the item of the path."""
    assert (await stack.ask("PUT", f"{path}/a", body)).status == 400


async def test_items_are_counted(stack: Stack, path: str) -> None:
    """More than 128 items get 403, as with Nova's quota."""
    many = {f"k{index}": "v" for index in range(127)}
    assert (await stack.ask("POST", path, {"metadata": many})).status == 403
    assert len(await items(stack, path)) == 2
