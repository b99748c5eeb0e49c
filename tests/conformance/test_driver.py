"""The virt port's conformance suite on every driver."""

from collections.abc import AsyncGenerator
from pathlib import Path

import pytest

from berth.adapters.system import SystemClock
from berth.adapters.virt.fake import FakeDriver, FakeHost
from berth.domain.compute.flavor import Image
from berth.domain.compute.instance import Instance
from berth.ports.virt import DriverFeature, VirtDriver
from berth.testing.driver_conformance import (
    DriverConformance,
    DriverRig,
    FailingDriverConformance,
    clean,
    stub_instance,
)
from tests.conformance.fake_rig import FakeRig
from tests.conformance.qemu_rig import STUB, QemuRig, require_qemu


class TestFakeDriver(DriverConformance):
    """The fake driver."""

    @pytest.fixture
    async def rig(self) -> AsyncGenerator[DriverRig]:
        """Yield a rig whose hosts build immediately."""
        async with clean(FakeRig()) as rig:
            yield rig


class TestSlowFakeDriver(DriverConformance):
    """The fake driver, with slow builds and without resizes of running guests."""

    @pytest.fixture
    async def rig(self) -> AsyncGenerator[DriverRig]:
        """Yield a rig whose hosts build slowly and cannot resize live."""
        async with clean(
            FakeRig(spawn_s=0.01, lacks=frozenset({DriverFeature.RESIZE_LIVE}))
        ) as rig:
            yield rig


class TestFakeDriverOfSeveralProcesses(DriverConformance):
    """The fake driver, with hosts that share only a folder."""

    @pytest.fixture
    async def rig(self, tmp_path: Path) -> AsyncGenerator[DriverRig]:
        """Yield a rig whose hosts share a folder."""
        async with clean(FakeRig(folder=tmp_path)) as rig:
            yield rig


class TestPoorFakeDriver(DriverConformance):
    """The fake driver without any optional feature."""

    @pytest.fixture
    async def rig(self) -> AsyncGenerator[DriverRig]:
        """Yield a rig whose hosts lack all optional features."""
        async with clean(FakeRig(lacks=frozenset(DriverFeature))) as rig:
            yield rig


class TestFailingFakeDriver(FailingDriverConformance):
    """The fake driver of a host where builds fail."""

    @pytest.fixture
    def driver(self) -> VirtDriver:
        """Return the driver of a host that fails every build."""
        return FakeDriver(FakeHost("host-1", fails=True), SystemClock())


class TestQemuDriver(DriverConformance):
    """The QEMU driver, with the stub guest under TCG."""

    @pytest.fixture
    async def rig(self, tmp_path: Path) -> AsyncGenerator[DriverRig]:
        """Yield a rig with two QEMU hosts."""
        require_qemu()
        async with clean(QemuRig(tmp_path)) as rig:
            yield rig

    @pytest.fixture
    def instance(self) -> Instance:
        """Return an instance of the stub guest."""
        return stub_instance(Image(STUB))


class TestQemuDriverWithoutTheImage(FailingDriverConformance):
    """The QEMU driver of a host that has no image."""

    @pytest.fixture
    async def driver(self, tmp_path: Path) -> AsyncGenerator[VirtDriver]:
        """Yield the driver of a host without images."""
        rig = QemuRig(tmp_path)
        rig.images.clear()
        yield await rig.open()
        await rig.close()

    @pytest.fixture
    def instance(self) -> Instance:
        """Return an instance of the stub guest."""
        return stub_instance(Image(STUB))
