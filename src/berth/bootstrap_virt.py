"""The drivers of an agent's hosts, by its settings."""

from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager

from berth.adapters.virt.fake import FakeDriver
from berth.adapters.virt.qemu.host import QemuHost
from berth.config.json_lists import fakes_of, read_image_files
from berth.config.settings import Settings
from berth.config.virt_settings import AgentDriver, VirtSettings
from berth.domain.errors import InvalidInputError
from berth.ports.clock import Clock
from berth.ports.virt import Driver


@asynccontextmanager
async def open_drivers(settings: Settings, clock: Clock) -> AsyncGenerator[Mapping[str, Driver]]:
    """Make the drivers of all hosts that a process answers for, by the hosts' names.

    Guests go on when the drivers are closed, except those of the fake driver.

    Raises:
        InvalidInputError: a host without a name, or files that cannot be read.
    """
    agent = settings.agent
    if agent.driver is AgentDriver.FAKE:
        yield {fake.name: FakeDriver(fake, clock) for fake in fakes_of(agent)}
        return
    if agent.host is None:
        raise InvalidInputError("agent.host", f"name the host that {agent.driver} runs guests on")
    async with _open_qemu(agent.host, settings, clock) as driver:
        yield {agent.host: driver}


@asynccontextmanager
async def _open_qemu(name: str, settings: Settings, clock: Clock) -> AsyncGenerator[Driver]:
    # Processes that run no guests do without all of this.
    from berth.adapters.virt.inventory import Stock  # noqa: PLC0415
    from berth.adapters.virt.qemu.driver import QemuDriver  # noqa: PLC0415

    virt = settings.virt
    stock = Stock(
        disk_dir=virt.state_dir.absolute(),
        host_ip=virt.move_address,
        reserved_vcpus=virt.reserved_vcpus,
        reserved_memory_mb=virt.reserved_memory_mb,
        reserved_disk_gb=virt.reserved_disk_gb,
        guest_overhead_mb=virt.guest_overhead_mb,
    )
    images = read_image_files(virt.images or settings.api.images)
    driver = QemuDriver(_qemu_host(name, virt), images, clock, stock)
    try:
        yield driver
    finally:
        await driver.close()


def _qemu_host(name: str, virt: VirtSettings) -> QemuHost:
    storage_dir = virt.storage_dir
    return QemuHost(
        name=name,
        state_dir=virt.state_dir.absolute(),
        accelerator=virt.type,
        storage_dir=None if storage_dir is None else storage_dir.absolute(),
        move_address=virt.move_address,
        binary=virt.binary,
        machine=virt.machine,
        cpu_model=virt.cpu_model,
    )
