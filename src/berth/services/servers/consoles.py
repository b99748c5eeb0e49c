"""Consoles: what guests have written, asked of the agent of their host."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from berth.domain.compute.instance import Instance
from berth.domain.errors import InstanceStateError, UnavailableError
from berth.ports.bus import Bus, Command
from berth.ports.virt import VirtDriver

BYTES_MAX: Final = 100 * 1024
"""Most that is ever told of a console."""

_TIMEOUT_S: Final = 10.0


@dataclass(frozen=True, slots=True)
class ConsoleAsked:
    """The end of which guest's console is wanted."""

    instance_uuid: str
    bytes_max: int


@dataclass(frozen=True, slots=True)
class ConsoleTold:
    """What the guest wrote last."""

    text: str


CONSOLE: Command[ConsoleAsked, ConsoleTold] = Command("agent", "console", ConsoleAsked, ConsoleTold)
"""Read a console; the server is the agent of the guest's host, by the name of that."""


def serve_console(bus: Bus, host: str, driver: VirtDriver) -> Callable[[], None]:
    """Have the agent of a host answer; return what ends that."""

    async def tell(asked: ConsoleAsked) -> ConsoleTold:
        bytes_max = min(max(asked.bytes_max, 0), BYTES_MAX)
        return ConsoleTold(await driver.console(asked.instance_uuid, bytes_max=bytes_max))

    return bus.serve(CONSOLE, tell, server=host)


async def read_console(bus: Bus, instance: Instance, lines: int | None) -> str:
    """Return the end of what a guest wrote.

    Args:
        bus: to the agents.
        instance: whose guest.
        lines: how many lines at most; None for all that is told.

    Raises:
        InstanceStateError: it is on no host.
        UnavailableError: the agent of its host does not answer.
        DriverError: the driver has no consoles, or there is no such guest.
    """
    if instance.host is None:
        raise InstanceStateError("get console output", instance.uuid, "host", "none")
    asked = ConsoleAsked(instance.uuid, BYTES_MAX)
    try:
        told = await bus.call(CONSOLE, asked, timeout_s=_TIMEOUT_S, server=instance.host)
    except UnavailableError as error:
        # What a bus says names the host, which is not for owners.
        text = f"the agent of the host of instance {instance.uuid} does not answer; try again"
        raise UnavailableError(text) from error
    if lines is None:
        return told.text
    return "".join(told.text.splitlines(keepends=True)[-lines:]) if lines else ""
