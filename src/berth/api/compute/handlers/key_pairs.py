"""Handlers for key pairs."""

import re
from typing import Final

from berth.api.codec import UNSET
from berth.api.compute.schemas.key_pairs import (
    KeyPairAnswer,
    KeyPairQuery,
    KeyPairsAnswer,
    KeyPairsQuery,
    KeyPairView,
    NewKeyPair,
    NewKeyPairBody,
)
from berth.api.errors import HttpError
from berth.api.links import limit_of, next_page, page_of
from berth.api.microversion import Version
from berth.api.routing import Answer, Call
from berth.api.values import check_edges, naive_time, number_of
from berth.domain.compute.key_pair import KeyPair, KeyType
from berth.domain.errors import InvalidInputError

# Microversions: 2.2 adds the type, and changes two statuses; 2.10 lets administrators name the
# owner; 2.35 adds pages; from 2.92 on, Berth generates no keys and names may contain "@" and ".".
_TYPE: Final[Version] = (2, 2)
_OWNER: Final[Version] = (2, 10)
_PAGES: Final[Version] = (2, 35)
_IMPORTS_ONLY: Final[Version] = (2, 92)
_OLD_NAME: Final = re.compile(r"[a-zA-Z0-9_ -]+")
_IDS: Final = 2**31


async def list_key_pairs(call: Call) -> Answer:
    """List the key pairs of the caller or, for administrators, of another user.

    Raises:
        InvalidInputError: no item has the marker as its key.
        HttpError: 403 when the caller names another user and is not an administrator.
    """
    query = call.query(KeyPairsQuery)
    found = await call.parts.key_pairs.of_user(_owner(call, query.user_id))
    if call.version < _PAGES:
        return Answer(KeyPairsAnswer(keypairs=[_line(call, pair) for pair in found]))
    limit = limit_of(call, query.limit)
    names = [pair.name for pair in found]
    page = page_of(found, names, query.marker, limit)
    has_more = bool(page) and page[-1].name != names[-1]
    links = next_page(call, page[-1].name, limit) if has_more else UNSET
    return Answer(
        KeyPairsAnswer(keypairs=[_line(call, pair) for pair in page], keypairs_links=links)
    )


async def create_key_pair(call: Call) -> Answer:
    """Import a public key or, before microversion 2.92, generate a key pair.

    Raises:
        InvalidInputError: the name, the type or the public key is invalid, or a field does not
            exist in this microversion.
        HttpError: 403 when the caller names another user and is not an administrator.
        ConflictError: the name is taken, or every attempt lost a race against another change.
        QuotaExceededError: the user has as many key pairs as allowed.
    """
    new = call.body(NewKeyPairBody).keypair
    _check(new, call.version)
    name = new.name.strip()
    owner = _owner(call, None if new.user_id is UNSET else new.user_id)
    kind = KeyType.SSH if new.type is UNSET else new.type
    project_id = call.identity.project_id
    service = call.parts.key_pairs
    private_key = None
    if new.public_key is UNSET:
        pair, private_key = await service.generate(owner, name, kind, project_id=project_id)
    else:
        pair = await service.import_key(owner, name, new.public_key, kind, project_id=project_id)
    view = KeyPairView(
        name=pair.name,
        public_key=pair.public_key,
        fingerprint=pair.fingerprint,
        type=pair.type.value if call.version >= _TYPE else UNSET,
        user_id=owner,
        private_key=UNSET if private_key is None else private_key,
    )
    return Answer(KeyPairAnswer(keypair=view), status=None if call.version >= _TYPE else 200)


async def show_key_pair(call: Call) -> Answer:
    """Show a key pair.

    Raises:
        HttpError: 403 when the caller names another user and is not an administrator.
        NotFoundError: the user has no key pair of that name.
    """
    owner = _owner(call, call.query(KeyPairQuery).user_id)
    pair = await call.parts.key_pairs.get(owner, call.key("keypair_name"))
    view = KeyPairView(
        name=pair.name,
        public_key=pair.public_key,
        fingerprint=pair.fingerprint,
        type=pair.type.value if call.version >= _TYPE else UNSET,
        user_id=owner,
        id=_number(owner, pair.name),
        created_at=naive_time(pair.created_at_s),
        deleted=False,
        deleted_at=None,
        updated_at=None,
    )
    return Answer(KeyPairAnswer(keypair=view))


async def delete_key_pair(call: Call) -> Answer:
    """Delete a key pair; servers that were created with it keep its public key.

    Raises:
        HttpError: 403 when the caller names another user and is not an administrator.
        NotFoundError: the user has no key pair of that name.
        ConflictError: every attempt lost a race against another change.
    """
    owner = _owner(call, call.query(KeyPairQuery).user_id)
    await call.parts.key_pairs.delete(owner, call.key("keypair_name"))
    return Answer(status=None if call.version >= _TYPE else 202)


def _owner(call: Call, requested: str | None) -> str:
    """Return the user whose key pairs a request is for.

    Raises:
        HttpError: 403 when the caller names another user and is not an administrator.
    """
    # As in Nova, queries before 2.10 may contain the parameter without any effect.
    if requested is None or call.version < _OWNER:
        return call.identity.user_id
    if requested != call.identity.user_id and not call.identity.is_admin:
        raise HttpError(403, "Only administrators may use the key pairs of other users.")
    return requested


def _check(new: NewKeyPair, version: Version) -> None:
    """Refuse fields and names that the microversion does not have."""
    check_edges(new.name, "keypair.name")
    if version < _IMPORTS_ONLY:
        if _OLD_NAME.fullmatch(new.name) is None:
            reason = "must consist of letters, digits, spaces, - and _; 2.92 adds @ and dots"
            raise InvalidInputError("keypair.name", reason)
    elif new.public_key is UNSET:
        reason = "is required from microversion 2.92 on, because keys are no longer generated"
        raise InvalidInputError("keypair.public_key", reason)
    if new.type is not UNSET and version < _TYPE:
        raise InvalidInputError("keypair.type", "requires microversion 2.2 or later")
    if new.user_id is not UNSET and version < _OWNER:
        raise InvalidInputError("keypair.user_id", "requires microversion 2.10 or later")


def _number(owner: str, name: str) -> int:
    """Return the integer id of a key pair, which fits the 31 bits of Nova's column."""
    return number_of(f"{owner}/{name}") % _IDS


def _line(call: Call, pair: KeyPair) -> KeyPairAnswer:
    return KeyPairAnswer(
        keypair=KeyPairView(
            name=pair.name,
            public_key=pair.public_key,
            fingerprint=pair.fingerprint,
            type=pair.type.value if call.version >= _TYPE else UNSET,
        )
    )
