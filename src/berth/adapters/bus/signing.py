"""Signatures of the messages between the processes of the control plane.

Anyone who can publish on the broker can send a message, so a message proves that it comes from a
process with a key of the control plane: its last bytes are a code (HMAC with SHA-256) of everything
before them. A command contains its type, recipient, id and expiry, so the code holds for nothing
else. The code of a reply also covers the id of its command. A code is checked before anything
that it covers is decoded.
"""

import hmac
import time
from collections.abc import Callable, Sequence
from heapq import heappop, heappush
from typing import Final, Protocol

from berth.domain.errors import UnavailableError

CODE_BYTES: Final = 32
"""Size in bytes of the code at the end of a message."""
BLANK_CODE: Final = bytes(CODE_BYTES)
"""The placeholder for the code until a message is signed."""
LIFE_S_MAX: Final = 600.0
"""Maximum time in seconds between sending a command and its expiry."""
SKEW_S: Final = 30.0
"""Seconds by which the clocks of two processes may differ."""

# The type and the length of the code in MessagePack. A code is the last element of its message.
_CODE_HEAD: Final = b"\xc4\x20"
_TAIL_BYTES: Final = len(_CODE_HEAD) + CODE_BYTES
_SEEN_MAX: Final = 500_000


class RefusedMessageError(UnavailableError):
    """A message on the broker was refused, because it is unsigned, forged, expired or replayed.

    Args:
        reason: `unsigned`, `forged`, `expired` or `replayed`.
    """

    def __init__(self, reason: str) -> None:
        self.reason = reason
        super().__init__(f"a message on the broker was refused ({reason}); {_REMEDIES[reason]}")


_KEYS_DIFFER: Final = (
    "if another process of Berth sent it, give both the same file bus.key_file, or, while older "
    "versions run, set bus.accepts_unsigned"
)
_REMEDIES: Final = {
    "unsigned": _KEYS_DIFFER,
    "forged": _KEYS_DIFFER,
    "expired": "if another process of Berth sent it, synchronize the clocks",
    "replayed": "it arrived before; if this repeats, check who can publish on the broker",
}


class SigningKeys(Protocol):
    """The keys of the control plane; the first one signs, and all are accepted."""

    @property
    def all(self) -> Sequence[bytes]:
        """The keys, at least one."""
        ...


class MessageSigner:
    """Signs messages, and checks their signatures, expiry and repetition.

    Args:
        keys: the keys of the control plane.
        accepts_unsigned: whether messages without a code are accepted; the previous version sends
            such messages.
        now_s: returns the Unix time in seconds.
    """

    def __init__(
        self,
        keys: SigningKeys,
        *,
        accepts_unsigned: bool = False,
        now_s: Callable[[], float] = time.time,
    ) -> None:
        self._keys = keys
        self._accepts_unsigned = accepts_unsigned
        self._now_s = now_s
        # The ids of commands that have not expired, and the times at which they expire.
        self._seen: set[bytes] = set()
        self._expiries: list[tuple[float, bytes]] = []

    def expiry_s(self, deadline_s: float | None) -> float:
        """Return the Unix time at which a command expires, given the deadline of its caller."""
        latest_s = self._now_s() + LIFE_S_MAX
        return latest_s if deadline_s is None else min(deadline_s, latest_s)

    def signed(self, body: bytes, purpose: bytes) -> bytes:
        """Return a message with its code.

        Args:
            body: the message, which ends with `BLANK_CODE`.
            purpose: further bytes that the code covers; see `is_signed`.
        """
        text = body[:-CODE_BYTES]
        return text + hmac.digest(self._keys.all[0], purpose + text, "sha256")

    def is_signed(self, body: bytes, purpose: bytes) -> bool:
        """Return whether a message has a valid code; False if it has none and needs none.

        Args:
            body: the message.
            purpose: distinguishes kinds of messages. No purpose is a prefix of another one.

        Raises:
            RefusedMessageError: the code is wrong, or is missing although it is required.
        """
        if body[-_TAIL_BYTES:-CODE_BYTES] != _CODE_HEAD:
            if self._accepts_unsigned:
                return False
            raise RefusedMessageError("unsigned")
        covered, code = purpose + body[:-CODE_BYTES], body[-CODE_BYTES:]
        for key in self._keys.all:
            if hmac.compare_digest(hmac.digest(key, covered, "sha256"), code):
                return True
        raise RefusedMessageError("forged")

    def check_fresh(
        self, message_id: bytes, expires_at_s: float, *, is_redelivered: bool = False
    ) -> None:
        """Check that a signed command has not expired, and note that it has arrived.

        Args:
            message_id: the id of the command.
            expires_at_s: the Unix time at which it expires.
            is_redelivered: whether the broker itself delivers it again, because this or another
                process did not acknowledge it. A sender cannot set this.

        Raises:
            RefusedMessageError: the command has expired, is valid for too long, or has arrived
                before.
        """
        now_s = self._now_s()
        if not now_s - SKEW_S <= expires_at_s <= now_s + LIFE_S_MAX + SKEW_S:
            raise RefusedMessageError("expired")
        while self._expiries and (
            self._expiries[0][0] < now_s - SKEW_S or len(self._expiries) >= _SEEN_MAX
        ):
            self._seen.discard(heappop(self._expiries)[1])
        if message_id not in self._seen:
            self._seen.add(message_id)
            heappush(self._expiries, (expires_at_s, message_id))
        elif not is_redelivered:
            raise RefusedMessageError("replayed")
