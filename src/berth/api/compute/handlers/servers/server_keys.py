"""Finds the key pair that a request names, and decides whether a guest needs a config drive."""

from typing import Final

import msgspec

from berth.api.codec import View
from berth.api.compute.schemas.key_pairs import PublicKey
from berth.api.compute.schemas.servers import ShortText
from berth.api.compute.views.servers import Extra
from berth.api.routing import Call
from berth.domain.compute.key_pair import KeyType
from berth.domain.errors import InvalidInputError, NotFoundError

STATED_KEY: Final = "key_pair"
"""The field of a parent's `rebuild` with the key pair that the tenant named."""


class StatedKey(View):
    """A key pair as parents state it, since key pairs exist only in the zone that a user calls."""

    name: ShortText
    type: KeyType
    public_key: PublicKey

    @property
    def extra(self) -> Extra:
        """The fields of a server with this key pair."""
        return {"key_name": self.name, "key_type": self.type, "key_data": self.public_key}


def with_config_drive(extra: Extra) -> Extra:
    """Return the fields of a new server, with a config drive if its guest needs one.

    Berth has no metadata service, so a guest can read a key, user data and files only from a config
    drive.
    """
    needs = any(extra.get(name) for name in ("config_drive", "key_data", "user_data", "files"))
    extra = {**extra}
    extra.pop("has_config_drive", None)
    if needs:
        extra["has_config_drive"] = True
    return extra


async def key_called(call: Call, name: str, field: str) -> StatedKey:
    """Return the caller's key pair with a name.

    A server keeps a copy, so it is not affected when the key pair is deleted, as in Nova.

    Raises:
        InvalidInputError: the caller has no key pair of that name.
        UnavailableError: the ledger cannot be reached.
    """
    try:
        pair = await call.parts.key_pairs.get(call.identity.user_id, name)
    except NotFoundError as error:
        reason = f"is invalid, because you have no key pair {name[:80]!r}; create or import it"
        raise InvalidInputError(field, reason) from error
    return StatedKey(name=pair.name, type=pair.type, public_key=pair.public_key)


def stated_key(args: dict[str, object]) -> tuple[StatedKey | None, dict[str, object]]:
    """Return the key pair in a parent's `rebuild`, or None, and the other arguments.

    Raises:
        InvalidInputError: the key pair is malformed.
    """
    rest = dict(args)
    found = rest.pop(STATED_KEY, None)
    if found is None:
        return None, rest
    try:
        return msgspec.convert(found, StatedKey), rest
    except msgspec.ValidationError as error:
        raise InvalidInputError(f"rebuild.{STATED_KEY}", str(error)) from error
