"""A secure channel through a broker that is not trusted.

Over HTTPS, TLS proves the control plane to an agent and protects what they send. A broker
terminates TLS itself, so over a broker the agent and the control plane protect their frames end to
end:

1. The agent sends an `Opening`: the name of its host and an ephemeral X25519 key, signed with the
   key of the host.
2. The control plane answers with an `Acceptance`: an ephemeral key and the name of its queue. It
   signs both together with the opening, with a key that the host has pinned.
3. Both derive one key per direction. Each further message is encrypted and authenticated with
   AES-256-GCM under a counter, so the broker can read nothing, and a message that is lost, repeated
   or out of order ends the channel. Large frames are sent in parts.

The session in the channel begins with a nonce that both derive as well, so the proof of identity of
the session (see `wire`) also signs the control plane's half of the exchange.
"""

import hashlib
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from enum import IntEnum
from typing import Any, Final

import msgspec
from cryptography.exceptions import InvalidSignature, InvalidTag
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

from berth.adapters.gateway.wire import NONCE_BYTES
from berth.domain.errors import AccessDeniedError, InvalidInputError

VERSION: Final = 1
CHANNEL_BYTES: Final = 16
"""The size of the random id of a channel."""

HANDSHAKE_BYTES_MAX: Final = 2 * 1024
PART_BYTES_MAX: Final = 256 * 1024
"""Maximum size of the part of a frame in one message; brokers limit the size of messages."""

FORGERIES_MAX: Final = 100
"""The number of inauthentic messages after which a channel ends."""

_KEY_BYTES: Final = 32
_COUNTER_BYTES: Final = 8
_TAG_BYTES: Final = 16
_NONCE_PAD: Final = b"\0" * 4
_OPENING_LABEL: Final = b"berth broker channel 1: host"
_ACCEPTANCE_LABEL: Final = b"berth broker channel 1: control plane"
_REFUSAL_LABEL: Final = b"berth broker channel 1: refusal"
_ENCODER: Final = msgspec.msgpack.Encoder()


class Opening(msgspec.Struct, array_like=True, frozen=True):
    """The first message of a channel, from the agent of a host."""

    version: int
    host: str
    channel: bytes
    ephemeral: bytes
    signature: bytes

    @property
    def signed(self) -> bytes:
        """The bytes that the host has signed."""
        return _ENCODER.encode((_OPENING_LABEL, self.host, self.channel, self.ephemeral))


class Acceptance(msgspec.Struct, tag=1, array_like=True, frozen=True):
    """The answer of the control plane; `queue` takes the messages of the agent from now on."""

    version: int
    channel: bytes
    ephemeral: bytes
    queue: str
    signature: bytes


class Refusal(msgspec.Struct, tag=2, array_like=True, frozen=True):
    """The answer of a control plane that refuses the host, with a close code (see `session`)."""

    version: int
    channel: bytes
    code: int
    reason: str
    signature: bytes


class RefusedError(AccessDeniedError):
    """The control plane has refused the host, and has signed the refusal."""


class _Kind(IntEnum):
    """The kind of a message, which is the first byte of its content."""

    FRAME = 0
    """A frame, or its last part."""
    PART = 1
    """A part of a frame other than its last part."""
    CLOSING = 2
    ALIVE = 3


class Closing(msgspec.Struct, array_like=True, frozen=True):
    """The last message of a channel: the close code (see `session`) and the reason for its end."""

    code: int
    reason: str


class Alive(msgspec.Struct, array_like=True, frozen=True):
    """A keep-alive message, which the control plane answers with another one."""


Received = bytes | Closing | Alive | None
"""The content of a message: a complete frame, a closing or keep-alive message, or nothing yet."""


@dataclass(frozen=True, slots=True)
class _Secrets:
    """The secrets that both ends derive: a key per direction, and the nonce of the session."""

    to_control: bytes
    to_host: bytes
    nonce: bytes


class SecureChannel:
    """One end of an open channel.

    Args:
        send_key: the key of the messages to the other end.
        receive_key: the key of the messages from the other end.
        nonce: the nonce of the session in the channel.
        frame_bytes_max: the maximum size of a frame to accept; it may be changed at any time.
    """

    __slots__ = (
        "_forgeries",
        "_parts",
        "_received",
        "_receiving",
        "_sending",
        "_sent",
        "frame_bytes_max",
        "nonce",
    )

    def __init__(
        self, send_key: bytes, receive_key: bytes, nonce: bytes, *, frame_bytes_max: int
    ) -> None:
        self.nonce = nonce
        self.frame_bytes_max = frame_bytes_max
        self._sending, self._receiving = AESGCM(send_key), AESGCM(receive_key)
        self._sent = self._received = self._forgeries = 0
        self._parts = bytearray()

    def seal(self, frame: bytes) -> list[bytes]:
        """Return the messages that carry a frame; they must be sent in this order."""
        parts = [
            frame[start : start + PART_BYTES_MAX] for start in range(0, len(frame), PART_BYTES_MAX)
        ] or [b""]
        return [
            *(self._sealed(_Kind.PART, part) for part in parts[:-1]),
            self._sealed(_Kind.FRAME, parts[-1]),
        ]

    def seal_closing(self, code: int, reason: str) -> bytes:
        """Return the message that ends the channel."""
        return self._sealed(_Kind.CLOSING, _ENCODER.encode(Closing(code, reason[:1000])))

    def seal_alive(self) -> bytes:
        """Return a keep-alive message."""
        return self._sealed(_Kind.ALIVE, b"")

    def open(self, message: bytes) -> Received:
        """Return the content of a message from the other end; None if it completes no frame.

        Inauthentic messages are ignored, because anyone who may publish to the queue can send them.
        Too many of them end the channel, because each costs time.

        Raises:
            InvalidInputError: messages were lost, repeated or reordered; a message is of an unknown
                kind or cannot be decoded; a frame is too large; or there were too many forgeries.
                The channel must not be used afterwards.
        """
        content = self._content_of(message)
        if content is None:
            return None
        kind, rest = content[0], content[1:]
        if kind == _Kind.ALIVE:
            return Alive()
        if kind == _Kind.CLOSING:
            closing: Closing = _decoded(Closing, rest)
            return closing
        if kind not in {_Kind.FRAME, _Kind.PART}:
            raise InvalidInputError("message", f"is of the unknown kind {kind}")
        if len(self._parts) + len(rest) > self.frame_bytes_max:
            reason = f"has more than {self.frame_bytes_max} bytes"
            raise InvalidInputError("frame", reason)
        if kind == _Kind.PART:
            self._parts += rest
            return None
        if not self._parts:
            return rest
        frame = bytes(self._parts) + rest
        self._parts = bytearray()
        return frame

    def _sealed(self, kind: _Kind, content: bytes) -> bytes:
        counter = self._sent.to_bytes(_COUNTER_BYTES)
        self._sent += 1
        content = bytes((kind,)) + content
        return counter + self._sending.encrypt(_NONCE_PAD + counter, content, None)

    def _content_of(self, message: bytes) -> bytes | None:
        counter = message[:_COUNTER_BYTES]
        if len(message) <= _COUNTER_BYTES + _TAG_BYTES:
            self._note_forgery()
            return None
        try:
            content = self._receiving.decrypt(_NONCE_PAD + counter, message[_COUNTER_BYTES:], None)
        except InvalidTag:
            self._note_forgery()
            return None
        number = int.from_bytes(counter)
        if number != self._received:
            reason = (
                f"has the number {number} instead of {self._received}; the broker has lost, "
                "repeated or reordered messages"
            )
            raise InvalidInputError("message", reason)
        self._received += 1
        return content

    def _note_forgery(self) -> None:
        self._forgeries += 1
        if self._forgeries > FORGERIES_MAX:
            raise InvalidInputError(
                "message", f"is not authentic, and neither were {FORGERIES_MAX} earlier ones"
            )


class HostHandshake:
    """The handshake of an agent.

    Args:
        host: the name of the host.
        sign: signs with the key of the host.
        random_bytes: returns the given number of unpredictable bytes.
    """

    def __init__(
        self,
        host: str,
        sign: Callable[[bytes], bytes],
        random_bytes: Callable[[int], bytes],
    ) -> None:
        self._host = host
        self._ephemeral = X25519PrivateKey.generate()
        self.channel = random_bytes(CHANNEL_BYTES)
        """The id of the channel."""
        public = self._ephemeral.public_key().public_bytes_raw()
        signed = Opening(VERSION, host, self.channel, public, b"").signed
        self.opening = _ENCODER.encode(Opening(VERSION, host, self.channel, public, sign(signed)))
        """The first message."""

    def finish(
        self, message: bytes, trusted: Iterable[bytes], *, frame_bytes_max: int
    ) -> tuple[SecureChannel, str]:
        """Return the channel, and the name of the queue of the control plane.

        Args:
            message: the answer to the opening.
            trusted: the public keys of the control plane.
            frame_bytes_max: the maximum size of a frame to accept.

        Raises:
            InvalidInputError: the message is not a valid answer to this opening.
            RefusedError: the control plane refuses the host.
            AccessDeniedError: no trusted key has signed the message.
        """
        answer: Acceptance | Refusal = _handshake_of(Acceptance | Refusal, message)
        if answer.channel != self.channel:
            raise InvalidInputError("channel", "is not the one that this agent has opened")
        if isinstance(answer, Refusal):
            signed = _refusal_text(self.opening, answer.code, answer.reason)
            _check_signature(trusted, signed, answer.signature)
            raise RefusedError(f"{answer.code}: {answer.reason}")
        transcript = _transcript(self.opening, answer.ephemeral, answer.queue)
        _check_signature(trusted, _ACCEPTANCE_LABEL + transcript, answer.signature)
        secrets = _secrets(self._ephemeral, answer.ephemeral, transcript)
        channel = SecureChannel(
            secrets.to_control, secrets.to_host, secrets.nonce, frame_bytes_max=frame_bytes_max
        )
        return channel, answer.queue


def opening_of(message: bytes) -> Opening:
    """Return the opening in a message; its signature is still to be checked.

    Raises:
        InvalidInputError: the message is not an opening.
    """
    opening: Opening = _handshake_of(Opening, message)
    if len(opening.channel) != CHANNEL_BYTES:
        raise InvalidInputError(
            "channel", f"must have {CHANNEL_BYTES} bytes, not {len(opening.channel)}"
        )
    return opening


def accept(
    message: bytes,
    opening: Opening,
    queue: str,
    sign: Callable[[bytes], bytes],
    *,
    frame_bytes_max: int,
) -> tuple[SecureChannel, bytes]:
    """Return the channel of an opening whose signature is valid, and the answer to the agent.

    Args:
        message: the message that contains the opening.
        opening: the opening.
        queue: the name of the queue that takes the messages of the agent.
        sign: signs with the key of the control plane.
        frame_bytes_max: the maximum size of a frame to accept.

    Raises:
        InvalidInputError: the ephemeral key of the agent is not usable.
    """
    ephemeral = X25519PrivateKey.generate()
    public = ephemeral.public_key().public_bytes_raw()
    transcript = _transcript(message, public, queue)
    secrets = _secrets(ephemeral, opening.ephemeral, transcript)
    channel = SecureChannel(
        secrets.to_host, secrets.to_control, secrets.nonce, frame_bytes_max=frame_bytes_max
    )
    signature = sign(_ACCEPTANCE_LABEL + transcript)
    answer = Acceptance(VERSION, opening.channel, public, queue, signature)
    return channel, _ENCODER.encode(answer)


def refuse(
    message: bytes, opening: Opening, code: int, reason: str, sign: Callable[[bytes], bytes]
) -> bytes:
    """Return the answer to an opening that is refused.

    Args:
        message: the message that contains the opening.
        opening: the opening.
        code: the close code; see the module `session`.
        reason: the reason, which the agent logs.
        sign: signs with the key of the control plane.
    """
    signature = sign(_refusal_text(message, code, reason))
    return _ENCODER.encode(Refusal(VERSION, opening.channel, code, reason, signature))


def _refusal_text(opening: bytes, code: int, reason: str) -> bytes:
    return _ENCODER.encode((_REFUSAL_LABEL, opening, code, reason))


def _transcript(opening: bytes, ephemeral: bytes, queue: str) -> bytes:
    """Return the digest of everything exchanged in the handshake, without the last signature.

    The opening contains the name of the host, so an answer is valid for one host only.
    """
    return hashlib.sha256(_ENCODER.encode((opening, ephemeral, queue))).digest()


def _secrets(own: X25519PrivateKey, other: bytes, transcript: bytes) -> _Secrets:
    try:
        shared = own.exchange(X25519PublicKey.from_public_bytes(other))
    except ValueError as error:
        raise InvalidInputError("ephemeral", "is not a usable X25519 key") from error
    length = 2 * _KEY_BYTES + NONCE_BYTES
    derived = HKDF(SHA256(), length, salt=transcript, info=_ACCEPTANCE_LABEL).derive(shared)
    return _Secrets(
        derived[:_KEY_BYTES], derived[_KEY_BYTES : 2 * _KEY_BYTES], derived[2 * _KEY_BYTES :]
    )


def _check_signature(trusted: Iterable[bytes], signed: bytes, signature: bytes) -> None:
    for key in trusted:
        try:
            Ed25519PublicKey.from_public_bytes(key).verify(signature, signed)
        except (InvalidSignature, ValueError):
            continue
        return
    raise AccessDeniedError(
        "no pinned key of the control plane has signed the answer; if its keys were replaced, "
        "enroll this host again"
    )


def _handshake_of(kind: Any, message: bytes) -> Any:  # noqa: ANN401 - any type form
    if len(message) > HANDSHAKE_BYTES_MAX:
        reason = f"has {len(message)} bytes; at most {HANDSHAKE_BYTES_MAX} are allowed"
        raise InvalidInputError("message", reason)
    decoded = _decoded(kind, message)
    if decoded.version != VERSION:
        raise InvalidInputError("version", f"is {decoded.version}, but this process uses {VERSION}")
    return decoded


def _decoded(kind: Any, message: bytes) -> Any:  # noqa: ANN401 - likewise
    try:
        return msgspec.msgpack.decode(message, type=kind)
    except (msgspec.MsgspecError, ValueError, RecursionError) as error:
        raise InvalidInputError(
            "message", f"cannot be decoded ({error}); run the same version of Berth everywhere"
        ) from error
