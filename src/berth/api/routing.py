"""Describes API operations as data, and turns requests into calls of their handlers."""

from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import NamedTuple, TypeVar
from urllib.parse import parse_qsl

from starlette.routing import Route
from starlette.types import ASGIApp, Receive, Scope, Send

from berth.api.answers import send_bytes, send_chunks, send_error
from berth.api.assertions import (
    AssertedIdentity,
    asserted_caller,
    asserted_limits,
    assertion_of,
    has_assertion,
)
from berth.api.auth.authentication import Identity, credentials_of
from berth.api.callers import note_caller
from berth.api.change_audit import AuditedOperation, note_body, note_operation, note_result
from berth.api.codec import Model, convert, decode, encode
from berth.api.errors import NOTHING_SAID, Header, HttpError, translate
from berth.api.header_fields import FORCE_HEADER, header_of
from berth.api.limits import check_depth, read_body
from berth.api.microversion import MAX, MIN, Version, negotiate, set_version, version_of
from berth.api.observed import ROUTE
from berth.api.parts import ApiParts
from berth.api.request_id import name_request, request_id_of
from berth.api.values import flag
from berth.domain.errors import BerthError, InvalidInputError

T = TypeVar("T")
Q = TypeVar("Q", bound=Model)

_KEY_MAX = 255
_QUERY_FIELDS_MAX = 100
_NOBODY = Identity("", "", is_admin=False)
_JSON = "application/json"
STRICTER: Version = (2, 75)
"""From this microversion on, some compute operations refuse unknown query parameters."""
STRICT: Version = (2, 102)
"""From this microversion on, all compute operations refuse unknown query parameters."""


class Role(StrEnum):
    """The callers that may use an operation.

    `PUBLIC` is every client, `KNOWN` an authenticated caller, `MEMBER` one with a project, and
    `ADMIN` an administrator with a project or with system scope. `MEMBER` operations also require
    the right to read, and those other than GET the right to write.
    """

    PUBLIC = "public"
    KNOWN = "known"
    MEMBER = "member"
    ADMIN = "admin"


class Answer(NamedTuple):
    """A handler's response: a body to encode as JSON, chunks of encoded JSON, or neither.

    `status` overrides the operation's status unless it is None.
    """

    body: object = None
    headers: tuple[Header, ...] = ()
    chunks: AsyncIterator[bytes] | None = None
    status: int | None = None


@dataclass(frozen=True, slots=True)
class ApiOperation:
    """One method on one path.

    The first line of the handler's docstring is the operation's summary in the OpenAPI document.
    `status` is that of a success, and `older_status` that of early microversions if it differs.
    `role` names the callers that are allowed. `query` and `body` are the types that the handler
    reads, and `answers` is the type of its response. `since` and `until` are the first and the last
    microversion that have the operation. `stated` says whether the operation refuses, accepts or
    requires the assertions of parent zones.
    """

    method: str
    path: str
    handler: "Callable[[Call], Awaitable[Answer]]"
    status: int = 200
    role: Role = Role.MEMBER
    query: type[Model] | None = None
    body: type | None = None
    answers: type | None = None
    since: Version = MIN
    until: Version = MAX
    stated: AssertedIdentity = AssertedIdentity.NEVER
    older_status: int | None = None
    strict_since: Version = STRICT
    """The first microversion that refuses unknown query parameters; compute API only."""
    is_audited: bool = True
    """Whether the audit log records requests of this operation other than GET; False for those
    that change nothing."""

    @property
    def audited(self) -> AuditedOperation:
        """The operation as the audit log needs it."""
        is_for_admins = self.role is Role.ADMIN
        return AuditedOperation(self.is_audited, self.role is Role.PUBLIC, is_for_admins)


class Call(NamedTuple):
    """A request with its body and caller; the caller of a public operation is not authenticated."""

    parts: ApiParts
    operation: ApiOperation
    scope: Scope
    identity: Identity
    version: Version
    raw_body: bytes

    @property
    def request_id(self) -> str:
        """The request's id."""
        return request_id_of(self.scope)

    def repeat(self, request_id: str) -> None:
        """Mark this request as a repeat of the one with the given id."""
        name_request(self.scope, request_id)

    @property
    def project_id(self) -> str | None:
        """The only project that the caller sees, or None for an administrator, who sees all."""
        return None if self.identity.is_admin else self.identity.project_id

    def key(self, name: str) -> str:
        """Return the value of a path parameter."""
        value: str = self.scope["path_params"][name]
        return value

    def body(self, kind: type[T]) -> T:
        """Return the decoded body, of the type that the operation declares.

        Raises:
            InvalidInputError: the body is not valid JSON, contains U+0000, or does not fit the
                type; the error names the field that does not fit.
            HttpError: 400 when lists and objects are nested too deeply.
        """
        self._check_declared(kind, self.operation.body)
        # Decoding recurses with the depth of the input, so the depth is checked first.
        check_depth(self.raw_body, self.parts.limits.json_depth_max)
        return decode(self.raw_body, kind)

    def query(self, kind: type[Q]) -> Q:
        """Return the decoded query; parameters that the type does not have are ignored.

        Raises:
            InvalidInputError: a parameter does not fit the type or contains U+0000, or there are
                too many.
        """
        self._check_declared(kind, self.operation.query)
        fields = kind.__struct_encode_fields__
        values = {name: value for name, value in self.query_items() if name in fields}
        return convert(values, kind, "query")

    def query_items(self) -> list[tuple[str, str]]:
        """Return the query parameters in the order of the request.

        Raises:
            InvalidInputError: there are too many parameters, or a value contains U+0000.
        """
        text: bytes = self.scope["query_string"]
        if not text:
            return []
        try:
            items = parse_qsl(
                text.decode("latin-1"), keep_blank_values=True, max_num_fields=_QUERY_FIELDS_MAX
            )
        except ValueError as error:
            reason = f"must have at most {_QUERY_FIELDS_MAX} parameters"
            raise InvalidInputError("query", reason) from error
        for name, value in items:
            if "\0" in value:
                raise InvalidInputError(name, "must not contain the character U+0000")
        return items

    @property
    def is_forced(self) -> bool:
        """Whether the header `X-Berth-Force` is true.

        Raises:
            InvalidInputError: the header is not a boolean.
        """
        return flag(self.header(FORCE_HEADER.lower().encode()), FORCE_HEADER)

    def header(self, name: bytes) -> str | None:
        """Return the value of the header with this name in lower case, or None if absent."""
        return header_of(self.scope, name)

    def _check_declared(self, kind: object, declared: object) -> None:
        """Raise an error unless the handler reads the type that the OpenAPI document shows."""
        if kind is not declared:
            raise TypeError(f"{self.operation.handler.__name__} reads {kind}, not {declared}")


class Endpoint:
    """The ASGI application of one path, which checks requests and calls the handlers.

    Args:
        parts: dependencies of the handlers.
        operations: the operations of the path, at most one for each method.
    """

    def __init__(self, parts: ApiParts, operations: Iterable[ApiOperation]) -> None:
        self._parts = parts
        self._operations = {operation.method: operation for operation in operations}
        self._route = next(iter(self._operations.values())).path
        self._allow = ", ".join(sorted(self._operations))

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Respond to one request."""
        scope[ROUTE] = self._route
        try:
            operation = self._operation(scope)
            note_operation(scope, operation.audited)
            call = await self._call(operation, scope, receive)
            note_body(scope, call.raw_body)
            answer = await operation.handler(call)
            # The body is encoded within the try block, so that an error in it becomes a response.
            body = b"" if answer.body is None else encode(answer.body)
            note_result(scope, answer.body)
        except BerthError as error:
            refusal = translate(error)
            if refusal is None:
                self._tell(scope, error)
                refusal = HttpError(500, NOTHING_SAID)
            await send_error(scope, send, refusal)
            return
        status = answer.status or operation.status
        if answer.chunks is None:
            await send_bytes(scope, send, status, body, answer.headers)
        else:
            await send_chunks(scope, send, status, answer.chunks, answer.headers)

    def _operation(self, scope: Scope) -> ApiOperation:
        method = scope["method"]
        operation = self._operations.get("GET" if method == "HEAD" else method)
        if operation is None:
            raise HttpError(
                405, f"{method[:20]} is not allowed on this path.", {"Allow": self._allow}
            )
        if not operation.since <= version_of(scope) <= operation.until:
            raise HttpError(404, "The requested microversion does not have this operation.")
        for name, value in scope["path_params"].items():
            if len(value) > _KEY_MAX or not value.isprintable():
                raise InvalidInputError(
                    name,
                    f"{value[:80]!r} must consist of 1 to {_KEY_MAX} printable characters",
                )
        return operation

    async def _call(self, operation: ApiOperation, scope: Scope, receive: Receive) -> Call:
        identity, statement, limits = _NOBODY, None, self._parts.limits
        # Callers are authenticated before their bodies are read, so that unauthenticated clients
        # cannot make the process buffer megabytes.
        if operation.role is not Role.PUBLIC:
            if not has_assertion(scope):
                identity = await self._parts.auth.identify(credentials_of(scope))
                note_caller(scope, identity)
            # The signature of an assertion authenticates a parent zone. The password of its account
            # is not checked as well, because bcrypt is far slower than a signature, and the check
            # could wait behind the logins of other clients.
            statement = assertion_of(self._parts, scope, operation.stated)
            if statement is None:
                _check_role(operation, identity)
            else:
                limits = asserted_limits(limits)
        raw_body = b""
        if operation.body is not None:
            raw_body = await read_body(scope, receive, limits)
            kind = header_of(scope, b"content-type")
            if raw_body and kind and kind.partition(";")[0].strip().lower() != _JSON:
                raise HttpError(415, "The Content-Type must be application/json.")
        if statement is not None:
            # The assertion names the tenant. The signature covers the body, so the assertion can
            # be redeemed only now.
            identity = await asserted_caller(self._parts, scope, statement, raw_body)
            note_caller(scope, identity)
            _check_role(operation, identity)
        call = Call(self._parts, operation, scope, identity, version_of(scope), raw_body)
        if call.version >= operation.strict_since and scope["query_string"]:
            _check_query(call)
        return call

    def _tell(self, scope: Scope, error: BerthError) -> None:
        self._parts.telemetry.failure(
            "http_request_failed",
            error,
            request_id=request_id_of(scope),
            method=scope["method"],
            path=scope["path"],
        )


def _check_query(call: Call) -> None:
    """Raise an error if the query of a request has a parameter that the operation does not read.

    Raises:
        InvalidInputError: there is such a parameter; the error names it.
    """
    query = call.operation.query
    known = () if query is None else query.__struct_encode_fields__
    for name, _ in call.query_items():
        if name not in known:
            reason = "is not a parameter of this operation; leave it out"
            raise InvalidInputError(name[:80] or "query", reason)


def _check_role(operation: ApiOperation, identity: Identity) -> None:
    if operation.role is Role.KNOWN:
        return
    is_about_system = operation.role is Role.ADMIN and identity.is_system and identity.is_admin
    if not identity.project_id and not is_about_system:
        raise HttpError(403, "The caller has no project; use a token or an account that has one.")
    if operation.role is Role.ADMIN and not identity.is_admin:
        raise HttpError(403, "Only administrators may use this operation.")
    if not identity.may_read:
        raise HttpError(
            403,
            "None of your roles in this project gives access to this service; ask for the role "
            "reader or member.",
        )
    if operation.method != "GET" and not identity.may_write:
        raise HttpError(
            403, "Your roles in this project allow reading only; ask for the role member."
        )


def routes_of(parts: ApiParts, operations: Iterable[ApiOperation], prefix: str = "") -> list[Route]:
    """Return one route per path, in the order of the operations; the first match wins.

    Args:
        parts: dependencies of the handlers.
        operations: the operations of all paths.
        prefix: the path under which the routes will be mounted; their own paths omit it.
    """
    by_path: dict[str, list[ApiOperation]] = {}
    for operation in operations:
        by_path.setdefault(operation.path.removeprefix(prefix), []).append(operation)
    return [Route(path, Endpoint(parts, found)) for path, found in by_path.items()]


def ends_of(
    routes: Iterable[Route], prefix: str, within: Callable[[ASGIApp], ASGIApp] | None = None
) -> dict[str, ASGIApp]:
    """Return the applications of the routes that have no path parameters, by full path.

    Args:
        routes: routes made by `routes_of`.
        prefix: path where they are mounted.
        within: wraps an application in middleware; None leaves the applications unwrapped.
    """
    ends = {f"{prefix}{route.path}": route.app for route in routes if "{" not in route.path}
    return ends if within is None else {path: within(end) for path, end in ends.items()}


class Shortcuts:
    """An ASGI application that dispatches paths without parameters by one dict lookup.

    A router would try its routes one after the other.

    Args:
        app: handles all other requests.
        ends: applications by path.
    """

    def __init__(self, app: ASGIApp, ends: Mapping[str, ASGIApp]) -> None:
        self._app = app
        self._ends = ends

    def __call__(self, scope: Scope, receive: Receive, send: Send) -> Awaitable[None]:
        """Pass the request on to the application of its path, or to `app` if there is none."""
        end = self._ends.get(scope["path"]) if scope["type"] == "http" else None
        if end is None:
            return self._app(scope, receive, send)
        scope["path_params"] = {}
        return end(scope, receive, send)


class Microversions:
    """An ASGI application that negotiates the microversion before it passes a request on."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    def __call__(self, scope: Scope, receive: Receive, send: Send) -> Awaitable[None]:
        """Pass the request on with its version, or respond with 400 or 406."""
        # The error response of a failed negotiation carries the minimum version, as Nova's does.
        set_version(scope, MIN)
        try:
            set_version(scope, negotiate(scope["headers"]))
        except HttpError as error:
            return send_error(scope, send, error)
        return self._app(scope, receive, send)


async def not_found(scope: Scope, receive: Receive, send: Send) -> None:  # noqa: ARG001 - ASGI
    """Respond with 404 to a path that no route serves."""
    if scope["type"] == "http":
        await send_error(scope, send, HttpError(404, "The resource could not be found."))
