"""Errors between processes: what a server raises, as a document and back. No code travels."""

from inspect import getattr_static
from types import FunctionType
from typing import Any, Final, NamedTuple, get_type_hints

import msgspec

from berth.domain import errors
from berth.domain.compute.build_failure import BuildError
from berth.domain.compute.decision import NoValidHostError
from berth.domain.compute.quota import QuotaExceededError
from berth.domain.errors import BerthError


class Failure(msgspec.Struct, array_like=True):
    """An error: the names of its types, the nearest first, what it says, and its fields."""

    types: tuple[str, ...]
    message: str
    fields: msgspec.Raw


def failure_of(error: BerthError) -> Failure:
    """Return the document of an error; a type that is not known elsewhere is told as its base."""
    types = tuple(kind.__name__ for kind in type(error).__mro__ if kind in _KINDS)
    fields = {name: getattr(error, name) for name in _FORMS[types[0]].names}
    return Failure(types, str(error), msgspec.Raw(_ENCODER.encode(fields)))


def error_of(failure: Failure) -> BerthError:
    """Return the error of a document, with its fields, of the nearest type that is known here.

    Where the fields cannot be read it is a plain BerthError, which still tells what was said.
    """
    form = _FORMS[next((name for name in failure.types if name in _FORMS), "BerthError")]
    try:
        fields = msgspec.structs.asdict(form.decoder.decode(failure.fields))
    except (msgspec.MsgspecError, BerthError, RecursionError):
        return BerthError(failure.message)
    error: BerthError = form.kind.__new__(form.kind)
    # Its own `__init__` would make the message anew, of what may be other words by then.
    BerthError.__init__(error, failure.message)
    vars(error).update(fields)
    return error


class _Form(NamedTuple):
    """A type of error, and its fields with a decoder for them."""

    kind: type[BerthError]
    names: tuple[str, ...]
    decoder: msgspec.msgpack.Decoder[msgspec.Struct]


def _form_of(kind: type[BerthError]) -> _Form:
    """Find the fields of a type: what its `__init__` takes and keeps under the same name."""
    init: object = getattr_static(kind, "__init__")
    hints: dict[str, Any] = {}
    if isinstance(init, FunctionType):
        kept = init.__code__.co_names
        hints = {name: hint for name, hint in get_type_hints(init).items() if name in kept}
    struct = msgspec.defstruct(kind.__name__, [*hints.items()])
    return _Form(kind, tuple(hints), msgspec.msgpack.Decoder(struct))


_ENCODER: Final = msgspec.msgpack.Encoder()
_KINDS: Final = frozenset(
    kind
    for kind in (*vars(errors).values(), BuildError, NoValidHostError, QuotaExceededError)
    if isinstance(kind, type) and issubclass(kind, BerthError)
)
"""The types that every process knows."""
_FORMS: Final = {kind.__name__: _form_of(kind) for kind in _KINDS}
