"""The fake driver, whose hosts have the properties in their settings."""

import pytest

from berth.adapters.virt.fake import DriverFaults, FakeDriver, FakeHost, FakeMachine, FakeNetwork
from berth.domain.compute.build_failure import BuildError
from berth.domain.errors import DriverError, MigrationError
from berth.domain.hardware.numa import NumaCell
from berth.domain.hardware.pci import PciPool
from berth.domain.inventory.resources import DISK_GB, MEMORY_MB, VCPU
from berth.ports.virt import DriverFeature, HostReport, Power
from berth.testing.builders import make_instance
from berth.testing.virtual_time import VirtualClock, run_virtually


def report_of(fake: FakeHost) -> HostReport:
    """Return the report of a fake host."""

    async def main() -> HostReport:
        return await FakeDriver(fake, VirtualClock()).report()

    return run_virtually(main)


def test_a_fake_host_is_known_by_its_name_alone() -> None:
    """Hosts with the same name have the same uuid, whatever their resources."""
    one, same = report_of(FakeHost("a")), report_of(FakeHost("a", {VCPU: 1}))
    assert one.host == same.host
    assert one.host.uuid != report_of(FakeHost("b")).host.uuid


def test_a_fake_host_has_what_its_settings_say() -> None:
    """The report has the totals, ratios and traits of the settings; the default ratio is 1."""
    fake = FakeHost("a", {VCPU: 4, "CUSTOM_GPU": 2}, {VCPU: 1.5}, frozenset({"CUSTOM_X"}))
    provider = report_of(fake).provider
    assert {name: one.capacity for name, one in provider.inventories.items()} == {
        VCPU: 6,
        "CUSTOM_GPU": 2,
    }
    assert provider.traits == {"CUSTOM_X"}


def test_a_fake_host_has_plenty_unless_told_otherwise() -> None:
    """Without settings, a host has inventories of the three standard classes."""
    assert set(report_of(FakeHost("a")).provider.inventories) == {VCPU, MEMORY_MB, DISK_GB}


def test_a_fake_host_may_have_cells_and_devices() -> None:
    """The NUMA cells and PCI pools of the settings are in the report."""
    cells, pools = (NumaCell(0, memory_mb=1024),), (PciPool("10de", "1eb8"),)
    host = report_of(FakeHost("a", numa_cells=cells, pci_pools=pools)).host
    assert (host.numa_cells, host.pci_pools) == (cells, pools)


def test_a_build_takes_its_time() -> None:
    """A build takes the configured time, and no time if the guest already runs."""

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
    """A failing host raises a BuildError with its name after the time of a build."""

    async def main() -> float:
        clock = VirtualClock()
        driver = FakeDriver(FakeHost("a", spawn_s=30.0, fails=True), clock)
        began_s = clock.now_s()
        with pytest.raises(BuildError, match="fake host a"):
            await driver.spawn(make_instance())
        return clock.now_s() - began_s

    assert run_virtually(main) == 30.0


def failing_calls(fake: FakeHost, calls: int = 50) -> list[bool]:
    """Return for each call of `reset` whether it failed."""

    async def main() -> list[bool]:
        driver = FakeDriver(fake, VirtualClock())
        await driver.spawn(make_instance())
        failed: list[bool] = []
        for _ in range(calls):
            try:
                await driver.reset(make_instance().uuid)
            except DriverError:
                failed.append(True)
            else:
                failed.append(False)
        return failed

    return run_virtually(main)


def test_faults_strike_as_often_as_they_are_to_and_replay() -> None:
    """Faults occur at the configured share, and seed and host determine the calls that fail."""
    fake = FakeHost("a", faults=DriverFaults(share={"reset": 0.5}, seed=7))
    failed = failing_calls(fake)
    assert 10 < sum(failed) < 40
    assert failing_calls(fake) == failed
    assert failing_calls(FakeHost("b", faults=fake.faults)) != failed
    assert failing_calls(FakeHost("a", faults=DriverFaults(share={"reset": 0.5}, seed=8))) != failed
    assert not any(failing_calls(FakeHost("a", faults=DriverFaults(share={"stop": 1.0}))))
    assert all(failing_calls(FakeHost("a", faults=DriverFaults(share={"reset": 1.0}))))


def test_each_method_takes_the_time_that_is_set() -> None:
    """The delay of a method is added to the time of a build."""

    async def main() -> tuple[float, float, float]:
        clock = VirtualClock()
        faults = DriverFaults(delay_s={"spawn": 1.0, "stop": 5.0})
        driver = FakeDriver(FakeHost("a", spawn_s=30.0, faults=faults), clock)
        times = [clock.now_s()]
        await driver.spawn(make_instance())
        times.append(clock.now_s())
        await driver.stop(make_instance().uuid, grace_s=60)
        times.append(clock.now_s())
        await driver.destroy(make_instance().uuid)
        times.append(clock.now_s())
        return times[1] - times[0], times[2] - times[1], times[3] - times[2]

    assert run_virtually(main) == (31.0, 5.0, 0.0)


def test_a_fault_is_the_error_of_its_method() -> None:
    """A fault of `spawn` is a BuildError, and one of `hand_over` a MigrationError."""

    async def main() -> None:
        network = FakeNetwork()
        bad = DriverFaults(share={"spawn": 1.0, "hand_over": 1.0})
        clock, instance = VirtualClock(), make_instance()
        failing = FakeDriver(FakeHost("a", faults=bad), clock, network=network)
        with pytest.raises(BuildError, match="set to fail at spawn"):
            await failing.spawn(instance)
        machine = FakeMachine("a")
        await FakeDriver(FakeHost("a"), clock, machine, network).spawn(instance)
        failing = FakeDriver(FakeHost("a", faults=bad), clock, machine, network)
        target = FakeDriver(FakeHost("b"), clock, network=network)
        with pytest.raises(MigrationError, match="set to fail at hand_over"):
            await failing.hand_over(instance.uuid, await target.take_in(instance))
        assert machine.guests[instance.uuid].power is Power.RUNNING

    run_virtually(main)


def test_a_driver_does_not_do_what_it_lacks() -> None:
    """An unsupported call raises an error that names the host and the verb."""

    async def main() -> None:
        driver = FakeDriver(FakeHost("a", lacks=frozenset({DriverFeature.PAUSE})), VirtualClock())
        assert driver.verbs == frozenset(DriverFeature) - {DriverFeature.PAUSE}
        await driver.spawn(make_instance())
        with pytest.raises(DriverError, match="of a does not support pause"):
            await driver.pause(make_instance().uuid)
        await driver.reset(make_instance().uuid)

    run_virtually(main)


def test_machines_are_found_in_their_own_network_only() -> None:
    """A guest cannot move to a host of another network, nor to a driver that no longer exists."""

    async def main() -> None:
        clock, instance, network = VirtualClock(), make_instance(), FakeNetwork()
        source = FakeDriver(FakeHost("a"), clock, network=network)
        await source.spawn(instance)
        elsewhere = FakeDriver(FakeHost("b"), clock, network=FakeNetwork())
        with pytest.raises(MigrationError, match="no guest waits"):
            await source.hand_over(instance.uuid, await elsewhere.take_in(instance))
        target = FakeDriver(FakeHost("b"), clock, network=network)
        address = await target.take_in(instance)
        del target
        with pytest.raises(MigrationError, match="no guest waits"):
            await source.hand_over(instance.uuid, address)
        assert await source.running() == [instance.uuid]

    run_virtually(main)
