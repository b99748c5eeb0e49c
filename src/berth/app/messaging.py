"""The bus and the notifiers of a process, created from its settings."""

import os
import socket
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from random import SystemRandom
from typing import TYPE_CHECKING

from berth.adapters.bus.local import LocalBus
from berth.adapters.bus.signing import MessageSigner
from berth.adapters.system import LogTelemetry, RandomIds
from berth.app.extras import needs_extra
from berth.app.run import Loop
from berth.config.settings import BusSettings
from berth.domain.errors import InvalidInputError
from berth.ports.bus import Bus, Notifier
from berth.ports.telemetry import Metrics

if TYPE_CHECKING:
    from berth.adapters.bus.rabbitmq import RabbitBroker


async def _nothing() -> None:
    """Do nothing: without a broker there is nothing to flush."""


@dataclass(frozen=True, slots=True)
class Messaging:
    """The bus of a process, its notifiers, and the loops that they need.

    `notifier` sends notifications about the work of this process; `common_notifier` sends those
    about committed changes, which every follower of the feed could send. Both are None when the
    process sends no notifications. Await `finish` before stopping the loops. `is_up` returns
    whether the broker is connected, and is None if there is no broker.
    """

    bus: Bus
    notifier: Notifier | None = None
    common_notifier: Notifier | None = None
    loops: tuple[Loop, ...] = ()
    finish: Callable[[], Awaitable[None]] = _nothing
    is_up: Callable[[], bool] | None = None


def local_messaging(telemetry: LogTelemetry) -> Messaging:
    """Return the messaging of a process without a broker: messages stay within the process."""
    # The messages are passed unencoded, which saves time.
    return Messaging(LocalBus(telemetry, encodes=False))


def connect(
    settings: BusSettings,
    part: str,
    telemetry: LogTelemetry,
    metrics: Metrics,
    signer: MessageSigner,
    *,
    notifies: bool,
) -> Messaging:
    """Return the messaging of a process through a broker.

    Args:
        settings: the broker's address and options.
        part: the kind of process (`scheduler`).
        telemetry: receives events about connections, and failures.
        metrics: counts refused messages.
        signer: proves that messages come from the control plane.
        notifies: whether the process sends notifications, if the settings enable them.

    Raises:
        InvalidInputError: the settings name no broker, its client is not installed, or its CA
            certificates cannot be read.
    """
    broker = broker_of(settings)
    from berth.adapters.bus import rabbitmq  # noqa: PLC0415 - an extra that few need

    line = rabbitmq.BrokerConnection(broker, telemetry, SystemRandom())
    bus = rabbitmq.RabbitBus(line, RandomIds().uuid(), signer, metrics)
    # This is Nova's form of a publisher id, extended by the process id because several schedulers
    # may run on one host.
    publisher = f"{part}.{socket.gethostname()}.{os.getpid()}"
    is_notifying = notifies and settings.notifications
    notifier = rabbitmq.RabbitNotifier(line, publisher) if is_notifying else None
    # Every scheduler follows the feed, but only one of them sends; see `LeaderNotifier`.
    common = rabbitmq.LeaderNotifier(notifier, line) if notifier is not None else None

    async def finish() -> None:
        await bus.finish()
        if notifier is not None:
            await notifier.finish()

    return Messaging(bus, notifier, common, (("bus", line.run),), finish, line.up.is_set)


def broker_of(settings: BusSettings) -> "RabbitBroker":
    """Return the broker that the settings name.

    Raises:
        InvalidInputError: the settings name no broker, its client is not installed, or its CA
            certificates cannot be read.
    """
    if settings.url is None:
        raise InvalidInputError(
            "bus.url", "is required; set it to amqps://USER:PASSWORD@HOST:PORT/VIRTUAL-HOST"
        )
    try:
        from berth.adapters.bus.rabbitmq import RabbitBroker  # noqa: PLC0415 - see `connect`
    except ModuleNotFoundError as error:
        raise InvalidInputError("bus.url", needs_extra(error, "rabbitmq")) from error
    broker = RabbitBroker(
        url=settings.url,
        ca_file=settings.ca_file,
        prefix=settings.prefix,
        prefetch=settings.prefetch,
        body_bytes_max=settings.body_bytes_max,
    )
    try:
        broker.tls()
    except OSError as error:
        reason = (
            f"cannot load CA certificates from {settings.ca_file} ({error.strerror or error}); "
            "name a PEM file"
        )
        raise InvalidInputError("bus.ca_file", reason) from error
    return broker
