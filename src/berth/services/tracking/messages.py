"""What agents cast about the instances of their hosts, to all schedulers.

Every message says what the whole list comes to after it, so that one that was lost shows, and
names single instances as they are and not what became of them, so that one that comes twice does
no harm. Newer formats may add fields at the end; the head stays as it is.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from berth.ports.bus import Bus, Command
from berth.services.tracking.lists import ReportedInstance

FORMAT: Final = 1
"""Of the messages: what they say, and of what a digest is made."""


@dataclass(frozen=True, slots=True)
class MessageHead:
    """What every message begins with.

    `session` is new at each start of the agent, and `sequence` counts the messages about one host
    in it, from 1. `version` is the ledger's that the list is true to; `count` and `digest` are
    those of the list after the message.
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
    """Instances that came or changed, and those that went with the same change of the ledger.

    With `is_full` they are all that the host has.
    """

    head: MessageHead
    told: tuple[ReportedInstance, ...]
    gone: tuple[str, ...] = ()
    is_full: bool = False


@dataclass(frozen=True, slots=True)
class InstancesDeleted:
    """Instances that the host does not have any more, by uuid."""

    head: MessageHead
    gone: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class InstancesSynced:
    """Which instances the host has, by uuid; None when they are too many for one message."""

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
    """Have what agents cast taken in; return what ends that.

    Args:
        bus: from the agents.
        name: of this scheduler; with one there is no queue that schedulers share.
        take: called with each message; must not block.
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
