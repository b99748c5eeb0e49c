"""Settings of real guests, and the drivers that they make."""

from pathlib import Path

import pytest

from berth.adapters.system import SystemClock
from berth.adapters.virt.fake import FakeDriver
from berth.adapters.virt.qemu.driver import QemuDriver
from berth.bootstrap_virt import open_drivers
from berth.config.settings import AgentSettings, Settings
from berth.config.virt_settings import AgentDriver, VirtSettings
from berth.domain.errors import InvalidInputError


async def test_a_made_up_fleet_has_fake_drivers() -> None:
    """One for each host."""
    settings = Settings(agent=AgentSettings(fake_hosts=2))
    async with open_drivers(settings, SystemClock()) as drivers:
        assert list(drivers) == ["fake-00000", "fake-00001"]
        assert all(isinstance(one, FakeDriver) for one in drivers.values())


async def test_real_guests_need_a_host_with_a_name() -> None:
    """The error says which setting."""
    settings = Settings(agent=AgentSettings(driver=AgentDriver.QEMU))
    with pytest.raises(InvalidInputError, match=r"agent\.host"):
        async with open_drivers(settings, SystemClock()):
            pass


async def test_a_host_with_real_guests_has_a_qemu_driver(tmp_path: Path) -> None:
    """Its folders are absolute, wherever the agent was started."""
    agent = AgentSettings(driver=AgentDriver.QEMU, host="rack1-07")
    virt = VirtSettings(state_dir=tmp_path / "guests")
    async with open_drivers(Settings(agent=agent, virt=virt), SystemClock()) as drivers:
        driver = drivers["rack1-07"]
        assert isinstance(driver, QemuDriver)
        assert driver._host.state_dir == tmp_path / "guests"
    agent = AgentSettings(driver=AgentDriver.QEMU, host="rack1-07")
    async with open_drivers(Settings(agent=agent), SystemClock()) as drivers:
        driver = drivers["rack1-07"]
        assert isinstance(driver, QemuDriver)
        assert driver._host.state_dir == Path.cwd() / "berth-guests"


@pytest.mark.parametrize("machine", ["q35", "pc", "pc-q35-"])
def test_a_machine_without_a_version_is_refused(machine: str) -> None:
    """Guests could not move once QEMU was upgraded on one side."""
    with pytest.raises(InvalidInputError, match=r"virt\.machine"):
        VirtSettings(machine=machine)
