"""The drivers of an agent's hosts, created from the settings."""

import shutil
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from dataclasses import replace

from berth.adapters.virt.fake import FakeDriver, FolderNetwork
from berth.adapters.virt.inventory import InventorySettings
from berth.adapters.virt.libvirt.host import LibvirtHost
from berth.adapters.virt.qemu.command_line import QemuHost
from berth.config.json_lists import fake_hosts_of, read_image_files
from berth.config.settings import Settings
from berth.config.virt_settings import AgentDriver, VirtSettings
from berth.domain.errors import DriverError, InvalidInputError
from berth.domain.hardware.cpu_sets import parse_cpus
from berth.ports.clock import Clock
from berth.ports.virt import VirtDriver


@asynccontextmanager
async def open_drivers(
    settings: Settings, clock: Clock
) -> AsyncGenerator[Mapping[str, VirtDriver]]:
    """Open the drivers of a process's hosts, and yield them by host name.

    Guests keep running when their drivers are closed, except those of the fake driver.

    Raises:
        InvalidInputError: no host name is given, a file or setting is invalid, or the package that
            the driver needs is not installed.
    """
    agent = settings.agent
    if agent.driver is AgentDriver.FAKE:
        yield _fake_drivers(settings, clock)
        return
    if agent.host is None:
        reason = f"is missing; use --host to name the host on which {agent.driver} runs guests"
        raise InvalidInputError("agent.host", reason)
    opened = _open_libvirt if agent.driver is AgentDriver.LIBVIRT else _open_qemu
    async with opened(agent.host, settings, clock) as driver:
        yield {agent.host: driver}


def _fake_drivers(settings: Settings, clock: Clock) -> Mapping[str, VirtDriver]:
    """Return the drivers of simulated hosts, which begin without guests.

    Raises:
        InvalidInputError: a setting is invalid, or the folder that they share cannot be used.
    """
    fakes = fake_hosts_of(settings.agent)
    folder = settings.virt.fake_network_dir
    if folder is None:
        return {fake.name: FakeDriver(fake, clock) for fake in fakes}
    network = FolderNetwork(folder.absolute())
    for fake in fakes:
        network.clear(fake.name)
    return {fake.name: FakeDriver(fake, clock, network=network) for fake in fakes}


@asynccontextmanager
async def _open_qemu(name: str, settings: Settings, clock: Clock) -> AsyncGenerator[VirtDriver]:
    # Imported here, so that only processes that use this driver load it.
    from berth.adapters.virt.qemu.driver import QemuDriver  # noqa: PLC0415

    virt = settings.virt
    images = read_image_files(virt.images or settings.api.images)
    driver = QemuDriver(_qemu_host(name, virt), images, clock, _stock(virt))
    try:
        yield driver
    finally:
        await driver.close()


@asynccontextmanager
async def _open_libvirt(name: str, settings: Settings, clock: Clock) -> AsyncGenerator[VirtDriver]:
    from berth.adapters.virt.libvirt import binding  # noqa: PLC0415
    from berth.adapters.virt.libvirt.driver import LibvirtDriver  # noqa: PLC0415

    try:
        binding.load()
    except DriverError as error:
        raise InvalidInputError("agent.driver", str(error)) from error
    virt = settings.virt
    dedicated = parse_cpus(virt.dedicated_cpus, "virt.dedicated_cpus")
    host = replace(_libvirt_host(name, virt), dedicated_cpus=dedicated)
    stock = replace(
        _stock(virt), shows_numa=virt.numa, dedicated_cpus=dedicated, pci_devices=virt.pci_devices
    )
    images = read_image_files(virt.images or settings.api.images)
    driver = LibvirtDriver(host, images, clock, stock)
    try:
        yield driver
    finally:
        await driver.close()


def _stock(virt: VirtSettings) -> InventorySettings:
    return InventorySettings(
        disk_dir=virt.state_dir.absolute(),
        host_ip=virt.move_address,
        reserved_vcpus=virt.reserved_vcpus,
        reserved_memory_mb=virt.reserved_memory_mb,
        reserved_disk_gb=virt.reserved_disk_gb,
        guest_overhead_mb=virt.guest_overhead_mb,
    )


def _libvirt_host(name: str, virt: VirtSettings) -> LibvirtHost:
    storage_dir = virt.storage_dir
    return LibvirtHost(
        name=name,
        state_dir=virt.state_dir.absolute(),
        uri=virt.uri,
        peer_uri=virt.peer_uri,
        accelerator=virt.type,
        storage_dir=None if storage_dir is None else storage_dir.absolute(),
        storage_reserved_gb=virt.storage_reserved_gb,
        move_address=virt.move_address,
        move_networks=virt.move_networks,
        # libvirt requires the absolute path of the emulator.
        binary=shutil.which(virt.binary) or virt.binary,
        machine=virt.machine,
        cpu_model=virt.cpu_model,
        vnc=virt.vnc,
    )


def _qemu_host(name: str, virt: VirtSettings) -> QemuHost:
    storage_dir = virt.storage_dir
    return QemuHost(
        name=name,
        state_dir=virt.state_dir.absolute(),
        accelerator=virt.type,
        storage_dir=None if storage_dir is None else storage_dir.absolute(),
        storage_reserved_gb=virt.storage_reserved_gb,
        move_address=virt.move_address,
        move_networks=virt.move_networks,
        binary=virt.binary,
        machine=virt.machine,
        cpu_model=virt.cpu_model,
        vnc=virt.vnc,
    )
