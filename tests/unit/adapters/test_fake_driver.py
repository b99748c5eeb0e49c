"""The fake driver: hosts as their settings describe them."""

import pytest

from berth.adapters.virt.fake import FakeDriver, FakeHost
from berth.domain.errors import BuildError
from berth.domain.numa import NumaCell
from berth.domain.pci import PciPool
from berth.domain.resources import DISK_GB, MEMORY_MB, VCPU
from berth.lab.kernel import VirtualClock, run_virtually
from berth.ports.virt import Report
from berth.testing.builders import make_instance


def report_of(fake: FakeHost) -> Report:
    """Return what a fake host reports."""
    return run_virtually(FakeDriver(fake, VirtualClock()).report)


def test_a_fake_host_is_known_by_its_name_alone() -> None:
    """Its uuid is the same in every process, and differs from other hosts'."""
    one, same = report_of(FakeHost("a")), report_of(FakeHost("a", {VCPU: 1}))
    assert one.host == same.host
    assert one.host.uuid != report_of(FakeHost("b")).host.uuid


def test_a_fake_host_has_what_its_settings_say() -> None:
    """Totals, ratios and traits; what is not named has a ratio of 1."""
    fake = FakeHost("a", {VCPU: 4, "CUSTOM_GPU": 2}, {VCPU: 1.5}, frozenset({"CUSTOM_X"}))
    provider = report_of(fake).provider
    assert {name: one.capacity for name, one in provider.inventories.items()} == {
        VCPU: 6,
        "CUSTOM_GPU": 2,
    }
    assert provider.traits == {"CUSTOM_X"}


def test_a_fake_host_has_plenty_unless_told_otherwise() -> None:
    """The three standard classes are there."""
    assert set(report_of(FakeHost("a")).provider.inventories) == {VCPU, MEMORY_MB, DISK_GB}


def test_a_fake_host_may_have_cells_and_devices() -> None:
    """They are part of its description."""
    cells, pools = (NumaCell(0, memory_mb=1024),), (PciPool("10de", "1eb8"),)
    host = report_of(FakeHost("a", numa_cells=cells, pci_pools=pools)).host
    assert (host.numa_cells, host.pci_pools) == (cells, pools)


def test_a_build_takes_its_time() -> None:
    """So long as the settings say, and no time for what runs already."""

    async def main() -> tuple[float, float]:
        clock = VirtualClock()
        driver = FakeDriver(FakeHost("a", spawn_s=30.0), clock)
        began_s = clock.now_s()
        await driver.spawn(make_instance())
        built_s = clock.now_s()
        await driver.spawn(make_instance())
        return built_s - began_s, clock.now_s() - built_s

    assert run_virtually(main) == (30.0, 0.0)


def test_a_failing_host_fails_after_the_time_of_a_build() -> None:
    """The error names the host."""

    async def main() -> float:
        clock = VirtualClock()
        driver = FakeDriver(FakeHost("a", spawn_s=30.0, fails=True), clock)
        began_s = clock.now_s()
        with pytest.raises(BuildError, match="fake host a"):
            await driver.spawn(make_instance())
        return clock.now_s() - began_s

    assert run_virtually(main) == 30.0
