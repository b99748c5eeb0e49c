"""The secure channel through a broker: who can open one, and what a broker can do to it."""

import os
from dataclasses import dataclass
from itertools import permutations

import msgspec
import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from hypothesis import given
from hypothesis import strategies as st

from berth.adapters.gateway.secure_channel import (
    FORGERIES_MAX,
    PART_BYTES_MAX,
    Acceptance,
    Alive,
    Closing,
    HostHandshake,
    Opening,
    RefusedError,
    SecureChannel,
    accept,
    opening_of,
    refuse,
)
from berth.domain.errors import AccessDeniedError, InvalidInputError

HOST = Ed25519PrivateKey.generate()
CONTROL = Ed25519PrivateKey.generate()
PINNED = [CONTROL.public_key().public_bytes_raw()]
MIB = 1024 * 1024


@dataclass
class Pair:
    """Both ends of a channel, and what the broker has seen of the handshake."""

    host: SecureChannel
    control: SecureChannel
    seen: tuple[bytes, bytes]


def open_pair(frame_bytes_max: int = MIB) -> Pair:
    """Open a channel."""
    handshake = HostHandshake("host-1", HOST.sign, os.urandom)
    opening = opening_of(handshake.opening)
    HOST.public_key().verify(opening.signature, opening.signed)
    control, answer = accept(
        handshake.opening, opening, "queue-1", CONTROL.sign, frame_bytes_max=frame_bytes_max
    )
    host, queue = handshake.finish(answer, PINNED, frame_bytes_max=frame_bytes_max)
    assert queue == "queue-1"
    return Pair(host, control, (handshake.opening, answer))


def test_both_ends_derive_the_same_nonce_and_other_channels_another() -> None:
    """The nonce of the session is bound to its channel."""
    one, two = open_pair(), open_pair()
    assert one.host.nonce == one.control.nonce
    assert len({one.host.nonce, two.host.nonce}) == 2


@given(st.lists(st.binary(max_size=300), max_size=20))
def test_frames_arrive_as_they_were_sent(frames: list[bytes]) -> None:
    """Frames pass in both directions, each as one message that does not contain the frame."""
    pair = open_pair()
    for sender, receiver in ((pair.host, pair.control), (pair.control, pair.host)):
        for frame in frames:
            (message,) = sender.seal(frame)
            assert len(frame) < 8 or frame not in message
            assert receiver.open(message) == frame


@given(st.binary(min_size=1, max_size=100), st.data())
def test_a_changed_message_brings_nothing(frame: bytes, data: st.DataObject) -> None:
    """Any change of a message makes it a forgery, and the message itself is still accepted."""
    pair = open_pair()
    (message,) = pair.host.seal(frame)
    at = data.draw(st.integers(0, len(message) - 1))
    changed = bytearray(message)
    changed[at] ^= data.draw(st.integers(1, 255))
    assert pair.control.open(bytes(changed)) is None
    assert pair.control.open(message[:at]) is None
    assert pair.host.open(message) is None, "nothing can be sent back to its sender"
    assert pair.control.open(message) == frame


@pytest.mark.parametrize("order", [one for one in permutations(range(3)) if one != (0, 1, 2)])
def test_messages_out_of_order_end_the_channel(order: tuple[int, ...]) -> None:
    """A message that is early, late or lost is noticed."""
    pair = open_pair()
    messages = [pair.host.seal(b"%d" % number)[0] for number in range(3)]
    with pytest.raises(InvalidInputError, match="lost, repeated or reordered"):
        list(map(pair.control.open, [messages[number] for number in order]))


def test_a_repeated_message_ends_the_channel() -> None:
    """A message is good for one time."""
    pair = open_pair()
    (message,) = pair.host.seal(b"frame")
    assert pair.control.open(message) == b"frame"
    with pytest.raises(InvalidInputError, match="repeated"):
        pair.control.open(message)


def test_too_many_forgeries_end_the_channel() -> None:
    """Forgeries are ignored up to a number."""
    pair = open_pair()
    for _ in range(FORGERIES_MAX):
        assert pair.control.open(os.urandom(100)) is None
    with pytest.raises(InvalidInputError, match="not authentic"):
        pair.control.open(b"")


def test_large_frames_are_sent_in_parts() -> None:
    """A frame of the largest size arrives; a larger one ends the channel before it is complete."""
    pair = open_pair(4 * PART_BYTES_MAX)
    frame = os.urandom(4 * PART_BYTES_MAX)
    messages = pair.host.seal(frame)
    assert len(messages) == 4
    assert [pair.control.open(message) for message in messages] == [None, None, None, frame]
    assert pair.control.open(pair.host.seal(b"next")[0]) == b"next"
    *parts, last = pair.host.seal(frame + b"x")
    for part in parts:
        assert pair.control.open(part) is None
    with pytest.raises(InvalidInputError, match="more than"):
        pair.control.open(last)


def test_closings_and_signs_of_life_are_authentic_as_well() -> None:
    """The other end learns code and reason."""
    pair = open_pair()
    assert pair.host.open(pair.control.seal_alive()) == Alive()
    closing = pair.control.seal_closing(4401, "revoked")
    assert pair.host.open(closing) == Closing(4401, "revoked")


def test_only_a_pinned_key_can_answer() -> None:
    """A broker that answers itself, with a key of its own, is refused; so is an altered answer."""
    handshake = HostHandshake("host-1", HOST.sign, os.urandom)
    opening = opening_of(handshake.opening)
    own = Ed25519PrivateKey.generate()
    _, answer = accept(handshake.opening, opening, "q", own.sign, frame_bytes_max=MIB)
    with pytest.raises(AccessDeniedError, match="pinned"):
        handshake.finish(answer, PINNED, frame_bytes_max=MIB)
    _, answer = accept(handshake.opening, opening, "q", CONTROL.sign, frame_bytes_max=MIB)
    true = msgspec.msgpack.decode(answer, type=Acceptance)
    for altered in (
        Acceptance(true.version, true.channel, os.urandom(32), true.queue, true.signature),
        Acceptance(true.version, true.channel, true.ephemeral, "other", true.signature),
        Acceptance(true.version, true.channel, true.ephemeral, true.queue, b""),
    ):
        with pytest.raises(AccessDeniedError):
            handshake.finish(msgspec.msgpack.encode(altered), PINNED, frame_bytes_max=MIB)
    handshake.finish(answer, [os.urandom(32), *PINNED], frame_bytes_max=MIB)


def test_a_refusal_is_signed_as_well() -> None:
    """A refusal by the control plane ends the attempt; one by another key, or altered, does not."""
    handshake = HostHandshake("host-1", HOST.sign, os.urandom)
    opening = opening_of(handshake.opening)
    own = Ed25519PrivateKey.generate()
    answer = refuse(handshake.opening, opening, 4401, "revoked", own.sign)
    with pytest.raises(AccessDeniedError, match="pinned"):
        handshake.finish(answer, PINNED, frame_bytes_max=MIB)
    answer = refuse(handshake.opening, opening, 4401, "revoked", CONTROL.sign)
    with pytest.raises(AccessDeniedError, match="pinned"):
        handshake.finish(answer.replace(b"rev", b"ver"), PINNED, frame_bytes_max=MIB)
    with pytest.raises(RefusedError, match="4401: revoked"):
        handshake.finish(answer, PINNED, frame_bytes_max=MIB)


def test_an_answer_is_good_for_one_opening() -> None:
    """A recorded answer does not fit another opening, nor that of another host."""
    seen = open_pair().seen[1]
    for host in ("host-1", "host-2"):
        with pytest.raises(InvalidInputError, match="not the one"):
            HostHandshake(host, HOST.sign, os.urandom).finish(seen, PINNED, frame_bytes_max=MIB)


def test_the_signature_of_an_opening_covers_all_of_it() -> None:
    """Host, channel and key cannot be exchanged, and adjacent fields cannot be shifted."""
    opening = opening_of(open_pair().seen[0])
    others = [
        Opening(1, "host-2", opening.channel, opening.ephemeral, b""),
        Opening(1, opening.host, os.urandom(16), opening.ephemeral, b""),
        Opening(1, opening.host, opening.channel, os.urandom(32), b""),
        Opening(1, opening.host + "\0", opening.channel, opening.ephemeral, b""),
    ]
    assert all(other.signed != opening.signed for other in others)


@pytest.mark.parametrize(
    "message",
    [
        b"",
        b"\xc1",
        os.urandom(3000),
        msgspec.msgpack.encode(Opening(2, "host-1", b"c" * 16, b"e" * 32, b"")),
        msgspec.msgpack.encode(Opening(1, "host-1", b"c" * 17, b"e" * 32, b"")),
        msgspec.msgpack.encode([1, "host-1", 5, b"e" * 32, b""]),
    ],
)
def test_a_malformed_opening_is_refused(message: bytes) -> None:
    """Openings are strictly decoded."""
    with pytest.raises(InvalidInputError):
        opening_of(message)


@given(st.one_of(st.binary(max_size=200), st.lists(st.integers(0, 9)).map(msgspec.msgpack.encode)))
def test_arbitrary_bytes_are_refused_as_malformed(message: bytes) -> None:
    """Arbitrary bytes are refused as malformed by each step of the handshake, and then ignored."""
    with pytest.raises(InvalidInputError):
        opening_of(message)
    handshake = HostHandshake("host-1", HOST.sign, os.urandom)
    with pytest.raises(InvalidInputError):
        handshake.finish(message, PINNED, frame_bytes_max=MIB)
    assert open_pair().host.open(message) is None


@pytest.mark.parametrize("ephemeral", [b"", b"e" * 31, b"\0" * 32])
def test_an_unusable_key_is_refused(ephemeral: bytes) -> None:
    """A key of another size, and one that would make the secret known, are refused."""
    opening = Opening(1, "host-1", b"c" * 16, ephemeral, b"")
    with pytest.raises(InvalidInputError, match="X25519"):
        accept(b"", opening, "q", CONTROL.sign, frame_bytes_max=MIB)
