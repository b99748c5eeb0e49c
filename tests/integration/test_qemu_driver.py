"""The QEMU driver where it differs from others: hung processes, broken folders, real disks."""

import asyncio
import os
import signal
import sys
from collections.abc import AsyncGenerator
from dataclasses import replace
from pathlib import Path
from typing import cast

import msgspec
import pytest

from berth.adapters.system import SystemClock
from berth.adapters.virt import accelerator
from berth.adapters.virt.accelerator import Accelerator, accelerator_of, boots
from berth.adapters.virt.disks import make_blank, virtual_bytes
from berth.adapters.virt.images import ImageFile, ImageFormat
from berth.adapters.virt.inventory import InventorySettings
from berth.adapters.virt.processes import HostProcess, holding, run
from berth.adapters.virt.qemu import machine as machine_module
from berth.adapters.virt.qemu.driver import QemuDriver
from berth.adapters.virt.qemu.machine import Machine
from berth.adapters.virt.qemu.spec import QemuFolder
from berth.domain.compute.build_failure import BuildError
from berth.domain.compute.flavor import Image
from berth.domain.compute.instance import Instance
from berth.domain.errors import DriverError, MigrationError
from berth.ports.virt import IMAGE_ADDRESS, Power, VirtDriver
from berth.testing.driver_conformance.rig import (
    HERE,
    THERE,
    clean,
    eventually,
    guest_of,
    powers,
    start,
    starts,
    stub_instance,
    wait_until_started,
)
from tests.conformance.qemu_rig import STUB, QemuRig, require_qemu
from tests.integration.rescue_boots import boot_images, check_boots

GB = 1024**3


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
    """Return an instance of the stub guest."""
    return stub_instance(Image(STUB))


def with_host(rig: QemuRig, **changes: object) -> VirtDriver:
    """Return a driver of the first host with other settings."""
    host = replace(rig.hosts[HERE], **changes)  # type: ignore[arg-type]
    return QemuDriver(host, rig.images, SystemClock(), InventorySettings(host.state_dir))


async def test_a_guest_that_hangs_with_its_process_is_left_alone(
    rig: QemuRig, driver: QemuDriver, instance: Instance, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A guest whose process hangs counts as running, is not started twice, and can be destroyed."""
    monkeypatch.setattr(machine_module, "_ANSWER_S", 0.2)
    await start(driver, instance)
    process = rig.process(instance.uuid)
    os.kill(process.pid, signal.SIGSTOP)
    found = await guest_of(driver, instance)
    assert found is not None
    assert (found.power, "did not answer" in found.reason) == (Power.RUNNING, True)
    await driver.spawn(instance)
    assert rig.process(instance.uuid) == process
    os.kill(process.pid, signal.SIGCONT)
    await driver.reset(instance.uuid)
    os.kill(process.pid, signal.SIGSTOP)
    await driver.destroy(instance.uuid)
    assert not process.is_alive()


async def test_the_next_agent_ends_the_qemu_img_of_an_unfinished_build(
    rig: QemuRig, driver: QemuDriver, instance: Instance
) -> None:
    """A qemu-img that outlives its agent ends, so it cannot write to a removed guest's folder."""
    await start(driver, instance)
    machine_folder = QemuFolder(rig.hosts[HERE].state_dir, instance.uuid)
    spec = machine_folder.read()
    assert spec is not None
    await rig.close()
    machine_folder.write(msgspec.structs.replace(spec, is_built=False))
    disk = str(machine_folder.disk("root"))
    code = "import time; time.sleep(60)"
    left = await asyncio.create_subprocess_exec(
        "qemu-img", "-c", code, disk, executable=sys.executable
    )
    try:
        assert await (await rig.open()).guests() == []
        assert await asyncio.wait_for(left.wait(), 5) == -signal.SIGKILL
    finally:
        if left.returncode is None:
            left.kill()
            await left.wait()
    assert not machine_folder.path.exists()


async def forked(folder: Path) -> HostProcess:
    """Start a process as an agent forks qemu-img, whose agent dies before it is qemu-img."""
    fd = os.open(folder, os.O_PATH | os.O_DIRECTORY)
    try:
        # The shell ends at once, so its child is not a child of this process.
        text = await run("sh", "-c", "sleep 60 >/dev/null 2>&1 & echo $!", fds=[fd])
    finally:
        os.close(fd)
    (found,) = [one for one in holding(folder) if one.pid == int(text)]
    return found


async def test_a_destroyed_guest_leaves_no_program_that_writes_to_its_folder(
    rig: QemuRig, driver: QemuDriver, instance: Instance
) -> None:
    """A program of an earlier agent ends even if it has been forked and not executed yet."""
    await start(driver, instance)
    folder = rig.hosts[HERE].state_dir / instance.uuid
    left = await forked(folder)
    # A reader of the folder, such as a backup, is none of the driver's business.
    reader = await asyncio.create_subprocess_exec("sleep", "60", stdin=os.open(folder, os.O_RDONLY))
    try:
        await driver.destroy(instance.uuid)
        assert not left.is_alive()
        assert reader.returncode is None
    finally:
        left.kill()
        reader.kill()
        await reader.wait()
    assert not folder.exists()


async def test_a_folder_without_a_record_is_deleted_once_no_program_uses_it(
    rig: QemuRig, driver: QemuDriver, instance: Instance
) -> None:
    """This also applies when the guest's spec is lost, and when a build is given up."""
    folder = QemuFolder(rig.hosts[HERE].state_dir, instance.uuid)
    folder.path.mkdir(parents=True)
    left = await forked(folder.path)
    try:
        await driver.destroy(instance.uuid)
        assert not left.is_alive()
    finally:
        left.kill()
    assert not folder.path.exists()


async def test_an_unfinished_guest_that_cannot_be_removed_does_not_block_the_others(
    rig: QemuRig, driver: QemuDriver, instance: Instance, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The error is not ignored: the removal is repeated until the folder is gone."""
    await start(driver, instance)
    folder = QemuFolder(rig.hosts[HERE].state_dir, instance.uuid)
    spec = folder.read()
    assert spec is not None
    process = rig.process(instance.uuid)
    await rig.close()
    folder.write(msgspec.structs.replace(spec, is_built=False))

    def refuse(path: Path, *, missing_ok: bool = False) -> None:
        raise PermissionError(1, "not permitted", str(path))

    with monkeypatch.context() as patch:
        patch.setattr(Path, "unlink", refuse)
        driver = await rig.open()
        assert await driver.guests() == []
        assert not process.is_alive()
        with pytest.raises(DriverError, match=r"cannot delete .*not permitted"):
            await driver.destroy(instance.uuid)
        assert folder.path.exists()
    assert await driver.guests() == []
    assert not folder.path.exists()


async def test_an_image_leaves_space_in_the_storage(
    rig: QemuRig, driver: QemuDriver, instance: Instance
) -> None:
    """A copy that would use the reserved space does not begin, and leaves nothing."""
    await start(driver, replace(instance, flavor=replace(instance.flavor, root_gb=1)))
    await rig.close()
    careful = with_host(rig, storage_reserved_gb=2**20)
    assert isinstance(careful, QemuDriver)
    image_id = "00000000-0000-4000-8000-000000000001"
    with pytest.raises(DriverError, match=r"must remain free \(virt.storage_reserved_gb\)"):
        await careful.store_image(instance.uuid, image_id)
    storage = rig.hosts[HERE].storage_dir
    assert storage is not None
    assert list((storage / "images").iterdir()) == []
    await careful.close()
    driver = await rig.open()
    size = await driver.store_image(instance.uuid, image_id)
    assert size.virtual_bytes == GB
    await driver.drop_stored(f"{IMAGE_ADDRESS}{image_id}")


async def test_the_next_agent_ends_the_copy_of_a_disk(
    rig: QemuRig, driver: QemuDriver, instance: Instance, tmp_path: Path
) -> None:
    """QEMU would otherwise write to the image for as long as the guest runs."""
    await start(driver, replace(instance, flavor=replace(instance.flavor, root_gb=1)))
    await rig.close()
    host = rig.hosts[HERE]
    spec = QemuFolder(host.state_dir, instance.uuid).read()
    assert spec is not None
    machine = Machine(host, SystemClock(), spec, lambda _: None)
    await machine.attach(rig.process(instance.uuid))
    target = tmp_path / "image.qcow2"
    await make_blank(target, await virtual_bytes(str(machine.folder.disk("root")), "qcow2"))
    file = {"driver": "file", "filename": str(target)}
    await machine.execute("blockdev-add", {"driver": "qcow2", "node-name": "image", "file": file})
    job = {"job-id": "image", "device": "root", "target": "image", "sync": "full"}
    await machine.execute("blockdev-backup", {**job, "auto-finalize": False})
    await machine.detach()
    driver = await rig.open()
    assert len(await driver.guests()) == 1
    await rig.close()
    await machine.attach(rig.process(instance.uuid))
    assert await machine.execute("query-jobs") == []
    nodes = cast("list[dict[str, object]]", await machine.execute("query-named-block-nodes"))
    assert "image" not in {node["node-name"] for node in nodes}
    await machine.detach()


async def test_a_process_that_hangs_is_adopted_when_it_answers(
    rig: QemuRig, driver: QemuDriver, instance: Instance, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A hanging process counts as running, and can be used once it answers."""
    await start(driver, instance)
    monkeypatch.setattr(machine_module, "_CONNECT_S", 0.2)
    process = rig.process(instance.uuid)
    os.kill(process.pid, signal.SIGSTOP)
    driver = await rig.open()
    assert await powers(driver) == {instance.uuid: Power.RUNNING}
    os.kill(process.pid, signal.SIGCONT)
    monkeypatch.setattr(machine_module, "_CONNECT_S", 10.0)
    await driver.pause(instance.uuid)
    assert await powers(driver) == {instance.uuid: Power.PAUSED}


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"binary": "no-such-qemu"}, "no-such-qemu cannot be started"),
        ({"machine": "pc-q35-0.1"}, "unsupported machine type"),
        ({"cpu_model": "abacus"}, "abacus"),
    ],
)
async def test_a_build_that_fails_tells_what_qemu_said(
    rig: QemuRig, instance: Instance, changes: dict[str, str], told: str
) -> None:
    """A failed build raises BuildError with QEMU's message, and leaves no guest."""
    driver = with_host(rig, **changes)
    with pytest.raises(BuildError, match=told):
        await driver.spawn(instance)
    assert list(await driver.guests()) == []
    with pytest.raises(BuildError, match=told):
        await driver.take_in(instance)
    assert list(await driver.guests()) == []


async def test_a_guest_without_an_image_blames_no_host(
    driver: QemuDriver, instance: Instance
) -> None:
    """A build without an image raises an error that does not blame the host."""
    with pytest.raises(BuildError) as raised:
        await driver.spawn(replace(instance, image=None))
    assert not raised.value.blames_host


async def test_what_an_agent_had_half_built_is_cleared_away(
    rig: QemuRig, driver: QemuDriver, instance: Instance
) -> None:
    """A half-built guest is not listed, and the next build starts afresh."""
    await driver.spawn(instance)
    await driver.stop(instance.uuid, grace_s=0)
    await rig.close()
    folder = QemuFolder(rig.hosts[HERE].state_dir, instance.uuid)
    spec = folder.read()
    assert spec is not None
    folder.write(msgspec.structs.replace(spec, is_built=False))
    folder.disk("root").write_text("half a disk")
    driver = await rig.open()
    assert list(await driver.guests()) == []
    await start(driver, replace(instance, flavor=replace(instance.flavor, root_gb=1)))


async def test_the_memory_of_a_suspended_guest_takes_room_no_longer_than_needed(
    rig: QemuRig, driver: QemuDriver, instance: Instance
) -> None:
    """The memory file of a suspended guest is deleted when the guest is resumed or stopped."""
    memory = QemuFolder(rig.hosts[HERE].state_dir, instance.uuid).memory
    await start(driver, instance)
    for go_on in (driver.resume(instance.uuid), driver.stop(instance.uuid, grace_s=0)):
        await driver.suspend(instance.uuid)
        assert memory.exists()
        await go_on
        assert not memory.exists()


async def test_a_broken_spec_costs_one_guest_only(
    rig: QemuRig, driver: QemuDriver, instance: Instance
) -> None:
    """A guest with a broken spec is an orphan whose disks are kept; others are adopted."""
    other = replace(instance, uuid=instance.uuid[:-1] + "9")
    await start(driver, instance)
    await driver.spawn(other)
    await rig.close()
    (rig.hosts[HERE].state_dir / instance.uuid / "spec.json").write_text("{")
    driver = await rig.open()
    found = await guest_of(driver, instance)
    assert found is not None
    assert found.is_orphan
    assert (await powers(driver))[other.uuid] is Power.RUNNING
    await rig.crash(instance.uuid)
    assert await guest_of(driver, instance) is None
    with pytest.raises(BuildError, match="move them away"):
        await driver.spawn(instance)
    await driver.destroy(instance.uuid)


async def test_a_move_goes_on_when_the_agent_has_died(
    rig: QemuRig, driver: QemuDriver, instance: Instance
) -> None:
    """The guest arrives though its agent died, and the next agent cleans up the source."""
    there = await rig.open(THERE)
    await start(driver, instance)
    address = await there.take_in(instance)
    await rig.stall(instance.uuid)
    move = asyncio.ensure_future(driver.hand_over(instance.uuid, address))
    await asyncio.sleep(0.3)
    move.cancel()
    await asyncio.gather(move, return_exceptions=True)
    await rig.close()
    there = await rig.open(THERE)

    async def has_arrived() -> bool:
        return (await powers(there))[instance.uuid] is Power.RUNNING

    await eventually(has_arrived)
    driver = await rig.open()
    found = await guest_of(driver, instance)
    assert found is not None
    assert (found.power, "moved to another host" in found.reason) == (Power.PAUSED, True)
    await driver.hand_over(instance.uuid, address)
    assert await powers(driver) == {}


async def test_a_guest_stays_when_its_target_dies(
    rig: QemuRig, driver: QemuDriver, instance: Instance
) -> None:
    """A guest whose target dies during a move stays, and nothing is left on the target."""
    there = await rig.open(THERE)
    await start(driver, instance)
    address = await there.take_in(instance)
    await rig.stall(instance.uuid)
    move = asyncio.ensure_future(driver.hand_over(instance.uuid, address))
    await asyncio.sleep(0.3)
    await rig.crash(instance.uuid, THERE)
    with pytest.raises(MigrationError, match="stays"):
        await move
    assert await powers(driver) == {instance.uuid: Power.RUNNING}
    assert await powers(there) == {}
    await driver.stop(instance.uuid, grace_s=60)


async def test_a_guest_stays_when_its_target_is_another_machine(
    rig: QemuRig, driver: QemuDriver, instance: Instance
) -> None:
    """A move to a guest with another memory size fails, and the guest stays."""
    there = await rig.open(THERE)
    await start(driver, instance)
    larger = replace(instance, flavor=replace(instance.flavor, memory_mb=8))
    address = await there.take_in(larger)
    with pytest.raises(MigrationError, match="stays"):
        await driver.hand_over(instance.uuid, address)
    assert await powers(driver) == {instance.uuid: Power.RUNNING}
    await driver.reset(instance.uuid)
    await wait_until_started(driver, instance, count=2)

    async def is_gone() -> bool:
        return await powers(there) == {}

    await eventually(is_gone)


async def test_a_paused_guest_with_disks_does_not_move(
    rig: QemuRig, driver: QemuDriver, instance: Instance
) -> None:
    """A move of a paused guest with disks is refused, and the guest stays paused."""
    with_disk = replace(instance, flavor=replace(instance.flavor, root_gb=1))
    there = await rig.open(THERE)
    await driver.spawn(with_disk)
    await driver.pause(instance.uuid)
    with pytest.raises(MigrationError, match="paused guest with disks"):
        await driver.hand_over(instance.uuid, await there.take_in(with_disk))
    assert await powers(driver) == {instance.uuid: Power.PAUSED}


async def disk_image(folder: Path, size: str = "2G") -> ImageFile:
    """Create a disk image with some data, and return its record."""
    file = folder / "image.qcow2"
    await run("qemu-img", "create", "-q", "-f", "qcow2", str(file), size)
    await run("qemu-io", "-f", "qcow2", "-c", "write -q -P 5 0 64k", str(file))
    return ImageFile("disk", file, ImageFormat.QCOW2)


async def test_a_root_disk_rests_on_its_image(
    rig: QemuRig, driver: QemuDriver, instance: Instance
) -> None:
    """A root disk has the image's data and the flavor's size, and moves without the image."""
    rig.images["disk"] = await disk_image(rig.folder)
    flavor = replace(instance.flavor, memory_mb=64, root_gb=3, ephemeral_gb=1, swap_mb=16)
    one = replace(instance, image=Image("disk"), flavor=flavor)
    await driver.spawn(one)
    await driver.stop(one.uuid, grace_s=0)
    folder = rig.hosts[HERE].state_dir / one.uuid
    sizes = [
        await virtual_bytes(str(folder / f"{name}.qcow2"), "qcow2")
        for name in ("root", "ephemeral", "swap")
    ]
    assert sizes == [3 * GB, GB, 16 * 1024**2]
    assert await rig.read_disk(one.uuid) == 5
    there = await rig.open(THERE)
    await there.fetch_disks(one, await driver.offer_disks(one.uuid))
    rig.images.clear()
    assert await rig.read_disk(one.uuid, THERE) == 5
    await there.spawn(one)
    assert await powers(there) == {one.uuid: Power.RUNNING}


async def test_what_boots_no_disk_needs_its_image(
    rig: QemuRig, driver: QemuDriver, instance: Instance
) -> None:
    """A guest that boots from a firmware image is not started without that image."""
    one = replace(instance, flavor=replace(instance.flavor, root_gb=1))
    await start(driver, one)
    await driver.stop(one.uuid, grace_s=0)
    image = rig.images.pop(STUB)
    with pytest.raises(BuildError, match="no file for image"):
        await driver.spawn(one)
    assert await powers(driver) == {one.uuid: Power.STOPPED}
    rig.images[STUB] = image
    await start(driver, one, count=2)


async def test_a_disk_is_as_large_as_its_image_at_least(
    rig: QemuRig, driver: QemuDriver, instance: Instance
) -> None:
    """A flavor with a smaller disk than the image is refused; one without a size is not."""
    rig.images["disk"] = await disk_image(rig.folder)
    flavor = replace(instance.flavor, memory_mb=64, root_gb=1)
    one = replace(instance, image=Image("disk"), flavor=flavor)
    with pytest.raises(BuildError, match="needs a root disk of 2147483648 bytes") as raised:
        await driver.spawn(one)
    assert not raised.value.blames_host
    assert list(await driver.guests()) == []
    await driver.spawn(replace(one, flavor=replace(flavor, root_gb=0)))
    assert await powers(driver) == {one.uuid: Power.RUNNING}


async def test_without_a_shared_folder_nothing_is_stored(rig: QemuRig, instance: Instance) -> None:
    """Without a shared folder, storing disks raises an error that names the setting."""
    driver = with_host(rig, storage_dir=None)
    assert isinstance(driver, QemuDriver)
    await driver.spawn(instance)
    await driver.stop(instance.uuid, grace_s=0)
    with pytest.raises(DriverError, match="storage_dir"):
        await driver.store_disks(instance.uuid)
    await driver.close()


async def test_the_probe_tells_what_works(rig: QemuRig, monkeypatch: pytest.MonkeyPatch) -> None:
    """The probe finds that TCG works, and fails for a missing program or a guest never ready."""
    host = rig.hosts[HERE]
    assert await boots(host, Accelerator.TCG)
    assert not await boots(replace(host, binary="no-such-qemu"), Accelerator.TCG)
    auto = replace(host, accelerator=Accelerator.AUTO)
    works = await boots(auto, Accelerator.KVM)
    expected = Accelerator.KVM if works else Accelerator.TCG
    assert await accelerator_of(auto) is expected
    monkeypatch.setattr(accelerator, "READY", "never")
    monkeypatch.setattr(accelerator, "_PROBE_S", 0.3)
    assert not await boots(host, Accelerator.TCG)


@pytest.mark.parametrize("root_gb", [0, 1])
async def test_a_guest_that_has_moved_goes_on_before_anybody_looks(
    rig: QemuRig, driver: QemuDriver, instance: Instance, root_gb: int
) -> None:
    """A guest that has moved runs on the target before any agent looks at it."""
    one = replace(instance, flavor=replace(instance.flavor, root_gb=root_gb))
    there = await rig.open(THERE)
    await start(driver, one)
    await driver.hand_over(one.uuid, await there.take_in(one))
    await rig.type(one.uuid, "t", THERE)

    async def has_ticked() -> bool:
        return "tick" in await there.console(one.uuid, bytes_max=1_000)

    await eventually(has_ticked)


async def test_a_report_names_the_hypervisor(driver: QemuDriver) -> None:
    """A report has the hypervisor's type, QEMU's version and the kinds of guests."""
    host = (await driver.report()).host
    assert host.hypervisor_type == "QEMU"
    assert host.hypervisor_version >= 2_000_000
    assert ("x86_64", "qemu", "hvm") in host.supported_instances


async def test_many_guests_are_adopted_together(
    rig: QemuRig, driver: QemuDriver, instance: Instance
) -> None:
    """A new agent adopts eight running guests and starts none of them again."""
    many = [replace(instance, uuid=f"{instance.uuid[:-2]}{number:02d}") for number in range(8)]
    await asyncio.gather(*(start(driver, one) for one in many))
    driver = await rig.open()
    assert await powers(driver) == {one.uuid: Power.RUNNING for one in many}
    assert [len(await starts(driver, one)) for one in many] == [1] * 8


async def test_a_host_under_another_name_does_nothing_with_the_guests(
    rig: QemuRig, driver: QemuDriver, instance: Instance
) -> None:
    """A driver with another host name refuses to list or destroy the guests of a state folder."""
    await start(driver, instance)
    renamed = with_host(rig, name="another-host")
    with pytest.raises(DriverError, match="holds the guests of host"):
        await renamed.guests()
    with pytest.raises(DriverError, match="holds the guests of host"):
        await renamed.destroy(instance.uuid)
    assert await powers(driver) == {instance.uuid: Power.RUNNING}


@pytest.mark.parametrize("in_place", [False, True])
async def test_a_rescued_guest_boots_from_the_rescue_disk(
    rig: QemuRig, tmp_path: Path, *, in_place: bool
) -> None:
    """It does so in either order of the disks, and boots from its own disk afterwards."""
    rig.images |= boot_images(tmp_path, in_place=in_place)
    await check_boots(await rig.open())
