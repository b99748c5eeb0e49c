"""Requests as values: the routes of the API, and steps: requests, pauses and clock reads.

The steps of an operation are a generator, which yields each effect and receives its result.
It does no I/O, so it serves the blocking and the asynchronous client.
"""

from collections.abc import Callable, Generator, Hashable, Mapping
from functools import cache
from types import NoneType
from typing import Any, Final, Generic, TypeAlias, TypeVar, cast
from urllib.parse import quote, urlencode

import msgspec

from berth.client.errors import (
    BadRequestError,
    DeadlineError,
    UnavailableError,
    UnreadableAnswerError,
)

A = TypeVar("A")
R = TypeVar("R")
T = TypeVar("T")

Json: TypeAlias = dict[str, Any]
"""A JSON object as the service sent it."""

KEY_HEADER: Final = "Idempotency-Key"
FORCE_HEADER: Final = "X-Berth-Force"

_NOTHING: Final[Mapping[str, Any]] = {}


class Value(msgspec.Struct, frozen=True, kw_only=True):
    """A value in a response. Fields that this version of the library does not know are ignored."""


class Request(msgspec.Struct, frozen=True):
    """One HTTP request: path, encoded query, JSON body (None for no body), additional headers."""

    method: str
    path: str
    query: str = ""
    body: object = None
    headers: Mapping[str, str] = msgspec.field(default_factory=dict[str, str])

    @property
    def is_repeatable(self) -> bool:
        """Whether the request can be sent again when it is unknown whether it had an effect."""
        return self.method == "GET" or KEY_HEADER in self.headers


class Pause(msgspec.Struct, frozen=True):
    """A pause of a number of seconds."""

    seconds: float


class Now(msgspec.Struct, frozen=True):
    """A read of the monotonic clock; its result is in seconds."""


Step: TypeAlias = Request | Pause | Now
Steps: TypeAlias = Generator[Step, Any, R]
"""A generator of steps that returns the result. A request is answered with the body, as bytes."""


class Pages(msgspec.Struct, Generic[T], frozen=True):
    """A list that is read page by page.

    `page` is called with the marker of a page, None for the first one, and its steps return the
    items and the marker of the next page, None for the last one. `name` is the name of the list in
    the response, and `marker_of` returns the marker from a response as the JSON object that it is.
    """

    name: str
    page: "Callable[[object], Steps[tuple[tuple[T, ...], object]]]"
    marker_of: Callable[[Json], object]


class Route(msgspec.Struct, Generic[A], frozen=True):
    """One operation of the API: method, path, and the type of the response.

    `query`, `body` and `headers` name all that may be sent. The names are those of the OpenAPI
    document, with which a test compares every route. A parameter of the path that may contain
    slashes is written `{name:path}`.
    """

    method: str
    path: str
    answers: type[A]
    query: tuple[str, ...] = ()
    body: tuple[str, ...] = ()
    headers: tuple[str, ...] = ()

    def ask(
        self,
        *,
        query: Mapping[str, object] | str = _NOTHING,
        body: Mapping[str, object] | None = None,
        headers: Mapping[str, str | None] = _NOTHING,
        **names: str,
    ) -> Steps[A]:
        """Send the request, and return the response.

        Args:
            query: parameters, or a complete query string; None values are omitted.
            body: the fields of the body; None sends no body.
            headers: additional headers; None values are omitted.
            names: the parameters of the path.

        Raises:
            ClientError: the request failed.
        """
        request = self.request(query=query, body=body, headers=headers, **names)
        content: bytes = yield request
        return read(content, self.answers, request)

    def request(
        self,
        *,
        query: Mapping[str, object] | str = _NOTHING,
        body: Mapping[str, object] | None = None,
        headers: Mapping[str, str | None] = _NOTHING,
        **names: str,
    ) -> Request:
        """Return the request; see `ask` for the arguments.

        Raises:
            TypeError: the route has no such parameter, field or header.
            BadRequestError: a parameter of the path cannot be part of one.
        """
        self._check("query parameter", self.query, {} if isinstance(query, str) else query)
        self._check("field", self.body, body or {})
        self._check("header", self.headers, headers)
        return Request(
            method=self.method,
            path=self._path(names),
            query=query_string(query),
            body=body,
            headers={name: value for name, value in headers.items() if value is not None},
        )

    def _path(self, names: Mapping[str, str]) -> str:
        path = self.path
        for name, value in names.items():
            if value in {"", ".", ".."}:
                raise BadRequestError(f"{name} must be a name or an id, not {value!r}")
            path = path.replace(f"{{{name}}}", quote(value, safe=""))
            # Slashes are sent as they are, because some proxies refuse paths with encoded ones.
            path = path.replace(f"{{{name}:path}}", quote(value, safe="/"))
        return path

    def _check(self, what: str, known: tuple[str, ...], given: Mapping[str, object]) -> None:
        for name in given:
            if name not in known:
                raise TypeError(f"{self.method} {self.path} has no {what} {name!r}")


def query_string(query: Mapping[str, object] | str) -> str:
    """Return query parameters encoded, without those that are None; a string stays as it is."""
    if isinstance(query, str):
        return query
    given = {name: _text(value) for name, value in query.items() if value is not None}
    return urlencode(given, quote_via=quote)


def _text(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def read(content: bytes, kind: type[A], request: Request) -> A:
    """Return the body of a response as a value; None for a response without content.

    Raises:
        UnreadableAnswerError: the body does not have the form of the type.
    """
    if kind is NoneType:
        return cast("A", None)
    try:
        return cast("A", _decoder(cast("Hashable", kind)).decode(content))
    except msgspec.ValidationError as error:
        raise _unreadable(
            f"has another form than this version expects ({error})", request
        ) from error
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise _unreadable("is not JSON", request) from error


def read_document(content: bytes, request: Request) -> Json:
    """Return the body of a response as the JSON object that it is; {} for an empty body.

    Raises:
        UnreadableAnswerError: the body is not a JSON object.
    """
    if not content:
        return {}
    try:
        document = cast("object", msgspec.json.decode(content))
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise _unreadable("is not JSON", request) from error
    if not isinstance(document, dict):
        raise _unreadable("is not a JSON object", request)
    return cast("Json", document)


def _unreadable(reason: str, request: Request) -> UnreadableAnswerError:
    message = f"the response {reason}"
    return UnreadableAnswerError(message, method=request.method, path=request.path)


@cache
def _decoder(kind: Hashable) -> msgspec.json.Decoder[Any]:
    # Building a decoder costs more than decoding a typical response.
    return msgspec.json.Decoder(cast("type[Any]", kind))


def wait_until(
    read: Callable[[], Steps[T]],
    is_over: Callable[[T], bool],
    *,
    timeout_s: float,
    poll_s: float,
    what: str,
) -> Steps[T]:
    """Read a resource until a condition holds, and return it.

    The service may be unavailable meanwhile, for example while it restarts.

    Args:
        read: returns the steps that read the resource.
        is_over: the condition.
        timeout_s: the longest time to wait, in seconds.
        poll_s: the pause between two reads, in seconds.
        what: the subject of the error message, such as `the drain of h1`.

    Raises:
        DeadlineError: the condition did not hold in time.
        ClientError: a request failed for another reason than an unavailable service.
    """
    now_s: float = yield Now()
    ends_s = now_s + timeout_s
    failure: UnavailableError | None = None
    while True:
        try:
            found = yield from read()
        except UnavailableError as error:
            failure = error
        else:
            failure = None
            if is_over(found):
                return found
        now_s = yield Now()
        if now_s + poll_s > ends_s:
            why = "" if failure is None else f"; the last request failed: {failure.message}"
            raise DeadlineError(f"{what} did not end within {timeout_s:g} s{why}") from failure
        yield Pause(poll_s)
