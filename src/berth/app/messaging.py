"""What connects processes: the bus, and notifications, as the settings say."""

import os
import socket
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from random import SystemRandom

from berth.adapters.bus.local import LocalBus
from berth.adapters.system import LogTelemetry, RandomIds
from berth.app.run import Loop
from berth.config.settings import BusSettings
from berth.domain.errors import InvalidInputError
from berth.ports.bus import Bus, Notifier


async def _nothing() -> None:
    """Finish what needs no finishing."""


@dataclass(frozen=True, slots=True)
class Messaging:
    """The bus of a process, who tells notifications, and what has to run for that.

    `notifier` tells what this process does, `common_notifier` what all who follow the feed know.
    `finish` is to be called before the loops are stopped. `is_up` tells whether the broker is
    reached, where there is one.
    """

    bus: Bus
    notifier: Notifier | None = None
    common_notifier: Notifier | None = None
    loops: tuple[Loop, ...] = ()
    finish: Callable[[], Awaitable[None]] = _nothing
    is_up: Callable[[], bool] | None = None


def connect(
    settings: BusSettings, part: str, telemetry: LogTelemetry, *, calls: bool, notifies: bool
) -> Messaging:
    """Return the wires of a process; without a broker those that end with it.

    Args:
        settings: where the broker is.
        part: what the process is (`scheduler`).
        telemetry: told of connections and failures.
        calls: it calls other processes or is called by them.
        notifies: it tells notifications, when the settings say so.

    Raises:
        InvalidInputError: a broker is named, and what talks to it is not installed or has no
            certificates to check it by.
    """
    notifies = notifies and settings.notifications
    local = LocalBus(telemetry, encodes=False)
    if settings.url is None or not (calls or notifies):
        return Messaging(local)
    try:
        from berth.adapters.bus import rabbitmq  # noqa: PLC0415 - an extra that few need
    except ModuleNotFoundError as error:
        reason = f"needs {error.name}, which is not here; pip install berth[rabbitmq]"
        raise InvalidInputError("bus.url", reason) from error
    broker = rabbitmq.RabbitBroker(
        url=settings.url,
        ca_file=settings.ca_file,
        prefix=settings.prefix,
        prefetch=settings.prefetch,
        body_bytes_max=settings.body_bytes_max,
    )
    try:
        broker.tls()
    except OSError as error:
        reason = f"holds no certificates that can be read ({error.strerror or error})"
        raise InvalidInputError("bus.ca_file", reason) from error
    line = rabbitmq.BrokerConnection(broker, telemetry, SystemRandom())
    bus = rabbitmq.RabbitBus(line, RandomIds().uuid()) if calls else None
    publisher = f"{part}.{socket.gethostname()}.{os.getpid()}"
    notifier = rabbitmq.RabbitNotifier(line, publisher) if notifies else None

    common = rabbitmq.LeaderNotifier(notifier, line) if notifier is not None else None

    async def finish() -> None:
        if bus is not None:
            await bus.finish()
        if notifier is not None:
            await notifier.finish()

    return Messaging(
        bus or local, notifier, common, (("bus", line.run),), finish, lambda: line.is_up
    )
