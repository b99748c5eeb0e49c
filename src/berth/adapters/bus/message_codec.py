"""Messages between processes: commands and answers in MessagePack, within limits.

Every message says its version. A reader takes messages of its own version with more at their end,
which newer writers may add, and refuses those of another.
"""

from inspect import getattr_static
from types import FunctionType
from typing import Any, Final, NamedTuple, TypeVar, get_type_hints

import msgspec

from berth.domain import errors
from berth.domain.compute.build_failure import BuildError
from berth.domain.compute.decision import NoValidHostError
from berth.domain.compute.quota import QuotaExceededError
from berth.domain.errors import BerthError, UnavailableError
from berth.ports.bus import Command, Context, Priority

R = TypeVar("R")

VERSION: Final = 1


class ErrorDocument(msgspec.Struct, array_like=True):
    """An error: the names of its types, the nearest first, what it says, and its fields."""

    types: tuple[str, ...]
    message: str
    fields: msgspec.Raw


def error_document_of(error: BerthError) -> ErrorDocument:
    """Return the document of an error; a type that is not known elsewhere is told as its base."""
    types = tuple(kind.__name__ for kind in type(error).__mro__ if kind in _KNOWN_ERRORS)
    fields = {name: getattr(error, name) for name in _ERROR_TYPES[types[0]].names}
    return ErrorDocument(types, str(error), msgspec.Raw(_ENCODER.encode(fields)))


def error_of(failure: ErrorDocument) -> BerthError:
    """Return the error of a document, with its fields, of the nearest type that is known here.

    Where the fields cannot be read it is a plain BerthError, which still tells what was said.
    """
    error_type = _ERROR_TYPES[
        next((name for name in failure.types if name in _ERROR_TYPES), "BerthError")
    ]
    try:
        fields = msgspec.structs.asdict(error_type.decoder.decode(failure.fields))
    except (msgspec.MsgspecError, BerthError, RecursionError):
        return BerthError(failure.message)
    error: BerthError = error_type.kind.__new__(error_type.kind)
    # Its own `__init__` would make the message anew, of what may be other words by then.
    BerthError.__init__(error, failure.message)
    vars(error).update(fields)
    return error


class _ErrorType(NamedTuple):
    """A type of error, and its fields with a decoder for them."""

    kind: type[BerthError]
    names: tuple[str, ...]
    decoder: msgspec.msgpack.Decoder[msgspec.Struct]


def _error_type_of(kind: type[BerthError]) -> _ErrorType:
    """Find the fields of a type: what its `__init__` takes and keeps under the same name."""
    init: object = getattr_static(kind, "__init__")
    hints: dict[str, Any] = {}
    if isinstance(init, FunctionType):
        kept = init.__code__.co_names
        hints = {name: hint for name, hint in get_type_hints(init).items() if name in kept}
    struct = msgspec.defstruct(kind.__name__, [*hints.items()])
    return _ErrorType(kind, tuple(hints), msgspec.msgpack.Decoder(struct))


_ENCODER: Final = msgspec.msgpack.Encoder()


_KNOWN_ERRORS: Final = frozenset(
    kind
    for kind in (*vars(errors).values(), BuildError, NoValidHostError, QuotaExceededError)
    if isinstance(kind, type) and issubclass(kind, BerthError)
)
"""The types that every process knows."""


_ERROR_TYPES: Final = {kind.__name__: _error_type_of(kind) for kind in _KNOWN_ERRORS}


class CommandMessage(msgspec.Struct, array_like=True):
    """A command on its way. `server` is None when it is for nobody in particular."""

    version: int
    topic: str
    name: str
    server: str | None
    to_all: bool
    request_id: str | None
    deadline_s: float | None
    traceparent: str | None
    args: msgspec.Raw

    @property
    def context(self) -> Context:
        """What goes with it."""
        return Context(self.request_id, self.deadline_s, self.traceparent)


class _ReplyMessage(msgspec.Struct, array_like=True):
    """What came of a call: a failure, or a value."""

    version: int
    failure: ErrorDocument | None
    value: msgspec.Raw


class MessageCodec:
    """Writes and reads messages of at most so many bytes."""

    def __init__(self, body_bytes_max: int) -> None:
        self._body_bytes_max = body_bytes_max
        self._encoder = msgspec.msgpack.Encoder()
        self._messages = msgspec.msgpack.Decoder(CommandMessage)
        self._answers = msgspec.msgpack.Decoder(_ReplyMessage)
        self._decoders: dict[type, msgspec.msgpack.Decoder[Any]] = {}

    def command(
        self,
        command: Command[Any, Any],
        args: object,
        context: Context,
        *,
        server: str | None = None,
        to_all: bool = False,
    ) -> bytes:
        """Write a command.

        Raises:
            UnavailableError: it is larger than what the bus carries, or nested too deep.
            TypeError: the arguments are of no type that can be sent, which is a mistake.
        """
        message = CommandMessage(
            VERSION,
            command.topic,
            command.name,
            server,
            to_all,
            context.request_id,
            context.deadline_s,
            context.traceparent,
            self._encode(args),
        )
        return self._checked(self._encoder.encode(message))

    def read_command(self, body: bytes) -> CommandMessage:
        """Read a command, all but its arguments.

        Raises:
            UnavailableError: it is no command, or one of another version.
        """
        if len(body) > self._body_bytes_max:
            raise UnavailableError(f"a message of {len(body)} bytes came; that is too large")
        message: CommandMessage = self._read(self._messages, body)
        if message.version != VERSION:
            raise UnavailableError(
                f"a message of version {message.version} came, and this process knows {VERSION}; "
                "run the same Berth everywhere"
            )
        return message

    def read_args(self, kind: type[R], message: CommandMessage) -> R:
        """Read the arguments of a command.

        Raises:
            UnavailableError: they are not what the command takes here.
            BerthError: they are, and break a rule.
        """
        return self._read(self._decoder(kind), message.args)

    def reply(self, value: object) -> bytes:
        """Write the answer to a call.

        Raises:
            UnavailableError: it is larger than what the bus carries, or nested too deep.
            TypeError: it is of no type that can be sent, which is a mistake.
        """
        return self._checked(
            self._encoder.encode(_ReplyMessage(VERSION, None, self._encode(value)))
        )

    def failure(self, error: BerthError) -> bytes:
        """Write an error as the answer to a call; one that is too large is told in few words."""
        try:
            return self._checked(self._encode_failure(error))
        except UnavailableError as too_large:
            return self._encode_failure(too_large)

    def read_reply(self, kind: type[R], body: bytes) -> R:
        """Read the answer to a call.

        Raises:
            BerthError: what the server raised.
            UnavailableError: the answer cannot be read.
        """
        answer: _ReplyMessage = self._read(self._answers, body)
        if answer.failure is not None:
            raise error_of(answer.failure)
        return self._read(self._decoder(kind), answer.value)

    def _encode_failure(self, error: BerthError) -> bytes:
        answer = _ReplyMessage(VERSION, error_document_of(error), msgspec.Raw(b"\xc0"))
        return self._encoder.encode(answer)

    def _encode(self, value: object) -> msgspec.Raw:
        try:
            return msgspec.Raw(self._encoder.encode(value))
        except RecursionError as error:
            raise UnavailableError("the message is nested too deep for the bus") from error

    def _checked(self, body: bytes) -> bytes:
        if len(body) > self._body_bytes_max:
            raise UnavailableError(
                f"the message has {len(body)} bytes, and the bus carries {self._body_bytes_max} "
                "at most; see bus.body_bytes_max"
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
            raise UnavailableError(f"a message cannot be read: {error}") from error


class NotificationBody(msgspec.Struct, frozen=True):
    """What stands in the body of a message, as JSON.

    `timestamp` is in UTC; `request_id` and `traceparent` are those of what caused it, if any.
    """

    message_id: str
    event_type: str
    priority: Priority
    publisher_id: str
    timestamp: str
    request_id: str | None
    traceparent: str | None
    payload: object
