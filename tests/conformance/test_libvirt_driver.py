"""The virt port's conformance suite on the libvirt driver."""

from collections.abc import AsyncGenerator, Iterator, Sequence
from pathlib import Path

import pytest

from berth.domain.compute.flavor import Image
from berth.domain.compute.instance import Instance
from berth.ports.virt import VirtDriver
from berth.testing.driver_conformance import (
    DriverConformance,
    DriverRig,
    FailingDriverConformance,
    clean,
    stub_instance,
)
from tests.conformance.libvirt_rig import Daemon, LibvirtRig, two_daemons
from tests.conformance.qemu_rig import STUB


@pytest.fixture(scope="module")
def daemons(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Sequence[Daemon]]:
    """Yield two private libvirtds."""
    with two_daemons(tmp_path_factory.mktemp("libvirt")) as made:
        yield made


class TestLibvirtDriver(DriverConformance):
    """The libvirt driver, with the stub guest under TCG."""

    @pytest.fixture
    async def rig(self, tmp_path: Path, daemons: Sequence[Daemon]) -> AsyncGenerator[DriverRig]:
        """Yield a rig with two libvirt hosts."""
        async with clean(LibvirtRig(tmp_path, daemons)) as rig:
            yield rig

    @pytest.fixture
    def instance(self) -> Instance:
        """Return an instance of the stub guest."""
        return stub_instance(Image(STUB))


class TestLibvirtDriverWithoutTheImage(FailingDriverConformance):
    """The libvirt driver of a host that has no image."""

    @pytest.fixture
    async def driver(self, tmp_path: Path, daemons: Sequence[Daemon]) -> AsyncGenerator[VirtDriver]:
        """Yield the driver of a host without images."""
        rig = LibvirtRig(tmp_path, daemons)
        rig.images.clear()
        yield await rig.open()
        await rig.close()

    @pytest.fixture
    def instance(self) -> Instance:
        """Return an instance of the stub guest."""
        return stub_instance(Image(STUB))
