"""What servers write to their consoles."""

from typing import Annotated

from berth.api.codec import Meta, Model
from berth.api.compute.handlers.servers.action_arguments import read
from berth.api.errors import HttpError
from berth.api.routing import Answer, Call
from berth.domain.compute.instance import Instance
from berth.domain.errors import DriverError
from berth.services.servers.consoles import read_console


class ConsoleOutput(Model):
    """Arguments of `os-getConsoleOutput`: how many lines, all for -1 or none given."""

    length: (
        Annotated[int, Meta(ge=-1, le=2**31 - 1)]
        | Annotated[str, Meta(pattern="^(-1|[0-9]{1,10})$")]
        | None
    ) = None


async def show_console(call: Call, instance: Instance, args: object) -> Answer:
    """Return the end of what a server wrote to its serial console."""
    asked = read(args, ConsoleOutput, "os-getConsoleOutput").length
    lines = -1 if asked is None else int(asked)
    try:
        text = await read_console(call.parts.bus, instance, None if lines < 0 else lines)
    except DriverError as error:
        message = f"The console of instance {instance.uuid} cannot be read."
        raise HttpError(409, message) from error
    return Answer({"output": text}, status=200)
