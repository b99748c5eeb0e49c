"""The disks of guests of the QEMU driver, over resizes and moves, as qemu-img finds them."""

import errno
from collections.abc import AsyncGenerator
from dataclasses import replace
from pathlib import Path

import pytest

from berth.adapters.virt import disks
from berth.adapters.virt.disks import virtual_bytes
from berth.adapters.virt.qemu.driver import QemuDriver
from berth.domain.compute.build_failure import BuildError
from berth.domain.compute.flavor import Image
from berth.domain.compute.instance import Instance
from berth.domain.errors import DriverError
from berth.ports.virt import Power
from berth.testing.driver_conformance.rig import (
    HERE,
    THERE,
    clean,
    eventually,
    powers,
    start,
    stub_instance,
)
from tests.conformance.qemu_rig import STUB, QemuRig, require_qemu

GB = 1024**3
MB = 1024**2


@pytest.fixture
async def rig(tmp_path: Path) -> AsyncGenerator[QemuRig]:
    """Yield a rig with two hosts."""
    require_qemu()
    rig = QemuRig(tmp_path)
    async with clean(rig):
        yield rig


@pytest.fixture
async def driver(rig: QemuRig) -> QemuDriver:
    """Return the driver of the first host."""
    return await rig.open()


@pytest.fixture
def instance() -> Instance:
    """Return an instance of the stub guest, with a disk of each kind."""
    instance = stub_instance(Image(STUB))
    return sized(instance, root_gb=1, ephemeral_gb=1, swap_mb=16)


def sized(instance: Instance, **changes: int) -> Instance:
    """Return an instance with a flavor of another size."""
    flavor = replace(instance.flavor, **changes)  # type: ignore[arg-type]
    return replace(instance, flavor=flavor)


async def sizes(rig: QemuRig, instance: Instance, host: int = HERE) -> dict[str, int]:
    """Return the sizes in bytes of a guest's disks, by name."""
    folder = rig.hosts[host].state_dir / instance.uuid
    files = sorted(folder.glob("*.qcow2"))
    return {file.stem: await virtual_bytes(str(file), "qcow2") for file in files}


def fill(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make every fsync fail, as on a full disk."""

    def fails(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr("os.fsync", fails)


@pytest.mark.parametrize("verb", ["pause", "suspend", "offer_disks", "stop"])
async def test_a_full_disk_fails_what_is_asked_and_the_guest_goes_on(
    rig: QemuRig,
    driver: QemuDriver,
    instance: Instance,
    monkeypatch: pytest.MonkeyPatch,
    verb: str,
) -> None:
    """On a full disk a call raises DriverError, and except for a pause the guest stays as it is."""
    await start(driver, instance)
    if verb == "offer_disks":
        await driver.stop(instance.uuid, grace_s=0)
    before = await powers(driver)
    with monkeypatch.context() as patch:
        fill(patch)
        with pytest.raises(DriverError, match="No space left"):
            await (
                driver.stop(instance.uuid, grace_s=0)
                if verb == "stop"
                else getattr(driver, verb)(instance.uuid)
            )
        assert verb == "pause" or await powers(driver) == before
    driver = await rig.open()
    assert verb == "pause" or await powers(driver) == before
    await driver.stop(instance.uuid, grace_s=0)
    assert await powers(driver) == {instance.uuid: Power.STOPPED}


async def test_a_guest_can_be_destroyed_on_a_full_disk(
    driver: QemuDriver, instance: Instance, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A guest can be destroyed on a full disk, which frees space."""
    await start(driver, instance)
    fill(monkeypatch)
    await driver.destroy(instance.uuid)
    assert await powers(driver) == {}


async def test_one_guest_that_ends_on_a_full_disk_hides_no_other(
    rig: QemuRig, driver: QemuDriver, instance: Instance, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A guest that ends on a full disk keeps its state until the new one can be stored."""
    await start(driver, instance)
    fill(monkeypatch)
    await rig.type(instance.uuid, "p")
    process = rig.process(instance.uuid)

    async def is_off() -> bool:
        (found,) = await driver.guests()
        return "No space left" in found.reason

    await eventually(is_off)
    assert await powers(driver) == {instance.uuid: Power.RUNNING}
    monkeypatch.undo()
    assert await powers(driver) == {instance.uuid: Power.STOPPED}
    assert not process.is_alive()


async def test_disks_that_cannot_be_stored_are_an_error(
    rig: QemuRig, driver: QemuDriver, instance: Instance
) -> None:
    """Storing disks raises DriverError if the shared folder cannot be used, and can be retried."""
    await start(driver, instance)
    await driver.stop(instance.uuid, grace_s=0)
    (rig.folder / "stored").write_text("no folder")
    with pytest.raises(DriverError, match="stored"):
        await driver.store_disks(instance.uuid)
    (rig.folder / "stored").unlink()
    await driver.drop_stored(await driver.store_disks(instance.uuid))


async def test_stored_disks_that_cannot_be_deleted_are_not_forgotten(
    rig: QemuRig, driver: QemuDriver, instance: Instance, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Stored disks that cannot be deleted are listed as leftovers, and can be dropped later."""
    await start(driver, instance)
    await driver.stop(instance.uuid, grace_s=0)
    address = await driver.store_disks(instance.uuid)
    await driver.destroy(instance.uuid)
    with monkeypatch.context() as patch:
        patch.setattr("berth.adapters.virt.disk_storage.shutil.rmtree", lambda *_, **__: None)
        with pytest.raises(DriverError, match="cannot delete"):
            await driver.drop_stored(address)
    (found,) = await driver.leftovers()
    assert found.address == address
    await driver.drop_stored(address)
    assert not list((rig.folder / "stored").iterdir())


async def test_stored_disks_that_cannot_be_looked_at_fail_the_build(
    driver: QemuDriver, instance: Instance, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A build raises BuildError if the stored disks cannot be read."""
    await start(driver, instance)
    await driver.stop(instance.uuid, grace_s=0)
    address = await driver.store_disks(instance.uuid)
    await driver.destroy(instance.uuid)

    def fails(_: Path) -> bool:
        raise OSError(errno.ESTALE, "Stale file handle")

    with monkeypatch.context() as patch:
        patch.setattr(Path, "is_dir", fails)
        with pytest.raises(BuildError, match="Stale"):
            await driver.fetch_disks(instance, address)
    await driver.drop_stored(address)


async def test_all_disks_grow_with_the_flavor(
    rig: QemuRig, driver: QemuDriver, instance: Instance
) -> None:
    """All disks grow to the sizes of a larger flavor."""
    await start(driver, instance)
    await driver.stop(instance.uuid, grace_s=0)
    larger = sized(instance, root_gb=2, ephemeral_gb=3, swap_mb=32)
    assert await driver.resize(larger)
    assert await sizes(rig, larger) == {"root": 2 * GB, "ephemeral": 3 * GB, "swap": 32 * MB}


@pytest.mark.parametrize("swap_mb", [0, 8])
async def test_swap_shrinks_with_the_flavor(
    rig: QemuRig, driver: QemuDriver, instance: Instance, swap_mb: int
) -> None:
    """A resize shrinks or removes the swap disk, and the guest still starts and moves."""
    await start(driver, instance)
    await driver.stop(instance.uuid, grace_s=0)
    smaller = sized(instance, swap_mb=swap_mb)
    assert await driver.resize(smaller)
    assert (await sizes(rig, smaller)).get("swap", 0) == swap_mb * MB
    await driver.spawn(smaller)
    there = await rig.open(THERE)
    address = await there.take_in(smaller)
    await driver.hand_over(smaller.uuid, address)
    assert await powers(there) == {smaller.uuid: Power.RUNNING}


async def test_a_guest_moves_live_after_it_has_grown(
    rig: QemuRig, driver: QemuDriver, instance: Instance
) -> None:
    """A guest can move live after its disks have grown, and has them on the other host."""
    await start(driver, instance)
    await driver.stop(instance.uuid, grace_s=0)
    larger = sized(instance, ephemeral_gb=2, swap_mb=32)
    await driver.resize(larger)
    await driver.spawn(larger)
    there = await rig.open(THERE)
    address = await there.take_in(larger)
    await driver.hand_over(larger.uuid, address)
    assert await powers(there) == {larger.uuid: Power.RUNNING}
    assert (await sizes(rig, larger, THERE))["ephemeral"] == 2 * GB


@pytest.mark.parametrize("output", [b"{}", b'{"virtual-size": "big"}'])
async def test_a_disk_without_a_reported_size_is_an_error(
    monkeypatch: pytest.MonkeyPatch, output: bytes
) -> None:
    """The error names the disk whose size qemu-img does not report."""

    async def run(*_: str) -> bytes:
        return output

    monkeypatch.setattr(disks, "run", run)
    with pytest.raises(DriverError, match=r"no virtual size for /images/a\.img"):
        await virtual_bytes("/images/a.img", "raw")
