"""The arguments of actions on servers, read as the microversion has them."""

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

_FORCE_GONE: Final = (2, 68)


def caller_of(call: Call) -> Caller:
    """Return who asks, for the history."""
    who = call.identity
    return Caller(call.request_id, who.project_id, who.user_id, is_admin=who.is_admin)


def read(args: object, kind: type[M], name: str) -> M:
    """Read the arguments of an action.

    Raises:
        InvalidInputError: naming the field and what is wrong with it.
    """
    try:
        return msgspec.convert(args, kind)
    except msgspec.ValidationError as error:
        reason, _, path = str(error).partition(" - at `$")
        raise InvalidInputError(f"{name}{path.rstrip('`')}", reason) from error


def check_since(value: object, field: str, version: Version, since: Version) -> None:
    """Refuse a field before the microversion that brought it.

    Raises:
        InvalidInputError: the field is there, and the version is older.
    """
    if value is not UNSET and version < since:
        raise InvalidInputError(field, f"is there from microversion {text_of(since)} on")


def is_forced(
    value: Flag | UnsetType, field: str, host: object, version: Version, since: Version
) -> bool:
    """Tell whether the filters are to be skipped, which was possible up to 2.67.

    Raises:
        InvalidInputError: the version has no such field, or no host is named.
    """
    if value is UNSET:
        return False
    if not since <= version < _FORCE_GONE:
        raise InvalidInputError(field, f"is there from {text_of(since)} to 2.67 only")
    forced = flag(value, field)
    if forced and not isinstance(host, str):
        raise InvalidInputError(field, "needs a host")
    return forced


def check_admin(call: Call, what: str) -> None:
    """Refuse whoever is no administrator.

    Raises:
        HttpError: 403.
    """
    if not call.identity.is_admin:
        raise HttpError(403, f"{what} is for administrators.")
