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


@pytest.mark.parametrize("count", [128, 129])
async def test_the_number_of_items_is_a_quota(stack: Stack, count: int) -> None:
    """More items than a server can have get 403, however they are sent."""
    items = {str(number): "x" for number in range(count)}
    body = {"name": "vm", "flavorRef": "small", "metadata": items}
    allowed = count == 128
    answer = await stack.ask("POST", "/v2.1/servers", {"server": body})
    assert answer.status == (202 if allowed else 403)
    uuid = await stack.server()
    path = f"/v2.1/servers/{uuid}"
    for method in ("POST", "PUT"):
        answer = await stack.ask(method, f"{path}/metadata", {"metadata": items})
        assert answer.status == (200 if allowed else 403)
    await stack.activate(uuid)
    args = {"imageRef": "70a599e0-31e7-49b7-b260-868f441e862b", "metadata": items}
    answer = await stack.ask("POST", f"{path}/action", {"rebuild": args})
    assert answer.status == (202 if allowed else 403)


async def test_the_quota_limits_the_items_of_a_server(stack: Stack, path: str) -> None:
    """A create, an update and a rebuild with more items are refused; a server keeps what it has."""
    quota = {"quota_set": {"metadata_items": 1}}
    changed = await stack.ask("PUT", "/v2.1/os-quota-sets/admin", quota)
    assert changed.body["quota_set"]["metadata_items"] == 1
    limits = (await stack.ask("GET", "/v2.1/limits")).body["limits"]["absolute"]
    assert limits["maxServerMeta"] == 1
    server = {"name": "vm", "flavorRef": "small", "metadata": {"a": "1", "b": "2"}}
    image = {"imageRef": "70a599e0-31e7-49b7-b260-868f441e862b"}
    rebuild = {"rebuild": {**image, "metadata": {"a": "1", "b": "2", "c": "3"}}}
    action = f"{path.removesuffix('/metadata')}/action"
    for method, url, body in (
        ("POST", "/v2.1/servers", {"server": server}),
        ("POST", path, {"metadata": {"c": "3"}}),
        ("PUT", f"{path}/c", {"meta": {"c": "3"}}),
        ("POST", action, rebuild),
    ):
        refused = await stack.ask(method, url, body)
        assert refused.status == 403
        message = refused.body["forbidden"]["message"]
        assert message == "Maximum number of metadata items exceeds 1"
    assert (await stack.ask("PUT", path, {"metadata": {"x": "1", "y": "2"}})).status == 200
    assert (await stack.ask("PUT", f"{path}/x", {"meta": {"x": "3"}})).status == 200
    assert (await stack.ask("DELETE", f"{path}/x")).status == 204
    unlimited = {"quota_set": {"metadata_items": -1}}
    await stack.ask("PUT", "/v2.1/os-quota-sets/admin", unlimited)
    assert (await stack.ask("POST", "/v2.1/servers", {"server": server})).status == 202
    more = {"quota_set": {"metadata_items": 129}}
    assert (await stack.ask("PUT", "/v2.1/os-quota-sets/admin", more)).status == 400
