"""The codec of the messages between processes: commands and replies in MessagePack.

Each message starts with its format version. Each command and each reply ends with the code that
proves that it comes from the control plane (see `signing`). A reader accepts a message with
additional fields before the code, which newer writers may append, and rejects messages of another
version. An error is sent as its type names, message and fields, never as code; the types come from
a fixed list.
"""

from collections.abc import Sequence
from inspect import getattr_static
from types import FunctionType
from typing import Annotated, Any, Final, NamedTuple, TypeVar, get_type_hints

import msgspec

from berth.adapters.bus.signing import BLANK_CODE, MessageSigner
from berth.domain import errors
from berth.domain.compute.build_failure import BuildError
from berth.domain.compute.decision import NoValidHostError
from berth.domain.compute.quota import QuotaExceededError
from berth.domain.errors import BerthError, UnavailableError
from berth.ports.bus import Command, Context, Priority

R = TypeVar("R")

VERSION: Final = 1
MESSAGE_ID_BYTES: Final = 16
"""Size of the random id of a command."""

# The authentication code of a message also covers one of these, so that a reply is never valid as a
# command.
_COMMAND: Final = b"command "
_REPLY: Final = b"reply "

PARTS_MAX: Final = 64
"""The maximum number of calls or replies that share a message."""


class ErrorDocument(msgspec.Struct, array_like=True):
    """An error in transit: the names of its types (most specific first), its message and fields."""

    types: tuple[str, ...]
    message: str
    fields: msgspec.Raw


def error_document_of(error: BerthError) -> ErrorDocument:
    """Return the document for an error; it names only types from the fixed list."""
    types = tuple(kind.__name__ for kind in type(error).__mro__ if kind in _KNOWN_ERRORS)
    fields = {name: getattr(error, name) for name in _ERROR_TYPES[types[0]].names}
    return ErrorDocument(types, str(error), msgspec.Raw(_ENCODER.encode(fields)))


def error_of(failure: ErrorDocument) -> BerthError:
    """Return the error that a document describes, as the most specific type known here.

    If its fields cannot be decoded, the error is a plain BerthError with the same message.
    """
    error_type = _ERROR_TYPES[
        next((name for name in failure.types if name in _ERROR_TYPES), "BerthError")
    ]
    try:
        fields = msgspec.structs.asdict(error_type.decoder.decode(failure.fields))
    except (msgspec.MsgspecError, BerthError, RecursionError):
        return BerthError(failure.message)
    error: BerthError = error_type.kind.__new__(error_type.kind)
    # The type's own `__init__` is not called, because it would compose the message again, and the
    # wording may differ between the versions of Berth in the two processes.
    BerthError.__init__(error, failure.message)
    vars(error).update(fields)
    return error


class _ErrorType(NamedTuple):
    """An error type, the names of its fields, and their decoder."""

    kind: type[BerthError]
    names: tuple[str, ...]
    decoder: msgspec.msgpack.Decoder[msgspec.Struct]


def _error_type_of(kind: type[BerthError]) -> _ErrorType:
    """Return an error type with its fields: the parameters that `__init__` stores as attributes."""
    init: object = getattr_static(kind, "__init__")
    hints: dict[str, Any] = {}
    if isinstance(init, FunctionType):
        kept = init.__code__.co_names
        hints = {name: hint for name, hint in get_type_hints(init).items() if name in kept}
    struct = msgspec.defstruct(kind.__name__, [*hints.items()])
    return _ErrorType(kind, tuple(hints), msgspec.msgpack.Decoder(struct))


_ENCODER: Final = msgspec.msgpack.Encoder()
_NONE: Final = msgspec.Raw(b"\xc0")

# The list is fixed, so that a message can only create errors that Berth itself defines.
_KNOWN_ERRORS: Final = frozenset(
    kind
    for kind in (*vars(errors).values(), BuildError, NoValidHostError, QuotaExceededError)
    if isinstance(kind, type) and issubclass(kind, BerthError)
)

_ERROR_TYPES: Final = {kind.__name__: _error_type_of(kind) for kind in _KNOWN_ERRORS}


class CommandMessage(msgspec.Struct, array_like=True):
    """A command in transit.

    `server` is the server that must carry it out, or None if any may. `to_all` marks a fanout.
    `args` are the encoded arguments. `message_id` is random, and the command is refused after
    `expires_at_s`; the previous version sends neither.
    """

    version: int
    topic: str
    name: str
    server: str | None
    to_all: bool
    request_id: str | None
    deadline_s: float | None
    traceparent: str | None
    args: msgspec.Raw
    message_id: bytes = b""
    expires_at_s: float = 0.0

    @property
    def context(self) -> Context:
        """The request id, deadline and trace that the sender passed along."""
        return Context(self.request_id, self.deadline_s, self.traceparent)


class _SignedCommand(CommandMessage, array_like=True):
    """A command with its code; a reader checks the code in the bytes of the message."""

    code: bytes = BLANK_CODE


class _ReplyMessage(msgspec.Struct, array_like=True):
    """The reply to a call: an error, or a value."""

    version: int
    failure: ErrorDocument | None
    value: msgspec.Raw


class _SignedReply(_ReplyMessage, array_like=True):
    """A reply with its code."""

    code: bytes = BLANK_CODE


Part = tuple[str, bytes]
"""The id of a call, and the encoded command or reply."""


class _SharedMessage(msgspec.Struct, array_like=True):
    """Several calls, or several replies to one caller, each with the id of its call.

    The message has no code, because each of its parts has one.
    """

    version: int
    parts: Annotated[list[tuple[str, msgspec.Raw]], msgspec.Meta(max_length=PARTS_MAX)]


class MessageCodec:
    """Encodes and decodes messages, up to a maximum size.

    Args:
        body_bytes_max: the maximum size in bytes of a message.
        signer: signs messages and checks the codes of received ones; None does neither.
    """

    def __init__(self, body_bytes_max: int, signer: MessageSigner | None = None) -> None:
        self._body_bytes_max = body_bytes_max
        self._signer = signer
        self._encoder = msgspec.msgpack.Encoder()
        self._messages = msgspec.msgpack.Decoder(CommandMessage)
        self._answers = msgspec.msgpack.Decoder(_ReplyMessage)
        self._shared = msgspec.msgpack.Decoder(_SharedMessage)
        self._decoders: dict[type, msgspec.msgpack.Decoder[Any]] = {}

    def command(
        self,
        command: Command[Any, Any],
        args: object,
        context: Context,
        *,
        server: str | None = None,
        to_all: bool = False,
        message_id: bytes = b"",
    ) -> bytes:
        """Encode a command.

        Args:
            command: the command.
            args: its arguments.
            context: travels with the command.
            server: the server that must carry it out, or None if any may.
            to_all: whether it is a fanout.
            message_id: `MESSAGE_ID_BYTES` random bytes.

        Raises:
            UnavailableError: the message exceeds the size limit, or is nested too deeply.
            TypeError: the arguments have a type that cannot be encoded; a programming error.
        """
        signer = self._signer
        message = (CommandMessage if signer is None else _SignedCommand)(
            VERSION,
            command.topic,
            command.name,
            server,
            to_all,
            context.request_id,
            context.deadline_s,
            context.traceparent,
            self._encode(args),
            message_id,
            0.0 if signer is None else signer.expiry_s(context.deadline_s),
        )
        body = self._checked(self._encoder.encode(message))
        return body if signer is None else signer.signed(body, _COMMAND)

    def read_command(self, body: bytes, *, is_redelivered: bool = False) -> CommandMessage:
        """Decode a command without its arguments.

        Args:
            body: the message.
            is_redelivered: whether the broker delivers it again.

        Raises:
            RefusedMessageError: the message does not come from the control plane, has expired, or
                was repeated.
            UnavailableError: the body is too large, is not a command, or has another version.
        """
        self._check_size(body)
        signer = self._signer
        is_signed = signer is not None and signer.is_signed(body, _COMMAND)
        message: CommandMessage = self._read(self._messages, body)
        _check_version(message.version)
        if signer is not None and is_signed:
            signer.check_fresh(
                message.message_id, message.expires_at_s, is_redelivered=is_redelivered
            )
        return message

    def read_args(self, kind: type[R], message: CommandMessage) -> R:
        """Decode the arguments of a command.

        Raises:
            UnavailableError: the arguments do not have the type that this process expects.
            BerthError: the arguments have that type but violate a rule of the domain.
        """
        return self._read(self._decoder(kind), message.args)

    def reply(self, value: object, message_id: bytes = b"") -> bytes:
        """Encode the reply to the call whose id is `message_id`.

        Raises:
            UnavailableError: the message exceeds the size limit, or is nested too deeply.
            TypeError: the value has a type that cannot be encoded; a programming error.
        """
        return self._reply(None, self._encode(value), message_id)

    def failure(self, error: BerthError, message_id: bytes = b"") -> bytes:
        """Encode an error as the reply to a call.

        An error that exceeds the size limit is replaced by an UnavailableError that says so. The
        reply has no code if there is no `message_id`: the command was refused, or the previous
        version sent it.
        """
        try:
            return self._reply(error_document_of(error), _NONE, message_id)
        except UnavailableError as too_large:
            return self._reply(error_document_of(too_large), _NONE, message_id)

    def read_reply(self, kind: type[R], body: bytes, message_id: bytes = b"") -> R:
        """Decode the reply to the call whose id is `message_id`.

        Raises:
            BerthError: the error that the server raised.
            RefusedMessageError: the reply does not come from the control plane.
            UnavailableError: the reply is too large, cannot be decoded, or has another version.
        """
        self._check_size(body)
        if self._signer is not None:
            self._signer.is_signed(body, _REPLY + message_id)
        answer: _ReplyMessage = self._read(self._answers, body)
        _check_version(answer.version)
        if answer.failure is not None:
            raise error_of(answer.failure)
        return self._read(self._decoder(kind), answer.value)

    def _reply(self, failure: ErrorDocument | None, value: msgspec.Raw, message_id: bytes) -> bytes:
        signer = self._signer
        if signer is None or len(message_id) != MESSAGE_ID_BYTES:
            return self._checked(self._encoder.encode(_ReplyMessage(VERSION, failure, value)))
        body = self._checked(self._encoder.encode(_SignedReply(VERSION, failure, value)))
        return signer.signed(body, _REPLY + message_id)

    def join(self, parts: Sequence[Part]) -> bytes:
        """Encode at most `PARTS_MAX` calls or replies as one message.

        Raises:
            UnavailableError: the message exceeds the size limit.
        """
        raw = [(call_id, msgspec.Raw(body)) for call_id, body in parts]
        return self._checked(self._encoder.encode(_SharedMessage(VERSION, raw)))

    def split(self, body: bytes) -> list[Part]:
        """Decode a message that several calls or replies share.

        Raises:
            UnavailableError: the body is too large, is not such a message, or has another version.
        """
        self._check_size(body)
        message: _SharedMessage = self._read(self._shared, body)
        _check_version(message.version)
        return [(call_id, bytes(raw)) for call_id, raw in message.parts]

    def _encode(self, value: object) -> msgspec.Raw:
        try:
            return msgspec.Raw(self._encoder.encode(value))
        except RecursionError as error:
            raise UnavailableError(
                "cannot send a message that is nested too deeply; simplify the request"
            ) from error

    def _check_size(self, body: bytes) -> None:
        if len(body) > self._body_bytes_max:
            raise UnavailableError(
                f"received a message of {len(body)} bytes, but at most {self._body_bytes_max} are "
                "accepted; set bus.body_bytes_max to the same value everywhere"
            )

    def _checked(self, body: bytes) -> bytes:
        if len(body) > self._body_bytes_max:
            raise UnavailableError(
                f"cannot send a message of {len(body)} bytes, because the bus carries at most "
                f"{self._body_bytes_max}; increase bus.body_bytes_max in all processes"
            )
        return body

    def _decoder(self, kind: type[R]) -> msgspec.msgpack.Decoder[R]:
        decoder = self._decoders.get(kind)
        if decoder is None:
            decoder = self._decoders[kind] = msgspec.msgpack.Decoder(kind)
        return decoder

    def _read(self, decoder: msgspec.msgpack.Decoder[R], body: bytes | msgspec.Raw) -> R:
        try:
            return decoder.decode(body)
        except (msgspec.MsgspecError, RecursionError, UnicodeDecodeError) as error:
            raise UnavailableError(
                f"cannot decode a message on the bus: {error}; run the same version of Berth "
                "everywhere"
            ) from error


def _check_version(version: int) -> None:
    if version != VERSION:
        raise UnavailableError(
            f"received a message of version {version}, but this process reads version {VERSION}; "
            "run the same version of Berth everywhere"
        )


class NotificationBody(msgspec.Struct, frozen=True):
    """The body of a notification, encoded as JSON.

    `timestamp` is in ISO 8601 format and UTC. `request_id` and `traceparent` identify the request
    that caused the event, and are None if there is none.
    """

    message_id: str
    event_type: str
    priority: Priority
    publisher_id: str
    timestamp: str
    request_id: str | None
    traceparent: str | None
    payload: object


def unserved_error(
    command: Command[Any, Any] | CommandMessage, server: str | None = None
) -> UnavailableError:
    """Return the error for a command that no process, or none named `server`, serves."""
    name = f"{command.topic}.{command.name}"
    where = "" if server is None else f" for {server}"
    return UnavailableError(f"no process serves {name}{where}; start `berth {command.topic}`")
