"""The image proxy of the compute API, up to microversion 2.35."""

import pytest

from berth.domain.compute.flavor import Image
from tests.unit.api.cloud import Stack
from tests.unit.api.conftest import MakeStack

IMAGES = {
    "1": Image("1", "small", {"hw_disk_bus": "virtio", "auto_disk_config": "True"}),
    "2": Image("2", "large", min_memory_mb=64, min_disk_gb=3),
    "3": Image("3"),
}


@pytest.fixture
async def shop(make_stack: MakeStack) -> Stack:
    """Return a stack with three images."""
    return await make_stack(images=IMAGES)


@pytest.mark.parametrize(
    ("query", "ids"),
    [
        ("", ["3", "2", "1"]),
        ("?name=small", ["1"]),
        ("?name=3", ["3"]),
        ("?status=ACTIVE", ["3", "2", "1"]),
        ("?status=saving", []),
        ("?minRam=64", ["2"]),
        ("?minDisk=3", ["2"]),
        ("?property-hw_disk_bus=virtio", ["1"]),
        ("?property-hw_disk_bus=scsi", []),
        ("?limit=2", ["3", "2"]),
        ("?limit=2&marker=2", ["1"]),
        ("?unknown=x", ["3", "2", "1"]),
    ],
)
async def test_images_are_listed_by_name(shop: Stack, query: str, ids: list[str]) -> None:
    """The filters select images with all requested values, with and without details."""
    for path in ("/v2.1/images", "/v2.1/images/detail"):
        answer = await shop.ask("GET", path + query)
        assert [image["id"] for image in answer.body["images"]] == ids
        assert ("images_links" in answer.body) == (query == "?limit=2")
        assert ("metadata" in str(answer.body)) == (path.endswith("detail") and bool(ids))


async def test_an_image_is_shown(shop: Stack) -> None:
    """An image has Nova's fields, and its properties as metadata."""
    image = (await shop.ask("GET", "/v2.1/images/1")).body["image"]
    assert (image["name"], image["status"], image["progress"]) == ("small", "ACTIVE", 100)
    assert image["metadata"]["hw_disk_bus"] == "virtio"
    assert image["OS-DCF:diskConfig"] == "AUTO"
    assert [link["rel"] for link in image["links"]] == ["self", "bookmark", "alternate"]
    answer = await shop.ask("GET", image["links"][2]["href"].removeprefix("http://berth.test"))
    assert answer.body["id"] == "1"
    other = (await shop.ask("GET", "/v2.1/images/2")).body["image"]
    assert (other["minRam"], other["minDisk"]) == (64, 3)
    assert "OS-DCF:diskConfig" not in other
    assert (await shop.ask("GET", "/v2.1/images/4")).status == 404


async def test_properties_are_shown(shop: Stack) -> None:
    """The properties can be read together and one by one."""
    path = "/v2.1/images/1/metadata"
    assert (await shop.ask("GET", path)).body == {"metadata": IMAGES["1"].properties}
    answer = await shop.ask("GET", f"{path}/hw_disk_bus")
    assert answer.body == {"meta": {"hw_disk_bus": "virtio"}}
    assert (await shop.ask("GET", f"{path}/none")).status == 404


@pytest.mark.parametrize(
    ("path", "until"),
    [
        ("/v2.1/images", 35),
        ("/v2.1/images/detail", 35),
        ("/v2.1/images/1", 35),
        ("/v2.1/images/1/metadata", 38),
        ("/v2.1/images/1/metadata/hw_disk_bus", 38),
    ],
)
async def test_later_microversions_have_no_images(shop: Stack, path: str, until: int) -> None:
    """The proxy ends with 2.35, and with 2.38 for metadata."""
    assert (await shop.ask("GET", path, version=f"2.{until}")).status == 200
    assert (await shop.ask("GET", path, version=f"2.{until + 1}")).status == 404


async def test_images_cannot_be_deleted(shop: Stack) -> None:
    """A delete is refused, and its message says where images are declared."""
    answer = await shop.ask("DELETE", "/v2.1/images/1")
    assert answer.status == 403
    assert "api.images" in answer.body["forbidden"]["message"]
