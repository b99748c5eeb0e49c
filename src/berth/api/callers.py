"""The caller of a request, as stored in its ASGI scope for the log."""

import base64
from typing import Final

from starlette.types import Scope

from berth.api.auth.authentication import Identity
from berth.api.header_fields import header_of

_CALLER: Final = "berth.caller"
_LOGIN: Final = "berth.login"
_HEADER_MAX: Final = 1024
_USER_MAX: Final = 255


def note_caller(scope: Scope, identity: Identity) -> None:
    """Store the authenticated caller of a request."""
    scope[_CALLER] = identity


def caller_of_request(scope: Scope) -> Identity | None:
    """Return the authenticated caller of a request, or None if there is none."""
    return scope.get(_CALLER)


def note_login(scope: Scope, user: str) -> None:
    """Store the user whose password is in the body of a request."""
    scope[_LOGIN] = user


def address_of(scope: Scope) -> str:
    """Return the address of the client of a request; empty if unknown."""
    client = scope.get("client")
    return client[0] if client else ""


def attempted_login(scope: Scope) -> tuple[str, str] | None:
    """Return how a request tried to authenticate, and as which user.

    Returns:
        `password` or `token`, and the name of the user, which is empty if the request does not
        say it; None for a request without credentials.
    """
    user: str | None = scope.get(_LOGIN)
    if user is not None:
        return "password", user[:_USER_MAX]
    header = header_of(scope, b"authorization")
    if header:
        return "password", _user_in(header)
    return None if header_of(scope, b"x-auth-token") is None else ("token", "")


def _user_in(header: str) -> str:
    """Return the user name in a header `Authorization`, or an empty string if it has none."""
    scheme, _, text = header.partition(" ")
    if scheme.lower() != "basic" or len(header) > _HEADER_MAX:
        return ""
    try:
        # Without a colon, the whole text could be a password.
        user, colon, _ = base64.b64decode(text.strip(), validate=True).partition(b":")
        return user.decode()[:_USER_MAX] if colon else ""
    except ValueError:
        return ""
