"""Guest consoles, read through the agent of the guest's host."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from berth.domain.compute.instance import Instance
from berth.domain.errors import InstanceStateError, UnavailableError
from berth.ports.bus import Bus, Command
from berth.ports.gateway import HostQueries

# At most this many bytes of a console are returned, which is Nova's limit of 100 KiB.
BYTES_MAX: Final = 100 * 1024

_TIMEOUT_S: Final = 10.0


@dataclass(frozen=True, slots=True)
class ConsoleAsked:
    """A request for the end of a guest's console, of at most `bytes_max` bytes."""

    instance_uuid: str
    bytes_max: int


@dataclass(frozen=True, slots=True)
class ConsoleTold:
    """The end of a guest's console."""

    text: str


CONSOLE: Command[ConsoleAsked, ConsoleTold] = Command("agent", "console", ConsoleAsked, ConsoleTold)
"""Read a guest's console. The process that the agent of its host runs in or is connected to serves
this command under the host's name."""


def serve_console(bus: Bus, host: str, queries: HostQueries) -> Callable[[], None]:
    """Serve the console command for a host, and return the function that ends the service."""

    async def tell(asked: ConsoleAsked) -> ConsoleTold:
        bytes_max = min(max(asked.bytes_max, 0), BYTES_MAX)
        return ConsoleTold(await queries.console(asked.instance_uuid, bytes_max=bytes_max))

    return bus.serve(CONSOLE, tell, server=host)


async def read_console(bus: Bus, instance: Instance, lines: int | None) -> str:
    """Return the end of a guest's console.

    Args:
        bus: the bus that reaches the agents.
        instance: the guest's instance.
        lines: the maximum number of lines, or None for all that the agent returns.

    Raises:
        InstanceStateError: the instance has no host.
        UnavailableError: the agent of its host does not answer.
        DriverError: the driver has no consoles, or there is no such guest.
    """
    if instance.host is None:
        raise InstanceStateError("get console output", instance.uuid, "host", "none")
    asked = ConsoleAsked(instance.uuid, BYTES_MAX)
    try:
        console = await bus.call(CONSOLE, asked, timeout_s=_TIMEOUT_S, server=instance.host)
    except UnavailableError as error:
        # The message of the bus names the host, which owners must not learn.
        text = (
            f"cannot read the console of instance {instance.uuid}: the agent of its host does not "
            "answer; try again"
        )
        raise UnavailableError(text) from error
    if lines is None:
        return console.text
    return "".join(console.text.splitlines(keepends=True)[-lines:]) if lines else ""
