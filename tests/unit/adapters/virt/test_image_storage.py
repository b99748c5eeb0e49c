"""Images of servers in a shared folder: which ones a host names as possible leftovers."""

import os
from pathlib import Path
from typing import cast
from uuid import UUID

import pytest

from berth.adapters.virt import image_storage
from berth.adapters.virt.image_storage import ServerImages
from berth.agent.executor.host_context import HostContext
from berth.agent.executor.leftovers import clear_leftover
from berth.domain.compute.step import LeftoverUse, LeftoverVerdict
from berth.ports.virt import OrphanFiles


def store(folder: Path, host: str, count: int) -> None:
    """Store images that a host has made."""
    for number in range(count):
        image = folder / "images" / str(UUID(int=number + (hash_of(host) << 64)))
        image.mkdir(parents=True)
        (image / "host").write_text(host)
        (image / "root.qcow2").write_text("data")
        os.utime(image, (1, 1))


def hash_of(host: str) -> int:
    """Return a number that differs between the hosts of these tests."""
    return sum(host.encode())


class Host:
    """A host whose gateway needs no image any more, as far as `clear_leftover` uses both."""

    host = "here"

    def __init__(self, images: ServerImages) -> None:
        self.images = images
        self.driver = self.gateway = self
        self.cleared: list[str] = []

    async def leftovers(self, image: str = "") -> list[OrphanFiles]:
        """See `VirtDriver.leftovers`."""
        return await (self.images.leftovers_at(image) if image else self.images.leftovers())

    async def drop_stored(self, address: str) -> None:
        """See `VirtDriver.drop_stored`."""
        await self.images.drop(address)

    async def judge_leftover(self, host: str, uuid: str, *, address: str) -> LeftoverVerdict:
        """See `HostGateway.judge_leftover`."""
        return LeftoverVerdict(LeftoverUse.UNNEEDED, "its record was deleted")

    async def report_image_cleared(self, host: str, image_id: str) -> None:
        """See `HostGateway.report_image_cleared`."""
        self.cleared.append(image_id)


async def test_all_images_of_a_removed_host_are_deleted(tmp_path: Path) -> None:
    """Each pass deletes the four that it names, however many there are."""
    store(tmp_path, "gone", 40)
    host = Host(ServerImages(tmp_path, "here", {}))
    context = cast("HostContext", host)
    left: list[int] = []
    for _ in range(10):
        found = [await clear_leftover(context, one) for one in await host.leftovers()]
        assert all(one is not None and one.is_repaired for one in found)
        left.append(len(list((tmp_path / "images").iterdir())))
    assert left == list(range(36, -1, -4))
    assert len(set(host.cleared)) == 40


async def test_one_image_is_looked_up_without_reading_the_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The folder of a cloud may contain many images."""
    store(tmp_path, "here", 1)
    images = ServerImages(tmp_path, "here", {})
    (own,) = await images.leftovers()
    store(tmp_path, "gone", 5)
    monkeypatch.setattr(image_storage, "_text", lambda path: pytest.fail(f"{path} was read"))
    assert await images.leftovers_at(own.address) == [own]
    await images.drop(own.address)
    assert await images.leftovers_at(own.address) == []
