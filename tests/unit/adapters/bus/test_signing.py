"""Signatures of messages: forged, altered, late, repeated and foreign messages are refused."""

from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any, Final

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from berth.adapters.bus.message_codec import MESSAGE_ID_BYTES, VERSION, MessageCodec
from berth.adapters.bus.signing import (
    CODE_BYTES,
    LIFE_S_MAX,
    SKEW_S,
    MessageSigner,
    RefusedMessageError,
)
from berth.domain.errors import ConflictError, UnavailableError
from berth.ports.bus import Command, Context
from tests.rabbit import FixedKeys

_ASK: Final[Command[dict[str, Any], list[int]]] = Command("post", "ask", dict[str, Any], list[int])
_KEY, _NEXT, _FOREIGN = b"k" * 32, b"n" * 32, b"f" * 32
_NOW_S: Final = 1_000_000.0
_ID: Final = b"i" * MESSAGE_ID_BYTES


def codec_of(
    *keys: bytes, accepts_unsigned: bool = False, now_s: Callable[[], float] = lambda: _NOW_S
) -> MessageCodec:
    """Return a codec that signs with the first of some keys and accepts all."""
    signer = MessageSigner(FixedKeys(keys), accepts_unsigned=accepts_unsigned, now_s=now_s)
    return MessageCodec(100_000, signer)


def ask(codec: MessageCodec, *, message_id: bytes = _ID, deadline_s: float | None = None) -> bytes:
    """Return a command for the server `host-1`."""
    context = Context("req-1", deadline_s)
    return codec.command(_ASK, {"a": 1}, context, server="host-1", message_id=message_id)


def refused(reason: str) -> AbstractContextManager[object]:
    """Return the context in which a message is refused for a reason."""
    return pytest.raises(RefusedMessageError, match=f"({reason})")


def test_a_signed_command_is_read() -> None:
    """A command of a process with the same key arrives with all that it says."""
    read = codec_of(_KEY).read_command(ask(codec_of(_KEY)))
    assert (read.topic, read.name, read.server, read.message_id) == ("post", "ask", "host-1", _ID)
    assert codec_of(_KEY).read_args(_ASK.args, read) == {"a": 1}


@given(st.data())
def test_no_byte_of_a_command_can_be_changed(data: st.DataObject) -> None:
    """A change of any bytes, also of recipient, type, id or expiry, is refused."""
    body = bytearray(ask(codec_of(_KEY)))
    for _ in range(data.draw(st.integers(1, 3))):
        at = data.draw(st.integers(0, len(body) - 1))
        body[at] ^= data.draw(st.integers(1, 255))
    if bytes(body) == ask(codec_of(_KEY)):
        return
    with pytest.raises(RefusedMessageError):
        codec_of(_KEY).read_command(bytes(body))


@given(st.binary(max_size=500))
def test_no_bytes_of_a_stranger_are_decoded(body: bytes) -> None:
    """Whatever a stranger sends is refused before it is decoded."""
    with pytest.raises(RefusedMessageError):
        codec_of(_KEY).read_command(body)
    with pytest.raises(RefusedMessageError):
        codec_of(_KEY).read_reply(_ASK.reply, body, _ID)


def test_a_command_without_a_code_is_refused() -> None:
    """A stranger that knows the format, but no key, cannot send commands."""
    with refused("unsigned"):
        codec_of(_KEY).read_command(ask(MessageCodec(100_000)))
    with refused("forged"):
        codec_of(_KEY).read_command(ask(codec_of(_FOREIGN)))
    body = ask(codec_of(_KEY))
    with refused("forged"):
        codec_of(_KEY).read_command(body[:-CODE_BYTES] + bytes(CODE_BYTES))


def test_a_command_is_accepted_once() -> None:
    """A replay is refused, but not what the broker itself delivers again."""
    server, body = codec_of(_KEY), ask(codec_of(_KEY))
    server.read_command(body)
    with refused("replayed"):
        server.read_command(body)
    assert server.read_command(body, is_redelivered=True).message_id == _ID
    assert server.read_command(ask(codec_of(_KEY), message_id=b"o" * 16)).message_id == b"o" * 16


@given(late_s=st.floats(0.1, LIFE_S_MAX + 3_600), life_s=st.floats(0.1, LIFE_S_MAX * 2))
def test_a_command_expires(late_s: float, life_s: float) -> None:
    """A command is accepted until its expiry and the allowed skew, and replays never are."""
    body = ask(codec_of(_KEY), deadline_s=_NOW_S + life_s)
    times = iter([_NOW_S, _NOW_S + late_s])
    server = codec_of(_KEY, now_s=lambda: next(times))
    server.read_command(body)
    with pytest.raises(RefusedMessageError) as caught:
        server.read_command(body)
    is_late = late_s > min(life_s, LIFE_S_MAX) + SKEW_S
    assert caught.value.reason == ("expired" if is_late else "replayed")


def test_a_command_is_not_valid_for_long() -> None:
    """An expiry that is far in the future is refused: replays are not remembered that long."""
    far = codec_of(_KEY, now_s=lambda: _NOW_S + 3_600)
    with refused("expired"):
        codec_of(_KEY).read_command(ask(far))


def test_a_rotation_refuses_nothing() -> None:
    """Processes with the old and the new file accept each other's messages."""
    old, new, later = codec_of(_KEY, _NEXT), codec_of(_NEXT, b"3" * 32, _KEY), codec_of(b"3" * 32)
    assert new.read_command(ask(old)).message_id == _ID
    assert old.read_command(ask(new)).message_id == _ID
    with refused("forged"):
        later.read_command(ask(old))


def test_a_reply_belongs_to_its_call() -> None:
    """A reply is accepted for its own call only, with values and errors."""
    server, caller = codec_of(_KEY), codec_of(_KEY)
    assert caller.read_reply(_ASK.reply, server.reply([1, 2], _ID), _ID) == [1, 2]
    with pytest.raises(ConflictError, match="changed"):
        caller.read_reply(_ASK.reply, server.failure(ConflictError("it changed"), _ID), _ID)
    with refused("forged"):
        caller.read_reply(_ASK.reply, server.reply([1, 2], b"o" * 16), _ID)
    with refused("unsigned"):
        caller.read_reply(_ASK.reply, MessageCodec(100_000).reply([1, 2]), _ID)


def test_a_command_is_no_reply() -> None:
    """A signed command cannot be passed off as a reply, nor a reply as a command."""
    with refused("forged"):
        codec_of(_KEY).read_reply(_ASK.reply, ask(codec_of(_KEY)), _ID)
    with refused("forged"):
        codec_of(_KEY).read_command(codec_of(_KEY).reply([1], _ID))


def test_the_previous_version_is_understood_if_allowed() -> None:
    """Unsigned messages are accepted with `accepts_unsigned`, but never wrongly signed ones."""
    lenient, old = codec_of(_KEY, accepts_unsigned=True), MessageCodec(100_000)
    assert lenient.read_command(ask(old)).server == "host-1"
    assert lenient.read_reply(_ASK.reply, old.reply([1]), _ID) == [1]
    with refused("forged"):
        lenient.read_command(ask(codec_of(_FOREIGN)))


def test_the_previous_version_understands_signed_messages() -> None:
    """A reader that knows no codes reads signed commands and replies."""
    old, new = MessageCodec(100_000), codec_of(_KEY)
    assert old.read_command(ask(new)).context.request_id == "req-1"
    assert old.read_reply(_ASK.reply, new.reply([3], _ID)) == [3]


@pytest.mark.parametrize("signs", [True, False])
def test_a_reply_of_another_version_or_size_is_refused(signs: bool) -> None:
    """A reply is checked for its version and its size, as a command is."""
    codec = codec_of(_KEY, accepts_unsigned=True) if signs else MessageCodec(100_000)
    other = msgspec.msgpack.encode([VERSION + 1, None, [1]])
    with pytest.raises(UnavailableError, match=f"version {VERSION + 1}"):
        codec.read_reply(_ASK.reply, other, _ID)
    large = msgspec.msgpack.encode([VERSION, None, [1] * 200_000])
    with pytest.raises(UnavailableError, match="at most 100000"):
        codec.read_reply(_ASK.reply, large, _ID)
