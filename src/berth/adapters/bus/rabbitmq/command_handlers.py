"""The command handlers of this process, which carry out incoming commands."""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any

from berth.adapters.bus.message_codec import CommandMessage, MessageCodec
from berth.domain.errors import BerthError, UnavailableError
from berth.ports.bus import CONTEXT, Command
from berth.ports.telemetry import Telemetry

Key = tuple[str, str, str | None]
Handler = Callable[[Any], Awaitable[Any]]


@dataclass(slots=True)
class ServedCommand:
    """A command, the name of the server that receives it (None if unnamed), and its handlers.

    The handlers take turns: the first one in the list carries out the next command.
    """

    command: Command[Any, Any]
    server: str | None
    handlers: list[Handler] = field(default_factory=list[Handler])


class CommandHandlers:
    """Registers handlers and runs incoming commands.

    Args:
        codec: decodes arguments and encodes replies.
        telemetry: receives unexpected failures.
        now_s: returns the Unix time in seconds, for deadlines.
    """

    def __init__(
        self, codec: MessageCodec, telemetry: Telemetry, now_s: Callable[[], float]
    ) -> None:
        self.served: dict[Key, ServedCommand] = {}
        self._codec = codec
        self._telemetry = telemetry
        self._now_s = now_s

    def add(
        self, command: Command[Any, Any], handler: Handler, server: str | None
    ) -> Callable[[], bool]:
        """Add a handler, and return a function that removes it.

        The returned function returns True on its first call, and False afterwards.
        """
        key = command.topic, command.name, server
        served_command = self.served.setdefault(key, ServedCommand(command, server))

        async def handle(args: Any) -> Any:  # noqa: ANN401 - whatever the command names
            return await handler(args)

        served_command.handlers.append(handle)

        def remove() -> bool:
            if handle not in served_command.handlers:
                return False
            served_command.handlers.remove(handle)
            if not served_command.handlers and self.served.get(key) is served_command:
                del self.served[key]
            return True

        return remove

    def is_late(self, message: CommandMessage) -> bool:
        """Return whether the deadline of a command has passed."""
        return message.deadline_s is not None and message.deadline_s < self._now_s()

    async def carry_out(self, message: CommandMessage) -> bytes | None:
        """Carry out a command and return the encoded reply, which may be an error.

        The reply to a fanout is empty. The result is None if no handler is registered here.
        """
        if message.to_all:
            await self._carry_out_all(message)
            return b""
        served_command = self.served.get((message.topic, message.name, message.server))
        if served_command is None:
            return None
        handler = served_command.handlers[0]
        if not served_command.command.by_one:
            served_command.handlers.append(served_command.handlers.pop(0))
        return await self._run(served_command.command, handler, message)

    async def _carry_out_all(self, message: CommandMessage) -> None:
        work = [
            self._run(served_command.command, handler, message)
            for (topic, name, _), served_command in self.served.items()
            if (topic, name) == (message.topic, message.name)
            for handler in served_command.handlers
        ]
        await asyncio.gather(*work)

    async def _run(
        self, command: Command[Any, Any], handler: Handler, message: CommandMessage
    ) -> bytes:
        # Other commands are not affected: each runs in its own task, with its own copy of the
        # context variables.
        CONTEXT.set(message.context)
        try:
            args = self._codec.read_args(command.args, message)
            return self._codec.reply(await handler(args), message.message_id)
        except BerthError as error:
            # A fanout has no caller, so only the log can show its error.
            if message.to_all:
                self._report_failure(command, error)
            return self._codec.failure(error, message.message_id)
        except Exception as error:  # noqa: BLE001 - a bug in one command must not end the others
            self._report_failure(command, error)
            text = (
                f"{command.topic}.{command.name} failed unexpectedly and may have been partly "
                "carried out; see the log of the process that received it"
            )
            return self._codec.failure(UnavailableError(text), message.message_id)

    def _report_failure(self, command: Command[Any, Any], error: Exception) -> None:
        self._telemetry.failure("command_failed", error, command=f"{command.topic}.{command.name}")
