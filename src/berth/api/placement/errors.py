"""Errors in the Placement API's format: a list of one object with status, title and detail."""

import html
from collections.abc import Mapping
from enum import StrEnum
from http import HTTPStatus

from berth.api.codec import encode
from berth.api.errors import HttpError, translate
from berth.domain.errors import BerthError
from berth.services.providers.provider_writes import ProviderRefusedError, RefusalRule

AGAIN = "Another thread concurrently updated the resource provider data. Please retry your update"


class Code(StrEnum):
    """Machine-readable error codes, sent from microversion 1.23 on."""

    UNDEFINED = "placement.undefined_code"
    CONCURRENT_UPDATE = "placement.concurrent_update"
    INVENTORY_IN_USE = "placement.inventory.inuse"
    DUPLICATE_NAME = "placement.duplicate_name"
    PROVIDER_IN_USE = "placement.resource_provider.inuse"
    PROVIDER_IS_PARENT = "placement.resource_provider.cannot_delete_parent"
    PROVIDER_NOT_FOUND = "placement.resource_provider.not_found"
    QUERY_DUPLICATE_KEY = "placement.query.duplicate_key"
    QUERY_BAD_VALUE = "placement.query.bad_value"
    QUERY_MISSING_VALUE = "placement.query.missing_value"


# The sentence that precedes the message in Placement's errors of each status. The texts are those
# of its web framework (WebOb), and the differential tests compare them.
_EXPLAINED: Mapping[int, str] = {
    400: "The server could not comply with the request since it is either malformed or otherwise "
    "incorrect.",
    401: "This server could not verify that you are authorized to access the document you "
    "requested. Either you supplied the wrong credentials (e.g., bad password), or your browser "
    "does not understand how to supply the credentials required.",
    403: "Access was denied to this resource.",
    404: "The resource could not be found.",
    408: "The server has waited too long for the request to be sent by the client.",
    409: "There was a conflict when trying to complete your request.",
    413: "The body of your request was too large for this server.",
    414: "The request URI was too long for this server.",
    429: "The client has sent too many requests in a given amount of time",
    431: "The request header fields were too large",
    500: "The server has either erred or is incapable of performing the requested operation.",
    503: "The server is currently unavailable. Please try again at a later time.",
}


class PlacementError(HttpError):
    """An error response of the Placement API.

    Args:
        status: HTTP status, 400 or above.
        message: description of the problem; clients show it unchanged.
        code: machine-readable code, sent from microversion 1.23 on.
        headers: additional response headers.
    """

    def __init__(
        self,
        status: int,
        message: str,
        code: Code = Code.UNDEFINED,
        headers: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__(status, message, headers)
        self.code = code


def refusal_of(error: BerthError) -> PlacementError | None:
    """Return an error as a `PlacementError`, or None if the client must not see it."""
    if isinstance(error, PlacementError):
        return error
    http_error = translate(error)
    if http_error is None:
        return None
    return PlacementError(http_error.status, http_error.message, Code.UNDEFINED, http_error.headers)


def detail_of(error: HttpError, *, method: str, accept: str, content_type: str) -> str:
    """Return the standard sentence for an error's status, with its message on the last line.

    Args:
        error: the error.
        method: HTTP method, part of the text of 405 and 501.
        accept: the `accept` header, part of the text of 406.
        content_type: media type of the body, part of the text of 415.
    """
    # The message is joined into one line because OpenStack's clients show the last line only.
    message = " ".join(error.message.replace("\r", "").split("\n"))
    special = {
        405: f"The method {method} is not allowed for this resource.",
        406: "The resource could not be generated that was acceptable to your browser (content "
        f"of type {accept}.",
        415: f"The request media type {content_type} is not supported by this server.",
        501: f"The request method {method} is not implemented for this server.",
    }.get(error.status)
    if special is not None:
        return f"{special} \n\n {message}"
    # The spaces are those of WebOb's template.
    return f"{_EXPLAINED.get(error.status, _title(error.status))}\n\n {message}  "


def error_body(error: HttpError, detail: str, about: Mapping[str, str]) -> bytes:
    """Encode an error as JSON.

    Args:
        error: the error.
        detail: the text of `detail_of`.
        about: additional fields, such as the request id.
    """
    body = {"status": error.status, "title": _title(error.status), "detail": detail, **about}
    return encode({"errors": [body]})


def unauthorized_body(error: HttpError) -> bytes:
    """Encode a 401 as JSON in the format of OpenStack's authentication middleware."""
    message = f"{_EXPLAINED[401]}<br /><br />\n{error.message}\n\n"
    return encode({"message": message, "code": "401 Unauthorized", "title": "Unauthorized"})


def error_page(error: HttpError, detail: str) -> bytes:
    """Encode an error as an HTML page."""
    title = f"{error.status} {_title(error.status)}"
    paragraphs = "".join(f"<p>{html.escape(part)}</p>" for part in detail.split("\n\n"))
    page = (
        f"<!DOCTYPE html><html><head><title>{title}</title></head>"
        f"<body><h1>{title}</h1>{paragraphs}</body></html>"
    )
    return page.encode()


def _title(status: int) -> str:
    try:
        return HTTPStatus(status).phrase
    except ValueError:
        return "Error"


Told = Mapping[RefusalRule, PlacementError]
"""A route's own error responses by refusal rule."""


def no_provider(uuid: str, where: str = "found") -> PlacementError:
    """Return the 404 error for an unknown provider; `where` ends its message."""
    return PlacementError(404, f"No resource provider with uuid {uuid} {where}")


def no_provider_found(uuid: str, colon: str = ": ") -> PlacementError:
    """Return the 404 error for an unknown provider, with a message that repeats its sentence.

    Some of Placement's handlers wrap the message of the lookup in the same sentence. They differ
    in the separator, which is `colon`.
    """
    sentence = f"No resource provider with uuid {uuid} found"
    return PlacementError(404, f"{sentence}{colon}{sentence}")


def concurrent(message: str = AGAIN) -> PlacementError:
    """Return the 409 error for a lost race or an outdated generation."""
    return PlacementError(409, message, Code.CONCURRENT_UPDATE)


def told(error: ProviderRefusedError, special: Told) -> PlacementError:
    """Return the error response for a refusal.

    Args:
        error: the refusal.
        special: the route's own responses, which take precedence over the general ones.
    """
    refusal = special.get(error.why)
    if refusal is not None:
        return refusal
    match error.why:
        case RefusalRule.NO_PROVIDER:
            return no_provider(error.subject)
        case RefusalRule.GENERATION | RefusalRule.CONTENDED:
            return concurrent()
        case _:
            return PlacementError(409, str(error))
