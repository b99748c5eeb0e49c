"""The libvirt driver where it differs from others: libvirtd dies, hangs and is restarted."""

import asyncio
import contextlib
import errno
import os
import signal
import socket
from collections.abc import AsyncGenerator, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import pytest

from berth.adapters.system import SystemClock
from berth.adapters.virt.guest_folder import CONSOLE_BYTES_MAX
from berth.adapters.virt.inventory import InventorySettings
from berth.adapters.virt.libvirt.driver import LibvirtDriver
from berth.adapters.virt.libvirt.guest_registry import LibvirtFolder
from berth.adapters.virt.machine_facts import Linux
from berth.domain.compute.build_failure import BuildError
from berth.domain.compute.flavor import Image
from berth.domain.compute.instance import Instance
from berth.domain.errors import DriverError, UnavailableError
from berth.ports.virt import Power
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
)
from tests.conformance.libvirt_rig import Daemon, LibvirtRig, two_daemons
from tests.conformance.qemu_rig import STUB
from tests.integration.rescue_boots import boot_images, check_boots


@pytest.fixture(scope="module")
def daemons(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Sequence[Daemon]]:
    """Yield two libvirtds."""
    with two_daemons(tmp_path_factory.mktemp("libvirt")) as made:
        yield made


@pytest.fixture
async def rig(tmp_path: Path, daemons: Sequence[Daemon]) -> AsyncGenerator[LibvirtRig]:
    """Yield a rig with two hosts."""
    rig = LibvirtRig(tmp_path, daemons)
    async with clean(rig):
        yield rig


@pytest.fixture
async def driver(rig: LibvirtRig) -> LibvirtDriver:
    """Return the driver of the first host."""
    return await rig.open()


@pytest.fixture
def instance() -> Instance:
    """Return an instance of the stub guest."""
    return stub_instance(Image(STUB))


def with_host(rig: LibvirtRig, **changes: object) -> LibvirtDriver:
    """Return a driver of the first host with other settings."""
    host = replace(rig.hosts[HERE], **changes)  # type: ignore[arg-type]
    return LibvirtDriver(host, rig.images, SystemClock(), InventorySettings(host.state_dir))


async def test_guests_outlive_libvirtd_and_the_agent(
    rig: LibvirtRig, driver: LibvirtDriver, instance: Instance
) -> None:
    """A new agent and libvirtd find each guest's power state, and start no running guest again."""
    guests = [replace(instance, uuid=f"{instance.uuid[:-1]}{number}") for number in range(4)]
    runs, crashes, pauses, suspends = guests
    for one in guests:
        await start(driver, one)
    await driver.pause(pauses.uuid)
    await driver.suspend(suspends.uuid)
    process = rig.process(crashes.uuid)
    libvirt = rig.daemons[HERE].libvirt
    await rig.close()
    libvirt.kill()
    process.kill()
    assert await process.wait(10)
    libvirt.start()
    driver = await rig.open()
    assert await powers(driver) == {
        runs.uuid: Power.RUNNING,
        crashes.uuid: Power.CRASHED,
        pauses.uuid: Power.PAUSED,
        suspends.uuid: Power.SUSPENDED,
    }
    await driver.spawn(runs)
    assert len(await starts(driver, runs)) == 1


async def test_a_driver_goes_on_when_libvirtd_comes_back(
    rig: LibvirtRig, driver: LibvirtDriver, instance: Instance
) -> None:
    """Calls fail while libvirtd is down; after its return, events resume with all guests."""
    await start(driver, instance)
    libvirt = rig.daemons[HERE].libvirt
    events = driver.events()
    libvirt.kill()
    try:
        with pytest.raises(DriverError, match="libvirt"):
            await driver.guests()
        with pytest.raises(BuildError):
            await driver.spawn(instance)
    finally:
        libvirt.start()
    async with asyncio.timeout(30):
        async for event in events:
            if (event.instance_uuid, event.power) == (instance.uuid, Power.RUNNING):
                break
    await driver.pause(instance.uuid)
    async with asyncio.timeout(30):
        async for event in events:
            if event.power is Power.PAUSED:
                break
    assert await powers(driver) == {instance.uuid: Power.PAUSED}


async def test_how_a_guest_ended_is_known_after_libvirtd_has_forgotten(
    rig: LibvirtRig, driver: LibvirtDriver, instance: Instance
) -> None:
    """A restarted libvirtd does not know why guests are off, but the driver does."""
    other = replace(instance, uuid=instance.uuid[:-1] + "2")
    await start(driver, instance)
    await start(driver, other)
    await rig.turn_off(instance.uuid)
    await rig.crash(other.uuid)
    expected = {instance.uuid: Power.STOPPED, other.uuid: Power.CRASHED}
    assert await powers(driver) == expected
    libvirt = rig.daemons[HERE].libvirt
    await rig.close()
    libvirt.kill()
    libvirt.start()
    assert await powers(await rig.open()) == expected


async def test_a_libvirtd_that_hangs_stops_nobody_else(
    rig: LibvirtRig, driver: LibvirtDriver, instance: Instance
) -> None:
    """While libvirtd hangs the event loop runs on, and the call ends when libvirtd continues."""
    await start(driver, instance)
    libvirt = rig.daemons[HERE].libvirt
    libvirt.hang()
    try:
        asked = asyncio.ensure_future(powers(driver))
        for _ in range(50):
            await asyncio.sleep(0.01)
        assert not asked.done()
    finally:
        libvirt.go_on()
    assert await asked == {instance.uuid: Power.RUNNING}


async def test_calls_end_when_libvirtd_hangs_for_long(
    rig: LibvirtRig, driver: LibvirtDriver
) -> None:
    """Calls end with DriverError while libvirtd hangs, and succeed again once it continues."""
    assert await powers(driver) == {}
    libvirt = rig.daemons[HERE].libvirt
    libvirt.hang()
    try:
        asked = [asyncio.ensure_future(powers(driver)) for _ in range(12)]
        # Keepalive takes 20 s, and a call after it takes another 20 s to time out.
        _, waiting = await asyncio.wait(asked, timeout=120)
        assert not waiting
        told = [one.exception() for one in asked]
        assert all(isinstance(one, DriverError) for one in told), told
    finally:
        libvirt.go_on()

    async def answers() -> bool:
        try:
            return await powers(driver) == {}
        except DriverError:
            return False

    await eventually(answers)


async def test_a_guest_whose_qemu_hangs_is_stopped_in_time(
    rig: LibvirtRig, driver: LibvirtDriver, instance: Instance
) -> None:
    """A guest whose QEMU is frozen is killed in time, and the driver answers meanwhile."""
    await start(driver, instance)
    process = rig.process(instance.uuid)
    os.kill(process.pid, signal.SIGSTOP)
    try:
        stopping = asyncio.ensure_future(driver.stop(instance.uuid, grace_s=1.0))
        await asyncio.sleep(0.5)
        assert await powers(driver) == {instance.uuid: Power.RUNNING}
        async with asyncio.timeout(25):  # libvirt asks for 10 s before it kills
            await stopping
    finally:
        if process.is_alive():
            os.kill(process.pid, signal.SIGCONT)
    assert not process.is_alive()
    assert await powers(driver) == {instance.uuid: Power.STOPPED}
    await driver.spawn(instance)
    assert await powers(driver) == {instance.uuid: Power.RUNNING}


async def test_a_move_goes_on_when_the_agent_has_died(
    rig: LibvirtRig, driver: LibvirtDriver, instance: Instance
) -> None:
    """Libvirtd finishes a move whose agent has died, and the guest is not restarted."""
    there = await rig.open(THERE)
    await start(driver, instance)
    address = await there.take_in(instance)
    move = asyncio.ensure_future(driver.hand_over(instance.uuid, address))
    folder = rig.hosts[HERE].state_dir / instance.uuid
    while not (folder / ".leaving").exists():  # noqa: ASYNC110 - the driver sets no event
        await asyncio.sleep(0.01)
    await asyncio.sleep(0.2)
    move.cancel()
    await asyncio.gather(move, return_exceptions=True)

    async def has_left() -> bool:
        # The guest may leave between an agent's first look at the folders and its first list.
        return await powers(await rig.open()) == {} and not folder.exists()

    await eventually(has_left)
    assert await powers(there) == {instance.uuid: Power.RUNNING}
    assert len(await starts(there, instance)) <= 1


async def test_a_move_is_not_said_to_have_failed_by_who_cannot_know(
    rig: LibvirtRig, driver: LibvirtDriver, instance: Instance
) -> None:
    """If libvirtd dies during a move, the move succeeds or raises UnavailableError."""
    there = await rig.open(THERE)
    await start(driver, instance)
    address = await there.take_in(instance)
    libvirt = rig.daemons[HERE].libvirt
    move = asyncio.ensure_future(driver.hand_over(instance.uuid, address))
    folder = rig.hosts[HERE].state_dir / instance.uuid
    while not (folder / ".leaving").exists():  # noqa: ASYNC110 - the driver sets no event
        await asyncio.sleep(0.01)
    libvirt.kill()
    try:
        (outcome,) = await asyncio.gather(move, return_exceptions=True)
    finally:
        libvirt.start()
    assert outcome is None or isinstance(outcome, UnavailableError), repr(outcome)

    async def runs_here() -> bool:
        try:
            return (await powers(driver)).get(instance.uuid) is Power.RUNNING
        except DriverError:
            return False  # the driver is reconnecting

    if outcome is not None:
        await eventually(runs_here)


def cut_off(uri: str) -> int:
    """Cut this process's connections to a libvirtd, and return their number."""
    path, cut = parse_qs(urlsplit(uri).query)["socket"][0], 0
    for entry in Path("/proc/self/fd").iterdir():
        with contextlib.suppress(OSError):
            if not str(entry.readlink()).startswith("socket:"):
                continue
            with socket.socket(fileno=os.dup(int(entry.name))) as one:
                if one.family == socket.AF_UNIX and one.getpeername() == path:
                    one.shutdown(socket.SHUT_RDWR)
                    cut += 1
    return cut


async def test_a_move_is_followed_when_only_the_agent_is_cut_off(
    rig: LibvirtRig, driver: LibvirtDriver, instance: Instance
) -> None:
    """A driver that loses its connection during a move waits for the end of the move."""
    there = await rig.open(THERE)
    await start(driver, instance)
    address = await there.take_in(instance)
    await rig.stall(instance.uuid)
    move = asyncio.ensure_future(driver.hand_over(instance.uuid, address))
    await rig.is_stalled()
    assert cut_off(rig.hosts[HERE].uri) >= 2
    done, _ = await asyncio.wait({move}, timeout=2.0)
    assert not done, move
    await rig.go_on(instance.uuid)
    async with asyncio.timeout(60):
        await move
    assert await powers(driver) == {}
    assert await powers(there) == {instance.uuid: Power.RUNNING}
    assert len(await starts(there, instance)) <= 1


async def test_a_guest_that_has_moved_is_not_said_to_stay(
    rig: LibvirtRig, driver: LibvirtDriver, instance: Instance, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A failed cleanup after a move raises UnavailableError, and a second call cleans up."""
    there = await rig.open(THERE)
    await start(driver, instance)
    address = await there.take_in(instance)
    folder = rig.hosts[HERE].state_dir / instance.uuid
    (folder / "backup").mkdir()
    (folder / "backup" / "notes").touch()

    def fail(_: LibvirtFolder) -> None:
        raise OSError(errno.EIO, "Input/output error")

    for name in ("remove", "begin_end"):
        with monkeypatch.context() as patched:
            patched.setattr(LibvirtFolder, name, fail)
            with pytest.raises(UnavailableError, match="has moved"):
                await driver.hand_over(instance.uuid, address)
    assert await powers(driver) == {}
    await driver.hand_over(instance.uuid, address)
    assert not folder.exists()
    assert await powers(there) == {instance.uuid: Power.RUNNING}


async def test_a_console_fills_no_disk(
    rig: LibvirtRig, driver: LibvirtDriver, instance: Instance
) -> None:
    """A console log that grows too long is truncated, and new output is appended."""
    await start(driver, instance)
    console = rig.hosts[HERE].state_dir / instance.uuid / "console.log"
    with console.open("a") as file:
        file.write("x" * CONSOLE_BYTES_MAX)
    assert await powers(driver) == {instance.uuid: Power.RUNNING}
    assert console.stat().st_size < CONSOLE_BYTES_MAX // 2
    await driver.reset(instance.uuid)

    async def has_started() -> bool:
        return "x" not in (await driver.console(instance.uuid, bytes_max=8))

    await eventually(has_started)
    text = console.read_bytes()
    assert len(text) < CONSOLE_BYTES_MAX // 2
    assert b"\0" not in text


async def test_guests_keep_off_dedicated_cpus(rig: LibvirtRig, instance: Instance) -> None:
    """All threads of a guest avoid the dedicated CPUs of the host that they run on."""
    online = sorted(Linux().cpu().online)
    if len(online) < 2:
        pytest.skip("one CPU here")
    dedicated = [frozenset(online[1:]), frozenset(online[:-1])]
    for host, cpus in enumerate(dedicated):
        rig.hosts[host] = replace(rig.hosts[host], dedicated_cpus=cpus)
    driver, there = await rig.open(), await rig.open(THERE)

    def runs_on(host: int) -> set[int]:
        folder = Path(f"/proc/{rig.process(instance.uuid, host).pid}/task")
        found = [os.sched_getaffinity(int(task.name)) for task in folder.iterdir()]
        return set[int]().union(*found)

    await start(driver, instance)
    assert runs_on(HERE) == {online[0]}
    await driver.hand_over(instance.uuid, await there.take_in(instance))
    assert runs_on(THERE) == {online[-1]}
    await there.stop(instance.uuid, grace_s=0)
    await there.spawn(instance)
    assert runs_on(THERE) == {online[-1]}


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"binary": "/no/such/qemu"}, "/no/such/qemu"),
        ({"machine": "pc-q35-0.1"}, "machine"),
        ({"cpu_model": "abacus"}, "abacus"),
        ({"uri": "qemu+unix:///system?socket=/nowhere"}, "virt.uri|libvirtd|/nowhere"),
    ],
)
async def test_a_build_that_fails_tells_why(
    rig: LibvirtRig, instance: Instance, changes: dict[str, str], told: str
) -> None:
    """A failed build raises BuildError with the cause, and leaves no guest."""
    driver = with_host(rig, **changes)
    with pytest.raises(BuildError, match=told):
        await driver.spawn(instance)
    await driver.close()
    assert await powers(await rig.open()) == {}


async def test_a_guest_that_is_too_large_tells_what_qemu_said(
    rig: LibvirtRig, driver: LibvirtDriver, instance: Instance
) -> None:
    """The error for a guest that is too large includes QEMU's message about memory."""
    flavor = replace(instance.flavor, memory_mb=2**30)
    with pytest.raises(BuildError, match="memory"):
        await driver.spawn(replace(instance, flavor=flavor))
    assert await powers(driver) == {}


async def test_other_guests_of_libvirtd_are_left_alone(
    rig: LibvirtRig, driver: LibvirtDriver, instance: Instance
) -> None:
    """A driver ignores guests of another host, and refuses a state folder of another host."""
    await start(driver, instance)
    folder = rig.hosts[HERE].state_dir
    stranger = with_host(rig, name="another-host", state_dir=folder.with_name("another"))
    assert list(await stranger.guests()) == []
    with pytest.raises(BuildError):
        await stranger.spawn(instance)
    await stranger.close()
    renamed = with_host(rig, name="another-host")
    with pytest.raises(DriverError, match="holds the guests of host"):
        await renamed.leftovers()
    await renamed.close()
    found = await guest_of(driver, instance)
    assert found is not None
    assert found.power is Power.RUNNING


async def test_a_report_says_what_libvirt_knows(driver: LibvirtDriver) -> None:
    """A report has the hypervisor's type and version, guest kinds and CPU models of libvirt."""
    host = (await driver.report()).host
    assert host.hypervisor_type == "QEMU"
    assert host.hypervisor_version >= 2_000_000
    assert ("x86_64", "qemu", "hvm") in host.supported_instances
    assert not any(kind == "kvm" for _, kind, _ in host.supported_instances)
    models = host.cpu_info["usable_models"]
    assert isinstance(models, list)
    assert "qemu64" in models


@pytest.mark.parametrize("in_place", [False, True])
async def test_a_rescued_guest_boots_from_the_rescue_disk(
    rig: LibvirtRig, tmp_path: Path, *, in_place: bool
) -> None:
    """It does so in either order of the disks, and boots from its own disk afterwards."""
    rig.images |= boot_images(tmp_path, in_place=in_place)
    await check_boots(await rig.open())
