"""Hearing: what a scheduler knows of the messages about one host."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from enum import StrEnum

from berth.services.tracking.messages import FORMAT, Message, MessageHead


class MessageKind(StrEnum):
    """What a message turns out to be when it comes."""

    NEWS = "news"
    REPEATED = "repeated"
    """It came before, or is older than what is known."""
    UNREADABLE = "unreadable"
    """It is of a format that this scheduler does not know."""


@dataclass(slots=True)
class HostMessages:
    """The messages about one host so far.

    Attributes:
        heard_s: when the last came that could be read, in Unix seconds.
        waited_s: when the first came of those that wait; what is told for ever of versions that
            never come must not be kept for ever.
        version: of the ledger: the list is known to be what it was then, or later.
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
        """Return what a message is, and how many before it have not come.

        One that overtook another makes that a repetition when it comes: what both said stands in
        the digest of the later one.
        """
        if head.format != FORMAT:
            return MessageKind.UNREADABLE, 0
        is_older, lost = head.version < self.version, 0
        if head.session != self._session:
            if is_older and self._session:
                return MessageKind.REPEATED, 0
            self._session = head.session
        elif head.sequence <= self._sequence:
            return MessageKind.REPEATED, 0
        else:
            lost = head.sequence - self._sequence - 1
        self._sequence = head.sequence
        self.version = max(self.version, head.version)
        return MessageKind.REPEATED if is_older else MessageKind.NEWS, lost

    def wait(self, message: Message, now_s: float) -> int:
        """Keep a message until the table is as new as it is; return how many are kept."""
        head = message.head
        if not self._waiting:
            self.waited_s = now_s
        self._waiting[head.version, head.session, head.sequence] = message
        return len(self._waiting)

    def due(self, version: int) -> Iterator[Message]:
        """Return and forget the messages that waited for a version, in their order."""
        for key in sorted(self._waiting):
            if key[0] <= version:
                yield self._waiting.pop(key)

    def forget_waiting(self) -> None:
        """Forget the messages that wait."""
        self._waiting.clear()

    @property
    def waits(self) -> bool:
        """Messages wait for the table."""
        return bool(self._waiting)
