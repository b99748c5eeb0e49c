"""The image API."""

import pytest

from berth.domain.compute.flavor import Image
from tests.unit.api.cloud import Stack
from tests.unit.api.conftest import MakeStack

IMAGES = {
    "1": Image("1", "small", {"hw_disk_bus": "virtio", "disk_format": "qcow2", "id": "9"}),
    "2": Image("2", "large", min_memory_mb=64, min_disk_gb=3),
    "3": Image("3"),
}
PATH = "/image/v2/images"


@pytest.fixture
async def shop(make_stack: MakeStack) -> Stack:
    """Return a stack with three images."""
    return await make_stack(images=IMAGES)


async def test_an_image_is_shown_with_its_properties(shop: Stack) -> None:
    """Properties do not replace the image's own fields, and unknown fields are null."""
    image = (await shop.ask("GET", f"{PATH}/1")).body
    assert (image["id"], image["name"], image["status"]) == ("1", "small", "active")
    assert (image["hw_disk_bus"], image["disk_format"]) == ("virtio", "qcow2")
    assert image["size"] is None
    other = (await shop.ask("GET", f"{PATH}/2")).body
    assert (other["min_ram"], other["min_disk"], other["disk_format"]) == (64, 3, "raw")
    assert (await shop.ask("GET", f"{PATH}/3")).body["name"] == "3"
    missing = await shop.ask("GET", f"{PATH}/small")
    assert (missing.status, list(missing.body)) == (404, ["itemNotFound"])


@pytest.mark.parametrize(
    ("query", "ids"),
    [
        ("", ["3", "2", "1"]),
        ("?name=small", ["1"]),
        ("?name=in:small,large", ["2", "1"]),
        ("?id=in:1,3,7", ["3", "1"]),
        ("?visibility=all&status=active", ["3", "2", "1"]),
        ("?visibility=private", []),
        ("?status=queued", []),
        ("?owner=web", []),
        ("?tag=x", []),
        ("?os_hidden=true", []),
        ("?os_hidden=False", ["3", "2", "1"]),
        ("?hw_disk_bus=virtio", ["1"]),
        ("?nonsense=x", []),
        ("?sort=name:asc&limit=2", ["3", "2"]),
        ("?limit=2&marker=2", ["1"]),
    ],
)
async def test_images_are_listed_by_name(shop: Stack, query: str, ids: list[str]) -> None:
    """The filters select images with all requested values, also under other paths."""
    for path in (PATH, "/v2.1/v2/images"):
        answer = await shop.ask("GET", path + query)
        assert [image["id"] for image in answer.body["images"]] == ids


async def test_pages_follow_each_other(shop: Stack) -> None:
    """Links to pages are paths from the root of the API, as in Glance."""
    first = (await shop.ask("GET", f"{PATH}?limit=2&status=active")).body
    assert first["first"] == "/v2/images?status=active"
    last = (await shop.ask("GET", f"/image{first['next']}")).body
    assert [image["id"] for image in last["images"]] == ["1"]
    assert "next" not in last
    assert (await shop.ask("GET", f"{PATH}?marker=9")).status == 400


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("POST", ""),
        ("PATCH", "/1"),
        ("DELETE", "/1"),
        ("GET", "/1/file"),
        ("PUT", "/1/file"),
    ],
)
async def test_nothing_can_be_changed(shop: Stack, method: str, path: str) -> None:
    """Changes and downloads get 403."""
    answer = await shop.ask(method, PATH + path, {} if method != "GET" else None)
    assert answer.status == 403
    assert (await shop.ask("PUT", PATH, {})).status == 405


@pytest.mark.parametrize("path", ["/image", "/image/", "/image/v2", "/image/v2/"])
async def test_versions_are_public(shop: Stack, path: str) -> None:
    """The version document has a link to the API."""
    (version,) = (await shop.ask("GET", path)).body["versions"]
    assert version["status"] == "CURRENT"
    assert version["links"][0]["href"] == "http://berth.test/image/v2/"


async def test_schemas_describe_what_there_is(shop: Stack) -> None:
    """The schema has exactly the fields of an image."""
    schema = (await shop.ask("GET", "/image/v2/schemas/image")).body
    image = (await shop.ask("GET", f"{PATH}/2")).body
    assert set(schema["properties"]) == set(image)
    assert (await shop.ask("GET", "/image/v2/schemas/images")).body["name"] == "images"
