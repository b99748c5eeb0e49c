"""Messages between processes: size limits, versions, and errors as documents."""

from typing import Any

import msgspec
import pytest

from berth.adapters.bus.message_codec import (
    PARTS_MAX,
    VERSION,
    ErrorDocument,
    MessageCodec,
    error_document_of,
    error_of,
)
from berth.domain import errors
from berth.domain.compute.build_failure import BuildError
from berth.domain.compute.decision import NoValidHostError, Refusal, RefusalCode
from berth.domain.errors import BerthError, ConflictError, InvalidInputError, UnavailableError
from berth.ports.bus import Command, Context

_REFUSAL = Refusal(RefusalCode.ALL_FILTERED, "none", placed=0, asked=1, hosts_total=3)
_ASK: Command[dict[str, Any], list[int]] = Command("post", "ask", dict[str, Any], list[int])
_SAMPLES = [
    BerthError("plain"),
    BuildError("no image", blames_host=False),
    ConflictError("changed"),
    errors.DriverError("away"),
    errors.FeedGapError("too old"),
    errors.InstanceStateError("resize", "u-1", "task_state", "deleting"),
    InvalidInputError("server.name", "is too long"),
    errors.LedgerError("away"),
    NoValidHostError("req-1", _REFUSAL),
    errors.NotFoundError("flavor", "x"),
    errors.PolicyError("filters[2]", "is wrong"),
    UnavailableError("later"),
]


class _NarrowError(ConflictError):
    """An error type that other processes do not know."""


@pytest.mark.parametrize("error", _SAMPLES, ids=lambda error: type(error).__name__)
def test_an_error_travels_with_type_and_fields(error: BerthError) -> None:
    """The decoded error has the type, the message and the attributes of the original."""
    sent = msgspec.msgpack.encode(error_document_of(error))
    came = error_of(msgspec.msgpack.decode(sent, type=ErrorDocument))
    assert type(came) is type(error)
    assert str(came) == str(error)
    assert vars(came) == vars(error)


def test_an_error_of_an_unknown_type_arrives_as_its_base() -> None:
    """The receiver builds the nearest base type that it knows."""
    came = error_of(error_document_of(_NarrowError("it changed")))
    assert type(came) is ConflictError
    assert str(came) == "it changed"


@pytest.mark.parametrize(
    "failure",
    [
        ErrorDocument(("StrangeError",), "odd", msgspec.Raw(b"\x80")),
        ErrorDocument((), "odd", msgspec.Raw(b"\x80")),
        ErrorDocument(("InvalidInputError",), "odd", msgspec.Raw(b"\x80")),
        ErrorDocument(("InvalidInputError",), "odd", msgspec.Raw(b"\xc1")),
    ],
)
def test_an_error_that_cannot_be_read_still_tells_what_it_said(failure: ErrorDocument) -> None:
    """An error document that cannot be decoded becomes a BerthError with the same message."""
    came = error_of(failure)
    assert type(came) is BerthError
    assert str(came) == "odd"


def test_a_message_above_the_limit_is_not_sent() -> None:
    """The codec refuses to send a message above its limit, and refuses to read one."""
    small, large = MessageCodec(1_000), MessageCodec(100_000)
    with pytest.raises(UnavailableError, match=r"body_bytes_max"):
        small.command(_ASK, {"text": "x" * 2_000}, Context())
    with pytest.raises(UnavailableError, match="at most 1000"):
        small.read_command(large.command(_ASK, {"text": "x" * 2_000}, Context()))
    with pytest.raises(UnavailableError, match=r"body_bytes_max"):
        small.reply(["x"] * 1_000)


def test_a_failure_above_the_limit_is_told_in_few_words() -> None:
    """A failure whose text exceeds the limit is replaced by a shorter UnavailableError."""
    codec = MessageCodec(1_000)
    with pytest.raises(UnavailableError, match="2"):
        codec.read_reply(list[int], codec.failure(ConflictError("x" * 2_000)))


def test_a_message_that_is_nested_too_deep_is_not_sent() -> None:
    """The codec refuses to encode or decode very deep nesting, which would exhaust the stack."""
    deep: Any = []
    for _ in range(100_000):
        deep = [deep]
    codec = MessageCodec(10_000_000)
    with pytest.raises(UnavailableError, match="deep"):
        codec.command(_ASK, {"deep": deep}, Context())
    while deep:  # freeing the whole list in one step would recurse too deeply as well
        deep = deep[0]
    message = codec.read_command(codec.command(_ASK, {}, Context()))
    message.args = msgspec.Raw(b"\x81\xa1a" + b"\x91" * 100_000 + b"\xc0")
    with pytest.raises(UnavailableError, match="cannot decode"):
        codec.read_args(_ASK.args, message)


@pytest.mark.parametrize("body", [b"", b"\xc1", b"\x90", b"{}", b"\x99" + b"\xc0" * 9])
def test_what_is_no_message_is_refused(body: bytes) -> None:
    """Bytes that are not a message raise an UnavailableError."""
    with pytest.raises(UnavailableError, match="cannot decode"):
        MessageCodec(1_000).read_command(body)


def test_a_message_of_another_version_is_refused() -> None:
    """A message with a newer version raises an error that names this version."""
    codec = MessageCodec(1_000)
    message = codec.read_command(codec.command(_ASK, {}, Context()))
    message.version = VERSION + 1
    with pytest.raises(UnavailableError, match=f"version {VERSION + 1}"):
        codec.read_command(msgspec.msgpack.encode(message))


def test_arguments_of_another_form_are_refused() -> None:
    """A reply of the wrong type, as another version may send it, raises an UnavailableError."""
    codec = MessageCodec(1_000)
    with pytest.raises(UnavailableError, match="cannot decode"):
        codec.read_reply(list[int], codec.reply({"no": "list"}))


def test_a_mistake_of_the_sender_is_no_trouble_of_the_bus() -> None:
    """An argument that cannot be encoded raises a TypeError, as on the local bus."""
    with pytest.raises(TypeError):
        MessageCodec(1_000).command(_ASK, {"odd": object()}, Context())


def test_parts_that_share_a_message_arrive_one_by_one() -> None:
    """Joined commands are split into the same commands, in order and with their ids."""
    codec = MessageCodec(10_000)
    parts = [(f"{n}", codec.command(_ASK, {"n": n}, Context(f"req-{n}"))) for n in range(PARTS_MAX)]
    assert codec.split(codec.join(parts)) == parts
    assert codec.read_command(parts[1][1]).context == Context("req-1")


def test_a_shared_message_has_limits() -> None:
    """A shared message that is too large or has too many parts is refused at both ends."""
    codec, generous = MessageCodec(100), MessageCodec(100_000)
    body = generous.command(_ASK, {"text": "x" * 60}, Context())
    with pytest.raises(UnavailableError, match="cannot send a message"):
        codec.join([("1", body), ("2", body)])
    with pytest.raises(UnavailableError, match="received a message"):
        codec.split(generous.join([("1", body), ("2", body)]))
    with pytest.raises(UnavailableError, match="cannot decode"):
        generous.split(msgspec.msgpack.encode([VERSION, [["1", 2]] * (PARTS_MAX + 1)]))


def test_a_shared_message_of_another_version_is_refused() -> None:
    """The parts of a message of an unknown version are not read."""
    with pytest.raises(UnavailableError, match=f"version {VERSION + 1}"):
        MessageCodec(100).split(msgspec.msgpack.encode([VERSION + 1, []]))
