"""Who serves what in this process, and the work that they are at."""

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
    """Where a command is served: the command, the server's name, and the handlers in turn."""

    command: Command[Any, Any]
    server: str | None
    handlers: list[Handler] = field(default_factory=list[Handler])


class CommandHandlers:
    """The handlers of a process."""

    def __init__(
        self, wire: MessageCodec, telemetry: Telemetry, now_s: Callable[[], float]
    ) -> None:
        self.places: dict[Key, ServedCommand] = {}
        self._wire = wire
        self._telemetry = telemetry
        self._now_s = now_s

    def add(
        self, command: Command[Any, Any], handler: Handler, server: str | None
    ) -> Callable[[], bool]:
        """Add a handler; what is returned takes it away, and tells whether it was there."""
        key = command.topic, command.name, server
        place = self.places.setdefault(key, ServedCommand(command, server))

        async def serving(args: Any) -> Any:  # noqa: ANN401 - whatever the command names
            return await handler(args)

        place.handlers.append(serving)

        def remove() -> bool:
            if serving not in place.handlers:
                return False
            place.handlers.remove(serving)
            if not place.handlers and self.places.get(key) is place:
                del self.places[key]
            return True

        return remove

    def is_late(self, letter: CommandMessage) -> bool:
        """Tell whether nobody waits for a command any more."""
        return letter.deadline_s is not None and letter.deadline_s < self._now_s()

    async def work(self, letter: CommandMessage) -> bytes | None:
        """Have a command carried out and return the answer; None when nobody serves it here."""
        if letter.to_all:
            await self._work_all(letter)
            return b""
        place = self.places.get((letter.topic, letter.name, letter.server))
        if place is None:
            return None
        handler = place.handlers[0]
        if not place.command.by_one:
            place.handlers.append(place.handlers.pop(0))
        return await self._answer(place.command, handler, letter)

    async def _work_all(self, letter: CommandMessage) -> None:
        work = [
            self._answer(place.command, handler, letter)
            for (topic, name, _), place in self.places.items()
            if (topic, name) == (letter.topic, letter.name)
            for handler in place.handlers
        ]
        await asyncio.gather(*work)

    async def _answer(
        self, command: Command[Any, Any], handler: Handler, letter: CommandMessage
    ) -> bytes:
        # The task has a context of its own, so nobody else's is changed.
        CONTEXT.set(letter.context)
        try:
            args = self._wire.read_args(command.args, letter)
            return self._wire.answer(await handler(args))
        except BerthError as error:
            if letter.to_all:
                self._tell(command, error)
            return self._wire.failure(error)
        except Exception as error:  # noqa: BLE001 - a mistake in one command must not end the rest
            self._tell(command, error)
            text = f"{command.topic}.{command.name} failed unexpectedly; "
            return self._wire.failure(
                UnavailableError(text + "it may have been carried out in part")
            )

    def _tell(self, command: Command[Any, Any], error: Exception) -> None:
        self._telemetry.failure("command_failed", error, command=f"{command.topic}.{command.name}")
