"""Signed assertions, in which a parent zone names the tenant on whose behalf it sends a request."""

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
"""Maximum size of the body of a signed request, unless the configured maximum is larger.

A parent's build of many instances needs such a large body.
"""
# A read that is repeated at another process changes nothing, and an attacker that could record the
# request could read its first response too. A commit for each read would also keep idle zones
# busy, because parents poll them.
_READS: Final = frozenset({"GET", "HEAD"})
_CHALLENGE: Final = {"WWW-Authenticate": "Berth-Zone-Statement"}


class AssertedIdentity(Enum):
    """Whether an operation refuses, accepts or requires assertions.

    With `NEVER`, the operation rejects a request that has an assertion; ignoring it would grant the
    rights of the parent's account to a request that should have only the tenant's rights. With
    `MUST`, the operation rejects a request that has none.
    """

    NEVER = "never"
    MAY = "may"
    MUST = "must"


def zone_parts(parts: "ApiParts") -> "ZoneParts":
    """Return the dependencies for requests that concern the tree of zones.

    Raises:
        HttpError: 501 when this deployment is not a zone.
    """
    if parts.zones is None:
        raise HttpError(
            501, "This deployment is not a zone of a tree; set zones.name in its settings."
        )
    return parts.zones


def has_assertion(scope: Scope) -> bool:
    """Return whether a request has the assertion header; its signature is not checked."""
    return header_of(scope, HEADER) is not None


def assertion_of(parts: "ApiParts", scope: Scope, stated: AssertedIdentity) -> ZoneAssertion | None:
    """Return a request's assertion after checking its signature, or None if it has none.

    Raises:
        HttpError: 401 when the assertion is invalid, or missing although the operation requires
            one; 403 when the operation accepts none; 501 when this deployment is not a zone.
    """
    text = header_of(scope, HEADER)
    if text is None:
        if stated is AssertedIdentity.MUST:
            zone_parts(parts)
            raise HttpError(
                401,
                "Only a parent zone may send this request, with the header X-Berth-Zone-Statement.",
                _CHALLENGE,
            )
        return None
    if stated is AssertedIdentity.NEVER:
        raise HttpError(403, "This operation does not accept X-Berth-Zone-Statement; leave it out.")
    try:
        return zone_parts(parts).assertions.verify_signature(text)
    except ZoneAssertionError as error:
        raise _refused(error) from error


async def asserted_caller(
    parts: "ApiParts", scope: Scope, statement: ZoneAssertion, body: bytes
) -> Identity:
    """Redeem an assertion and return its tenant's identity, which is never an administrator's.

    Args:
        parts: the dependencies of the API.
        scope: the scope of the request.
        statement: the assertion, whose signature has been checked.
        body: the body of the request, which the signature covers.

    Raises:
        HttpError: 401 when the assertion covers another request, has expired or was redeemed
            before; 403 when its project or user name is malformed; 501 when this deployment is not
            a zone.
        UnavailableError: too many unexpired assertions are remembered, or the ledger cannot be
            reached.
    """
    zone = zone_parts(parts)
    covered = AssertedRequest(scope["method"], path_of(scope), body)
    try:
        zone.assertions.redeem(statement, covered)
        if scope["method"] not in _READS:
            await zone.used_assertions.record(statement)
    except ZoneAssertionError as error:
        raise _refused(error) from error
    names = (statement.project_id, statement.user_id)
    if any(name and not is_name(name) for name in names):
        raise HttpError(
            403,
            "The project and the user in X-Berth-Zone-Statement must each consist of 1 to 255 "
            "printable characters.",
        )
    return Identity(
        statement.user_id, statement.project_id, is_admin=False, parent=statement.parent
    )


@cache
def asserted_limits(limits: RequestLimits) -> RequestLimits:
    """Return the limits of a signed request, with a body limit of at least `BODY_BYTES_MAX`."""
    return replace(limits, body_bytes_max=max(limits.body_bytes_max, BODY_BYTES_MAX))


def path_of(scope: Scope) -> str:
    """Return the path and query of a request, relative to the root of the API."""
    # The undecoded path is used, because the signature covers exactly the bytes that the parent
    # sent.
    raw: bytes = scope.get("raw_path") or scope["path"].encode()
    query: bytes = scope["query_string"]
    path = (raw + b"?" + query if query else raw).decode("latin-1")
    mounted: str = scope.get("app_root_path", scope.get("root_path", ""))
    return path.removeprefix(mounted)


def _refused(error: ZoneAssertionError) -> HttpError:
    """Return the 401 response, whose challenge names the assertion as the rejected credential."""
    text = str(error)
    return HttpError(401, f"{text[:1].upper()}{text[1:]}.", _CHALLENGE)
