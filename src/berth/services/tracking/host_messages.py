"""The messages about one host that a scheduler has received."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final

from berth.services.tracking.messages import FORMAT, Message, MessageHead

# At most this many messages about one host wait for the feed; after that its list is reloaded.
_WAITING_MAX: Final = 16


class MessageKind(StrEnum):
    """The classification of a received message."""

    NEWS = "news"
    """The message is newer than the known list."""
    REPEATED = "repeated"
    """The message has arrived before, or is older than the known list."""
    UNREADABLE = "unreadable"
    """The message has a format that this scheduler does not know."""


@dataclass(slots=True)
class HostMessages:
    """The state of the messages about one host.

    Attributes:
        heard_s: the time of the last readable message, in Unix seconds.
        waited_s: the time of the first waiting message, in Unix seconds, so that messages about
            versions that never arrive are not kept forever.
        version: the newest ledger version at which the host's list is known.
    """

    heard_s: float = 0.0
    waited_s: float = 0.0
    version: int = 0
    _session: str = ""
    _sequence: int = 0
    _waiting: dict[tuple[int, str, int], Message] = field(
        default_factory=dict[tuple[int, str, int], Message]
    )

    def take(self, head: MessageHead) -> tuple[MessageKind, int]:
        """Record a message; return its kind, and the number of messages lost before it.

        A message that arrives after its successor is classified as repeated: the digest of the
        successor covers both.
        """
        if head.format != FORMAT:
            return MessageKind.UNREADABLE, 0
        is_older, lost = head.version < self.version, 0
        if head.session != self._session:
            # An older message of another session is a late one from an earlier session of the
            # agent.
            if is_older and self._session:
                return MessageKind.REPEATED, 0
            # A restarted agent counts its messages from 1 again under a new session.
            self._session = head.session
        elif head.sequence <= self._sequence:
            return MessageKind.REPEATED, 0
        else:
            lost = head.sequence - self._sequence - 1
        self._sequence = head.sequence
        self.version = max(self.version, head.version)
        return MessageKind.REPEATED if is_older else MessageKind.NEWS, lost

    def wait(self, message: Message, now_s: float) -> bool:
        """Keep a message until the table has its version, and return whether there was room.

        If too many messages wait, all are dropped: the host's list must then be reloaded, and the
        reloaded list includes their content.

        Args:
            message: the message.
            now_s: the time of its arrival, in Unix seconds.
        """
        head = message.head
        if not self._waiting:
            self.waited_s = now_s
        self._waiting[head.version, head.session, head.sequence] = message
        if len(self._waiting) > _WAITING_MAX:
            self._waiting.clear()
        return bool(self._waiting)

    def due(self, version: int) -> Iterator[Message]:
        """Yield and forget the waiting messages up to a ledger version, in order."""
        for key in sorted(self._waiting):
            if key[0] <= version:
                yield self._waiting.pop(key)

    @property
    def waits(self) -> bool:
        """Whether messages wait for the table to reach their version."""
        return bool(self._waiting)
