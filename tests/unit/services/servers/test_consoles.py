"""Tests for reading consoles from the agent of the guest's host."""

from dataclasses import replace

import pytest

from berth.adapters.bus.local import LocalBus
from berth.adapters.virt.fake import FakeDriver, FakeHost
from berth.agent.vnc_channels import HostConsoles
from berth.domain.errors import DriverError, InstanceStateError, UnavailableError
from berth.ports.virt import DriverFeature
from berth.services.servers.consoles import read_console, serve_console
from berth.testing.builders import make_instance
from berth.testing.virtual_time import VirtualClock
from tests.unit.services.wiring import Told

VM = make_instance(1, host="host-1")


async def open_bus(*, lacks: frozenset[DriverFeature] = frozenset(), boots: int = 3) -> LocalBus:
    """Return a bus with the agent of `host-1`, whose guest was booted several times."""
    bus = LocalBus(Told())
    driver = FakeDriver(FakeHost("host-1", lacks=lacks), VirtualClock())
    for _ in range(boots):
        await driver.spawn(VM)
        await driver.stop(VM.uuid, grace_s=0.0)
    serve_console(bus, "host-1", HostConsoles("host-1", driver, VirtualClock()))
    return bus


@pytest.mark.parametrize(("lines", "told"), [(None, 3), (2, 2), (0, 0), (99, 3)])
async def test_the_last_lines_are_told(lines: int | None, told: int) -> None:
    """The requested number of last lines is returned, or all lines."""
    text = await read_console(await open_bus(), VM, lines)
    assert len(text.splitlines()) == told
    assert all(VM.uuid in line for line in text.splitlines())


async def test_an_instance_on_no_host_has_no_console() -> None:
    """An instance without a host has no console."""
    with pytest.raises(InstanceStateError, match="host none"):
        await read_console(await open_bus(), replace(VM, host=None), None)


async def test_an_agent_that_is_not_there_is_unavailable() -> None:
    """An absent agent is an unavailable service, and the error does not name the host."""
    with pytest.raises(UnavailableError, match="try again") as caught:
        await read_console(await open_bus(), replace(VM, host="host-2"), None)
    assert "host-2" not in str(caught.value)


async def test_what_the_driver_cannot_do_is_told() -> None:
    """A driver without consoles or without the guest raises DriverError."""
    with pytest.raises(DriverError):
        await read_console(await open_bus(lacks=frozenset({DriverFeature.CONSOLE})), VM, None)
    with pytest.raises(DriverError):
        await read_console(await open_bus(boots=0), VM, None)
