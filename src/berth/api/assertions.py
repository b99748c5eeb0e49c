"""Stating: for whom a parent zone asks, and what is told where no zone is."""

from dataclasses import replace
from enum import Enum
from functools import cache
from typing import TYPE_CHECKING, Final

from starlette.types import Scope

from berth.api.auth.authentication import Identity, is_name
from berth.api.errors import HttpError
from berth.api.header_fields import header_of
from berth.api.limits import RequestLimits
from berth.ports.zones import STATEMENT_HEADER
from berth.services.zoning.messages.assertions import (
    AssertedRequest,
    ZoneAssertion,
    ZoneAssertionError,
)

if TYPE_CHECKING:
    from berth.api.parts import ApiParts, ZoneParts

HEADER: Final = STATEMENT_HEADER.lower().encode()
BODY_BYTES_MAX: Final = 32 * 1024 * 1024
"""Longest body that comes with a parent's statement: a build of the most instances, in the main."""
_CHALLENGE: Final = {"WWW-Authenticate": "Berth-Zone-Statement"}


class AssertedIdentity(Enum):
    """Whether an operation takes statements.

    One that has no use for them refuses them, as who sends one wants to have no more rights than
    it says.
    """

    NEVER = "never"
    MAY = "may"
    MUST = "must"


def zone_parts(parts: "ApiParts") -> "ZoneParts":
    """Return what a zone has.

    Raises:
        HttpError: 501, as this deployment is none.
    """
    if parts.zones is None:
        raise HttpError(
            501, "This deployment is no zone of a tree; zones.name in its settings makes it one."
        )
    return parts.zones


def assertion_of(parts: "ApiParts", scope: Scope, stated: AssertedIdentity) -> ZoneAssertion | None:
    """Return the statement that a request bears, before its body is read; None without one.

    Raises:
        HttpError: 401 when it is not believed or is missing, 403 when it has no place here, 501
            where there is no zone.
    """
    text = header_of(scope, HEADER)
    if text is None:
        if stated is AssertedIdentity.MUST:
            zone_parts(parts)
            raise HttpError(
                401, "Only a parent zone may ask this: X-Berth-Zone-Statement is due.", _CHALLENGE
            )
        return None
    if stated is AssertedIdentity.NEVER:
        raise HttpError(403, "X-Berth-Zone-Statement has no place here; leave it out.")
    try:
        return zone_parts(parts).assertions.verify_signature(text)
    except ZoneAssertionError as error:
        raise _refused(error) from error


def asserted_caller(
    parts: "ApiParts", scope: Scope, statement: ZoneAssertion, body: bytes
) -> Identity:
    """Return who asks by a statement, which is used by that: its tenant, and no administrator.

    Raises:
        HttpError: 401 when it was made for another request, has ended or was used before, 403 when
            nobody could be called as its tenant is.
        UnavailableError: too many statements are in use at once.
    """
    asked = AssertedRequest(scope["method"], path_of(scope), body)
    try:
        zone_parts(parts).assertions.redeem(statement, asked)
    except ZoneAssertionError as error:
        raise _refused(error) from error
    names = (statement.project_id, statement.user_id)
    if any(name and not is_name(name) for name in names):
        raise HttpError(403, "The statement names no project or user that there could be.")
    return Identity(
        statement.user_id, statement.project_id, is_admin=False, parent=statement.parent
    )


@cache
def asserted_limits(limits: RequestLimits) -> RequestLimits:
    """Return the limits of requests that a parent has signed."""
    return replace(limits, body_bytes_max=max(limits.body_bytes_max, BODY_BYTES_MAX))


def path_of(scope: Scope) -> str:
    """Return path and query of a request as it was sent, below the root of the API."""
    raw: bytes = scope.get("raw_path") or scope["path"].encode()
    query: bytes = scope["query_string"]
    path = (raw + b"?" + query if query else raw).decode("latin-1")
    mounted: str = scope.get("app_root_path", scope.get("root_path", ""))
    return path.removeprefix(mounted)


def _refused(error: ZoneAssertionError) -> HttpError:
    """Say why, in a way that no answer about a server is told in: the parent is to know."""
    text = str(error)
    return HttpError(401, f"{text[:1].upper()}{text[1:]}.", _CHALLENGE)
