"""The QEMU driver when agents die and processes hang at critical moments."""

import asyncio
import os
import signal
import threading
import time
from dataclasses import replace
from pathlib import Path

import pytest

from berth.adapters.virt.processes import HostProcess
from berth.adapters.virt.qemu import machine
from berth.adapters.virt.qemu.driver import QemuDriver
from berth.adapters.virt.qemu.machine import Machine
from berth.adapters.virt.qemu.qmp import Message, QmpError
from berth.adapters.virt.qemu.spec import QemuFolder
from berth.domain.compute.instance import Instance
from berth.domain.errors import DriverError, UnavailableError
from berth.ports.virt import Power
from berth.testing.driver_conformance.rig import (
    HERE,
    THERE,
    eventually,
    powers,
    start,
    starts,
    wait_until_started,
)
from tests.conformance.qemu_rig import QemuRig

# These fixtures are imported so that pytest finds them in this module.
from tests.integration.test_qemu_driver import driver, instance, rig, with_host

__all__ = ["driver", "instance", "rig"]


def with_disks(instance: Instance, *, ephemeral_gb: int = 0, swap_mb: int = 0) -> Instance:
    """Return an instance with a root disk of 1 GiB and other disks of the given sizes."""
    flavor = replace(instance.flavor, root_gb=1, ephemeral_gb=ephemeral_gb, swap_mb=swap_mb)
    return replace(instance, flavor=flavor)


def dies_at(monkeypatch: pytest.MonkeyPatch, *commands: str, waits: bool = False) -> None:
    """Make an agent die immediately before it sends one of these commands to QEMU."""
    execute = Machine.execute

    async def fail(
        self: Machine,
        command: str,
        arguments: Message | None = None,
        *,
        fd: int | None = None,
        timeout_s: float = 30.0,
    ) -> object:
        if command in commands and self.spec.waits == waits:
            raise asyncio.CancelledError
        return await execute(self, command, arguments, fd=fd, timeout_s=timeout_s)

    monkeypatch.setattr(Machine, "execute", fail)


def memory_of(rig: QemuRig, instance: Instance) -> Path:
    """Return the file of a guest's memory."""
    return QemuFolder(rig.hosts[HERE].state_dir, instance.uuid).memory


async def test_what_an_agent_had_only_begun_to_suspend_goes_on(
    rig: QemuRig, driver: QemuDriver, instance: Instance
) -> None:
    """A guest runs on if its agent died before suspending it, though it was suspended before."""
    await start(driver, instance)
    await driver.suspend(instance.uuid)
    await driver.resume(instance.uuid)
    with pytest.MonkeyPatch.context() as patch:
        dies_at(patch, "migrate-set-capabilities")
        with pytest.raises(asyncio.CancelledError):
            await driver.suspend(instance.uuid)
    driver = await rig.open()
    assert await powers(driver) == {instance.uuid: Power.RUNNING}
    assert not memory_of(rig, instance).exists()
    assert len(await starts(driver, instance)) == 1


async def test_memory_that_cannot_be_read_is_kept(
    rig: QemuRig, driver: QemuDriver, instance: Instance
) -> None:
    """If QEMU ends while it loads saved memory, the guest stays suspended and can be resumed."""
    await start(driver, instance)
    memory = memory_of(rig, instance)
    await driver.suspend(instance.uuid)
    data = memory.read_bytes()
    memory.unlink()
    os.mkfifo(memory)

    def feed() -> None:
        with memory.open("wb", buffering=0) as pipe:
            pipe.write(data[:60_000])
            time.sleep(1.0)

    feeding = threading.Thread(target=feed)
    feeding.start()
    with pytest.raises(DriverError, match="cannot load the saved memory"):
        await driver.resume(instance.uuid)
    feeding.join()
    assert await powers(driver) == {instance.uuid: Power.SUSPENDED}
    memory.unlink()
    memory.write_bytes(data)
    await driver.resume(instance.uuid)
    assert len(await starts(driver, instance)) == 1


async def test_a_guest_wakes_with_the_processor_that_it_had(
    rig: QemuRig, driver: QemuDriver, instance: Instance
) -> None:
    """A resumed guest keeps its CPU model; a changed setting applies from its next start."""
    await driver.close()
    old = with_host(rig, cpu_model="max")
    await old.spawn(instance)
    await wait_until_started(old, instance, count=1)
    await old.suspend(instance.uuid)
    await old.close()  # type: ignore[attr-defined]
    new = with_host(rig, cpu_model="qemu64")

    def models() -> set[str]:
        words = Path(f"/proc/{rig.process(instance.uuid).pid}/cmdline").read_text().split("\0")
        return {"max", "qemu64"} & set(words)

    await new.resume(instance.uuid)
    assert models() == {"max"}
    await new.stop(instance.uuid, grace_s=0)
    await new.spawn(instance)
    assert models() == {"qemu64"}
    await new.close()  # type: ignore[attr-defined]


async def test_a_process_that_hangs_is_cut_off(
    rig: QemuRig, driver: QemuDriver, instance: Instance, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A hanging process is killed when the grace period of a stop is over."""
    monkeypatch.setattr(machine, "_ANSWER_S", 0.2)
    monkeypatch.setattr(machine, "_CONNECT_S", 0.2)
    await start(driver, instance)
    process = rig.process(instance.uuid)
    os.kill(process.pid, signal.SIGSTOP)
    await driver.stop(instance.uuid, grace_s=1)
    assert not process.is_alive()
    assert await powers(driver) == {instance.uuid: Power.STOPPED}


async def test_a_guest_that_has_arrived_goes_on_whenever_its_agent_died(
    rig: QemuRig, driver: QemuDriver, instance: Instance
) -> None:
    """A guest that has arrived runs once its agent is restarted, and is not started again."""
    instance = with_disks(instance)
    there = await rig.open(THERE)
    await start(driver, instance)
    with pytest.MonkeyPatch.context() as patch:
        dies_at(patch, "cont", waits=True)
        await driver.hand_over(instance.uuid, await there.take_in(instance))
        await asyncio.sleep(0.5)
        assert await powers(driver) == {}
    there = await rig.open(THERE)

    async def goes_on() -> bool:
        (found,) = await there.guests()
        return found.power is Power.RUNNING and not found.waits

    await eventually(goes_on)
    assert not await starts(there, instance)


async def test_copying_is_begun_anew_when_the_agent_has_died(
    rig: QemuRig, driver: QemuDriver, instance: Instance
) -> None:
    """The next agent can move a guest whose copying was interrupted."""
    instance = with_disks(instance)
    there = await rig.open(THERE)
    await start(driver, instance)
    address = await there.take_in(instance)
    with pytest.MonkeyPatch.context() as patch:
        dies_at(patch, "migrate", "block-job-cancel", "blockdev-del")
        with pytest.raises(asyncio.CancelledError):
            await driver.hand_over(instance.uuid, address)
    driver = await rig.open()
    await driver.hand_over(instance.uuid, address)
    assert await powers(driver) == {}
    assert await powers(there) == {instance.uuid: Power.RUNNING}


async def test_a_silent_qemu_has_not_said_that_its_guest_stays(
    rig: QemuRig, driver: QemuDriver, instance: Instance
) -> None:
    """If QEMU does not report the end of a move, the guest stays paused here until a retry."""
    there = await rig.open(THERE)
    await start(driver, instance)
    address = await there.take_in(instance)
    ask, asked = Machine.ask, 0

    async def stay_silent(self: Machine, command: str) -> Message:
        nonlocal asked
        if command == "query-migrate" and not self.spec.waits:
            asked += 1
            if asked > 1:
                await asyncio.sleep(0.5)
                raise QmpError("query-migrate: QEMU does not answer")
        return await ask(self, command)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Machine, "ask", stay_silent)
        with pytest.raises(UnavailableError, match="cannot determine"):
            await driver.hand_over(instance.uuid, address)
    assert await powers(driver) == {instance.uuid: Power.PAUSED}
    await driver.hand_over(instance.uuid, address)
    assert await powers(driver) == {}
    assert await powers(there) == {instance.uuid: Power.RUNNING}


async def test_a_guest_that_has_moved_does_not_stay_for_being_hard_to_clear_away(
    rig: QemuRig, driver: QemuDriver, instance: Instance
) -> None:
    """A failed cleanup after a move raises UnavailableError, not an error that the guest stays."""
    instance = with_disks(instance)
    there = await rig.open(THERE)
    await start(driver, instance)
    address = await there.take_in(instance)
    pid, wait = rig.process(instance.uuid).pid, HostProcess.wait

    async def never(self: HostProcess, timeout_s: float) -> bool:
        return self.pid != pid and await wait(self, timeout_s)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(HostProcess, "wait", never)
        with pytest.raises(UnavailableError, match="has moved"):
            await driver.hand_over(instance.uuid, address)
    assert await powers(driver) == {}
    assert await powers(there) == {instance.uuid: Power.RUNNING}


async def test_disks_that_a_larger_flavor_has_are_made_and_move(
    rig: QemuRig, driver: QemuDriver, instance: Instance
) -> None:
    """Disks that a larger flavor adds are created in a fixed order and move live."""
    small, large = (
        with_disks(instance, swap_mb=64),
        with_disks(instance, swap_mb=64, ephemeral_gb=1),
    )
    there = await rig.open(THERE)
    await start(driver, small)
    await driver.stop(small.uuid, grace_s=0)
    assert await driver.resize(large)
    await driver.spawn(large)
    await driver.hand_over(large.uuid, await there.take_in(large))
    folder = QemuFolder(rig.hosts[THERE].state_dir, large.uuid)
    spec = folder.read()
    assert spec is not None
    assert spec.disks == ("root", "ephemeral", "swap")


async def test_a_guest_stays_where_the_target_has_other_disks(
    rig: QemuRig, driver: QemuDriver, instance: Instance
) -> None:
    """A move to a guest with other disks is refused, and the guest stays."""
    mine, theirs = with_disks(instance, swap_mb=64), with_disks(instance, ephemeral_gb=1)
    there = await rig.open(THERE)
    await start(driver, mine)
    address = await there.take_in(theirs)
    with pytest.raises(DriverError, match="different disks"):
        await driver.hand_over(mine.uuid, address)
    assert await powers(driver) == {mine.uuid: Power.RUNNING}
