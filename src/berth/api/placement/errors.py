"""Errors as the Placement API tells them: a list of one, with a title, a detail and a code."""

import html
from collections.abc import Mapping
from enum import StrEnum
from http import HTTPStatus

from berth.api.codec import encode
from berth.api.errors import HttpError, translate
from berth.domain.errors import BerthError, ContentionError
from berth.services.providers.provider_writes import ProviderRefusedError, RefusalRule

AGAIN = "Another thread concurrently updated the resource provider data. Please retry your update"


class Code(StrEnum):
    """What programs may look at, from 1.23."""

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
"""What the original says of each status, before what is special about the request."""


class PlacementError(HttpError):
    """An answer of the Placement API other than success.

    Args:
        status: HTTP status from 400.
        message: what was wrong; clients show it as it is.
        code: what programs are told from 1.23.
        headers: header names and values to send with it.
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
    """Give any error its form here; None when the caller must not see it."""
    if isinstance(error, PlacementError):
        return error
    told = translate(error)
    if told is None:
        return None
    is_race = isinstance(error, ContentionError)
    code = Code.CONCURRENT_UPDATE if is_race else Code.UNDEFINED
    return PlacementError(told.status, told.message, code, told.headers)


def detail_of(error: HttpError, *, method: str, accept: str, content_type: str) -> str:
    """Return the sentence about the status and, in the last line, what was wrong.

    Args:
        error: the error.
        method: of the request, told by 405 and 501.
        accept: what the client accepts, told by 406.
        content_type: of the body, told by 415.
    """
    # One line, since clients show the last.
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
    return f"{_EXPLAINED.get(error.status, _title(error.status))}\n\n {message}  "


def error_body(error: HttpError, detail: str, about: Mapping[str, str]) -> bytes:
    """Write an error as JSON.

    Args:
        error: the error.
        detail: see `detail_of`.
        about: what else is told, the id of the request say.
    """
    told = {"status": error.status, "title": _title(error.status), "detail": detail, **about}
    return encode({"errors": [told]})


def unauthorized_body(error: HttpError) -> bytes:
    """Write 401 as JSON; whoever authenticates tells it in a form of its own."""
    message = f"{_EXPLAINED[401]}<br /><br />\n{error.message}\n\n"
    return encode({"message": message, "code": "401 Unauthorized", "title": "Unauthorized"})


def error_page(error: HttpError, detail: str) -> bytes:
    """Write an error for a browser."""
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
"""What a route says of some refusals."""


def no_provider(uuid: str, where: str = "found") -> PlacementError:
    """Tell that there is no such provider; `where` ends the sentence."""
    return PlacementError(404, f"No resource provider with uuid {uuid} {where}")


def no_provider_found(uuid: str, colon: str = ": ") -> PlacementError:
    """Tell it as the routes do that say it twice."""
    sentence = f"No resource provider with uuid {uuid} found"
    return PlacementError(404, f"{sentence}{colon}{sentence}")


def concurrent(message: str = AGAIN) -> PlacementError:
    """Tell that somebody else was faster."""
    return PlacementError(409, message, Code.CONCURRENT_UPDATE)


def told(error: ProviderRefusedError, special: Told) -> PlacementError:
    """Return what to answer for a refusal.

    Args:
        error: the refusal.
        special: what the route has to say about it.
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
