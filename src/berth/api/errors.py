"""Errors in the compute API's format: an object with a code and a message under a fault's name."""

from collections.abc import Mapping

from berth.api.codec import View, encode
from berth.domain.compute.decision import NoValidHostError
from berth.domain.compute.quota import QuotaExceededError
from berth.domain.errors import (
    AccessDeniedError,
    BerthError,
    ConflictError,
    InvalidInputError,
    NotFoundError,
    PolicyError,
    UnavailableError,
)

_FAULT = "computeFault"
_NAMES = {
    400: "badRequest",
    401: "unauthorized",
    403: "forbidden",
    404: "itemNotFound",
    405: "badMethod",
    409: "conflictingRequest",
    413: "overLimit",
    415: "badMediaType",
    429: "overLimit",
    501: "notImplemented",
    503: "serviceUnavailable",
}
_STATUSES = (
    (InvalidInputError, 400),
    (PolicyError, 400),
    (AccessDeniedError, 403),
    (QuotaExceededError, 403),
    (ConflictError, 409),
    (NoValidHostError, 409),
)
"""The statuses of errors whose text clients may see."""
_RETRY_AFTER_S = "2"

Header = tuple[bytes, bytes]

# The exception's text may contain secrets or internals, so clients get only this text.
NOTHING_SAID = (
    "Unexpected API error: Berth failed to carry out the request. Berth's log shows the reason "
    "under the request id in the header x-openstack-request-id."
)


class FaultBody(View):
    """The code and the message of an error, which a response contains under the fault's name."""

    code: int
    message: str


class HttpError(BerthError):
    """An error response.

    Args:
        status: HTTP status, 400 or above.
        message: tells the client what is wrong and what to do.
        headers: additional response headers.
    """

    def __init__(self, status: int, message: str, headers: Mapping[str, str] | None = None) -> None:
        super().__init__(message)
        self.status = status
        self.message = message
        self.headers = headers or {}


def get_only() -> HttpError:
    """Return the 405 error for paths that support only GET and HEAD."""
    return HttpError(405, "Only GET and HEAD are allowed on this path.", {"Allow": "GET, HEAD"})


def translate(error: BerthError) -> HttpError | None:
    """Return the error response for an error, or None if clients must not see its text."""
    match error:
        case HttpError():
            return error
        case NotFoundError():
            noun = error.noun[:1].upper() + error.noun[1:]
            return HttpError(404, f"{noun} {error.key} could not be found.")
        case UnavailableError():
            return HttpError(503, str(error), {"Retry-After": _RETRY_AFTER_S})
        case _:
            status = next((each for kind, each in _STATUSES if isinstance(error, kind)), None)
            return None if status is None else HttpError(status, str(error))


def fault_body(error: HttpError) -> bytes:
    """Return the response body of an error."""
    fault = FaultBody(code=error.status, message=error.message)
    return encode({_NAMES.get(error.status, _FAULT): fault})
