"""Settings of drivers, and the drivers that are opened for them."""

from pathlib import Path

import pytest

from berth.adapters.system import SystemClock
from berth.adapters.virt.fake import FakeDriver
from berth.adapters.virt.libvirt import binding
from berth.adapters.virt.libvirt.driver import LibvirtDriver
from berth.adapters.virt.qemu.driver import QemuDriver
from berth.app.virt import open_drivers
from berth.config.agent_settings import AgentSettings
from berth.config.settings import Settings
from berth.config.virt_settings import AgentDriver, VirtSettings
from berth.domain.errors import DriverError, InvalidInputError
from berth.testing.builders import make_instance


def _files(folder: Path) -> list[Path]:
    return [path for path in folder.rglob("*") if path.is_file()]


async def test_a_made_up_fleet_has_fake_drivers() -> None:
    """Each fake host has a fake driver."""
    settings = Settings(agent=AgentSettings(fake_hosts=2))
    async with open_drivers(settings, SystemClock()) as drivers:
        assert list(drivers) == ["fake-00000", "fake-00001"]
        assert all(isinstance(one, FakeDriver) for one in drivers.values())


async def test_fake_hosts_of_several_processes_share_a_folder(tmp_path: Path) -> None:
    """Two fleets with the same folder hand over guests; a new process begins without any."""

    def settings(host: str) -> Settings:
        virt = VirtSettings(fake_network_dir=tmp_path / "network")
        return Settings(agent=AgentSettings(host=host), virt=virt)

    instance, clock = make_instance(), SystemClock()
    async with open_drivers(settings("a"), clock) as one, open_drivers(settings("b"), clock) as two:
        await one["a"].spawn(instance)
        address = await two["b"].take_in(instance)
        await one["a"].hand_over(instance.uuid, address)
        assert [guest.waits for guest in await two["b"].guests()] == [False]
        await one["a"].take_in(instance)
    async with open_drivers(settings("a"), clock) as one:
        assert await one["a"].guests() == []
    assert [path.name for path in _files(tmp_path)] == []


async def test_real_guests_need_a_host_with_a_name() -> None:
    """The error names the missing setting."""
    settings = Settings(agent=AgentSettings(driver=AgentDriver.QEMU))
    with pytest.raises(InvalidInputError, match=r"agent\.host"):
        async with open_drivers(settings, SystemClock()):
            pass


async def test_a_host_with_real_guests_has_a_qemu_driver(tmp_path: Path) -> None:
    """The driver's state folder is an absolute path."""
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
    """A machine type without a version is refused, since upgrades would prevent moves."""
    with pytest.raises(InvalidInputError, match=r"virt\.machine"):
        VirtSettings(machine=machine)


async def test_a_host_of_libvirt_has_its_driver(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The driver has the settings, and opening it does not need libvirtd."""
    monkeypatch.setattr(binding, "load", lambda: None)
    agent = AgentSettings(driver=AgentDriver.LIBVIRT, host="rack1-07")
    virt = VirtSettings(
        state_dir=tmp_path, uri="qemu:///x", binary="sh", numa=True, dedicated_cpus="2-3,^3"
    )
    async with open_drivers(Settings(agent=agent, virt=virt), SystemClock()) as drivers:
        driver = drivers["rack1-07"]
        assert isinstance(driver, LibvirtDriver)
        assert driver._host.uri == "qemu:///x"
        assert Path(driver._host.binary).is_absolute()
        assert driver._stock.dedicated_cpus == {2}
        assert driver._stock.shows_numa


async def test_without_the_binding_the_error_says_what_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A missing binding is an error when the drivers are opened, and names the extra."""

    def absent(name: str) -> object:
        raise ImportError(name)

    # The cached result of another test must remain, because libvirt's events have one thread.
    monkeypatch.setattr(binding, "load", binding._load.__wrapped__)
    monkeypatch.setattr("importlib.import_module", absent)
    with pytest.raises(DriverError, match=r"berth-scheduler\[libvirt\]"):
        binding.load()
    settings = Settings(
        agent=AgentSettings(driver=AgentDriver.LIBVIRT, host="h"),
        virt=VirtSettings(state_dir=tmp_path),
    )
    with pytest.raises(InvalidInputError, match=r"agent\.driver.*berth-scheduler\[libvirt\]"):
        async with open_drivers(settings, SystemClock()):
            pass


def test_hardware_that_cannot_be_is_refused() -> None:
    """Dedicated CPUs need `numa`, and a device needs VENDOR:PRODUCT."""
    with pytest.raises(InvalidInputError, match=r"virt\.dedicated_cpus"):
        VirtSettings(dedicated_cpus="2-3")
    with pytest.raises(InvalidInputError, match=r"virt\.pci_devices"):
        VirtSettings(pci_devices=("10de:20f1", "nvidia"))
