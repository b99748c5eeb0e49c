"""Errors of the client library: each says what failed, and whether the service answered."""

from collections.abc import Mapping
from http import HTTPStatus
from typing import Final, cast

import httpx
import msgspec

_TEXT_MAX: Final = 300
_REQUEST_ID: Final = "x-openstack-request-id"


class ClientError(Exception):
    """A request failed.

    Args:
        message: what is wrong; for an error response, the service's own message.
        status: the HTTP status; None if the service did not answer.
        code: the service's name of the error, such as `itemNotFound`; empty if it gave none.
        request_id: the id under which the service logged the request; None if there is none.
        method: the HTTP method of the request; empty if the error is about no single request.
        path: the path of the request.
    """

    def __init__(
        self,
        message: str,
        *,
        status: int | None = None,
        code: str = "",
        request_id: str | None = None,
        method: str = "",
        path: str = "",
    ) -> None:
        super().__init__(message)
        self.message = message
        self.status = status
        self.code = code
        self.request_id = request_id
        self.method = method
        self.path = path

    @property
    def where(self) -> str:
        """The request with its status and its id, or an empty text if there is no request."""
        parts = [f"{self.method} {self.path}"] if self.method else []
        if parts and self.status is not None:
            parts = [f"{parts[0]}: {self.status}"]
        if self.request_id is not None:
            parts.append(f"request {self.request_id}")
        return ", ".join(parts)

    def __str__(self) -> str:
        return f"{self.message} ({self.where})" if self.where else self.message


class BadRequestError(ClientError):
    """The request is malformed; the service refuses it with 400, 413, 414 or 415."""


class AuthError(ClientError):
    """The credentials are missing, wrong or expired (401)."""


class ForbiddenError(ClientError):
    """The caller may not do this: the role or a quota forbids it (403)."""


class NotFoundError(ClientError):
    """The resource does not exist, or belongs to another project (404)."""


class ConflictError(ClientError):
    """The state of the resource forbids the operation (409)."""


class TooManyRequestsError(ClientError):
    """The service limits the rate of requests or of failed logins (429)."""


class UnavailableError(ClientError):
    """The service cannot be reached, did not answer in time, or is overloaded (502, 503, 504)."""


class UnreadableAnswerError(ClientError):
    """The response is not what the API describes, for example the page of a proxy."""


class DeadlineError(ClientError):
    """The awaited state was not reached within the time."""


_KINDS: Final[Mapping[int, type[ClientError]]] = {
    400: BadRequestError,
    401: AuthError,
    403: ForbiddenError,
    404: NotFoundError,
    409: ConflictError,
    413: BadRequestError,
    414: BadRequestError,
    415: BadRequestError,
    429: TooManyRequestsError,
    502: UnavailableError,
    503: UnavailableError,
    504: UnavailableError,
}


def error_of(answer: httpx.Response, method: str, path: str) -> ClientError:
    """Return the error of a response whose status is not a success.

    Args:
        answer: the response, with its body read.
        method: the method of the request.
        path: the path of the request.
    """
    code, message = _fault_of(answer)
    kind = _KINDS.get(answer.status_code, ClientError)
    return kind(
        message,
        status=answer.status_code,
        code=code,
        request_id=answer.headers.get(_REQUEST_ID),
        method=method,
        path=path,
    )


def _fault_of(answer: httpx.Response) -> tuple[str, str]:
    """Return the name and the message of an error response.

    The service's format is `{"itemNotFound": {"code": 404, "message": ...}}`, with another key for
    each status. Other responses, such as a proxy's, yield the start of their body or, without a
    body, the reason phrase of the status.
    """
    try:
        document = cast("object", msgspec.json.decode(answer.content))
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return "", answer.text[:_TEXT_MAX].strip() or _phrase(answer.status_code)
    faults = cast("dict[str, object]", document) if isinstance(document, dict) else {}
    for code, fault in faults.items():
        match fault:
            case {"message": str(message)}:
                return code, message
            case _:
                pass
    return "", answer.text[:_TEXT_MAX]


def _phrase(status: int) -> str:
    try:
        return HTTPStatus(status).phrase
    except ValueError:
        return "the response is an error without a message"
