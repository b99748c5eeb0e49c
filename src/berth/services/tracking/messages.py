"""The messages that agents cast to all schedulers about the instances of their hosts.

Every message contains the digest of the whole list after it, so schedulers notice a lost message.
It states the current instances instead of changes, so a repeated message does no harm. Newer
formats may add fields at the end; the head does not change.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from berth.ports.bus import Bus, Command
from berth.services.tracking.lists import ReportedInstance

# The version of the format of the messages and of the digest's input.
FORMAT: Final = 2


@dataclass(frozen=True, slots=True)
class MessageHead:
    """The common head of all messages.

    `session` is new at each start of the agent, and `sequence` counts its messages about one host
    from 1. `version` is the ledger version of the list; `count` and `digest` are those of the list
    after the message.
    """

    format: int
    host: str
    session: str
    sequence: int
    version: int
    count: int
    digest: bytes


@dataclass(frozen=True, slots=True)
class InstancesUpdated:
    """Instances that were added or changed, and those that the same ledger change removed.

    With `is_full`, `told` is the complete list.
    """

    head: MessageHead
    told: tuple[ReportedInstance, ...]
    gone: tuple[str, ...] = ()
    is_full: bool = False


@dataclass(frozen=True, slots=True)
class InstancesDeleted:
    """Instances that the host no longer has, by uuid."""

    head: MessageHead
    gone: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class InstancesSynced:
    """A periodic message with the uuids of a host's instances, or None if there are too many."""

    head: MessageHead
    uuids: tuple[str, ...] | None = None


Message = InstancesUpdated | InstancesDeleted | InstancesSynced


UPDATE: Command[InstancesUpdated, None] = Command(
    "scheduler", "update_instance_info", InstancesUpdated, type(None)
)
DELETE: Command[InstancesDeleted, None] = Command(
    "scheduler", "delete_instance_info", InstancesDeleted, type(None)
)
SYNC: Command[InstancesSynced, None] = Command(
    "scheduler", "sync_instance_info", InstancesSynced, type(None)
)


def serve_messages(bus: Bus, name: str, take: Callable[[Message], None]) -> Callable[[], None]:
    """Serve the casts of agents, and return the function that ends the service.

    Args:
        bus: the bus that delivers the casts.
        name: the scheduler's unique name. Named servers do not share a queue, so each gets all
            casts.
        take: receives each message; it must not block.
    """

    async def hear(message: Message) -> None:
        take(message)

    stops = [
        bus.serve(UPDATE, hear, server=name),
        bus.serve(DELETE, hear, server=name),
        bus.serve(SYNC, hear, server=name),
    ]

    def stop() -> None:
        for one in stops:
            one()

    return stop
