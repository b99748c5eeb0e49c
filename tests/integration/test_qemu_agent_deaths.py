"""Agents that die repeatedly while they work on real guests."""

import asyncio
import random
import sys
from collections import Counter
from collections.abc import AsyncGenerator, Sequence
from pathlib import Path

import pytest

from berth.adapters.virt import processes
from berth.adapters.virt.qemu.command_line import guest_of
from berth.adapters.virt.qemu.driver import QemuDriver
from berth.domain.compute.build_failure import BuildError
from berth.domain.errors import DriverError
from berth.ports.virt import Power
from berth.testing.driver_conformance.rig import HERE, clean, powers
from tests.conformance.qemu_rig import STUB, QemuRig, require_qemu
from tests.integration.qemu_agent import DOINGS, READY, instances

STEPS = 40
DEATHS = 0.5
LONGEST_S = 0.2


@pytest.fixture
async def rig(tmp_path: Path) -> AsyncGenerator[QemuRig]:
    """Yield a rig with two hosts."""
    require_qemu()
    rig = QemuRig(tmp_path)
    async with clean(rig):
        yield rig


def check_processes(rig: QemuRig) -> None:
    """Check that no guest runs twice."""
    found: list[str] = []

    def note(words: Sequence[str]) -> None:
        uuid = guest_of(words, rig.hosts[HERE].name)
        if uuid is not None:
            found.append(uuid)

    processes.find(note)
    assert max(Counter(found).values(), default=0) <= 1, found


async def check_guests(driver: QemuDriver) -> None:
    """Check that each guest can be started and stopped, whatever its state is."""
    for one in instances(STUB):
        found = (await powers(driver)).get(one.uuid)
        if found is Power.PAUSED:
            await driver.destroy(one.uuid)  # it may be the target of a move
        await driver.spawn(one)
        assert (await powers(driver))[one.uuid] is Power.RUNNING
        await driver.stop(one.uuid, grace_s=60)
        assert (await powers(driver))[one.uuid] is Power.STOPPED
        await driver.drop_stored(f"stored:{one.uuid}")


async def step(rig: QemuRig, driver: QemuDriver, dice: random.Random) -> QemuDriver:
    """Call a random driver method; if the agent dies during it, return the driver of the next."""
    doing, one = dice.choice(DOINGS), dice.choice(instances(STUB))
    task = asyncio.ensure_future(doing(driver, one))
    dies = dice.random() < DEATHS
    await asyncio.wait({task}, timeout=dice.uniform(0, LONGEST_S) if dies else None)
    died = task.cancel()
    (outcome,) = await asyncio.gather(task, return_exceptions=True)
    fine = (DriverError, BuildError, asyncio.CancelledError)
    assert not isinstance(outcome, BaseException) or isinstance(outcome, fine), outcome
    check_processes(rig)
    return await rig.open() if died else driver


@pytest.mark.parametrize("seed", range(4))
async def test_whatever_an_agent_dies_of_the_next_one_goes_on(rig: QemuRig, seed: int) -> None:
    """No guest runs twice, and each can be started and stopped after random deaths of agents."""
    dice = random.Random(seed)
    driver = await rig.open()
    for _ in range(STEPS):
        driver = await step(rig, driver, dice)
    await check_guests(driver)


@pytest.mark.slow
async def test_an_agent_may_be_killed_at_any_moment(rig: QemuRig) -> None:
    """After SIGKILL of an agent no guest runs twice or is an orphan, and all can be started."""
    dice, host = random.Random(7), rig.hosts[HERE]
    given = [host.name, str(host.state_dir), str(rig.images[STUB].file)]
    for life in range(10):
        agent = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "tests.integration.qemu_agent", *given, str(life)),
            stdout=asyncio.subprocess.PIPE,
            cwd=Path(__file__).parents[2],
        )
        assert agent.stdout is not None
        assert await agent.stdout.readline() == READY
        await asyncio.sleep(dice.uniform(0, 1))
        assert agent.returncode is None
        agent.kill()
        await agent.wait()
        check_processes(rig)
        driver = await rig.open()
        assert not any(guest.is_orphan for guest in await driver.guests())
        if life % 3 == 0:
            await check_guests(driver)
        await rig.close()
