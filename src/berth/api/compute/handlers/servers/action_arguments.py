"""Reads and checks the arguments of server actions."""

from typing import Final, TypeVar

import msgspec

from berth.api.codec import UNSET, Model, UnsetType
from berth.api.errors import HttpError
from berth.api.microversion import Version, text_of
from berth.api.routing import Call
from berth.api.values import Flag, flag
from berth.domain.compute.instance_action import Caller
from berth.domain.errors import InvalidInputError

M = TypeVar("M", bound=Model)

# Microversion 2.68 removes `force` from live migration and evacuation.
_FORCE_GONE: Final = (2, 68)


def caller_of(call: Call) -> Caller:
    """Return the caller in the form that the action history and the lock checks need."""
    who = call.identity
    return Caller(call.request_id, who.project_id, who.user_id, is_admin=who.is_admin)


def read(args: object, kind: type[M], name: str) -> M:
    """Return the arguments of an action as a model.

    Raises:
        InvalidInputError: an argument is invalid; the error names the field and the reason.
    """
    # All actions are one operation, whose schema cannot describe the arguments of each.
    try:
        return msgspec.convert(args, kind)
    except msgspec.ValidationError as error:
        reason, _, path = str(error).partition(" - at `$")
        raise InvalidInputError(f"{name}{path.rstrip('`')}", reason) from error


def check_since(value: object, field: str, version: Version, since: Version) -> None:
    """Refuse a field before the microversion that added it.

    Args:
        value: the value of the field; UNSET if the request does not contain it.
        field: the path of the field, for the error.
        version: the microversion of the request.
        since: the first microversion that has the field.

    Raises:
        InvalidInputError: the field is set, and the request's microversion is older.
    """
    if value is not UNSET and version < since:
        raise InvalidInputError(field, f"requires microversion {text_of(since)} or later")


def is_forced(
    value: Flag | UnsetType, field: str, host: object, version: Version, since: Version
) -> bool:
    """Return whether a move skips the filters; False if the field is missing.

    Args:
        value: the value of the field `force`.
        field: the path of that field.
        host: the requested host; any value other than a string means that none is named.
        version: the microversion of the request.
        since: the first microversion that has the field; 2.67 is the last.

    Raises:
        InvalidInputError: the microversion does not have the field, the value is not a boolean, or
            it is true and no host is named.
    """
    if value is UNSET:
        return False
    if not since <= version < _FORCE_GONE:
        raise InvalidInputError(
            field, f"exists only in microversions {text_of(since)} to 2.67; leave it out"
        )
    forced = flag(value, field)
    if forced and not isinstance(host, str):
        raise InvalidInputError(field, "requires a host; set host as well")
    return forced


def check_admin(call: Call, what: str) -> None:
    """Check that the caller is an administrator; `what` is the subject of the error message.

    Raises:
        HttpError: the caller is not an administrator (403).
    """
    if not call.identity.is_admin:
        raise HttpError(403, f"{what} is for administrators only.")
