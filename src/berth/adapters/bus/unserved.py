"""The error for a command that no process serves."""

from typing import Any

from berth.adapters.bus.message_codec import CommandMessage
from berth.domain.errors import UnavailableError
from berth.ports.bus import Command


def unserved_error(
    command: Command[Any, Any] | CommandMessage, server: str | None = None
) -> UnavailableError:
    """Return the error for a command that no process, or none named `server`, serves."""
    name = f"{command.topic}.{command.name}"
    where = "" if server is None else f" for {server}"
    return UnavailableError(f"no process serves {name}{where}; start `berth {command.topic}`")
