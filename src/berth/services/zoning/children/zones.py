"""The records of child zones, and the sealed passwords in them."""

import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Final
from urllib.parse import urlsplit

from berth.domain.errors import ConflictError, InvalidInputError, NotFoundError
from berth.domain.ledger.record import Kind
from berth.domain.ledger.write import Add, Put, Unit
from berth.domain.zones.zone import Zone, check_zone_name
from berth.ports.ledger import Ledger
from berth.services.crypto.sealing import Sealer
from berth.services.providers.guarded_saves import save_guarded

_GUARD = "zones"
ZONES_MAX = 1_000
URL_MAX = 2_048
_PASSWORD_MAX = 1_024
# Characters that no URL may contain, and percent-encoded control characters.
_ODD: Final = re.compile(r"[\s\\]|%[01]|%7f", re.IGNORECASE)
# A host name, optionally with a final dot, or an IPv6 address without its brackets.
_HOST: Final = re.compile(r"[a-z0-9_\-]+(?:\.[a-z0-9_\-]+)*\.?|[0-9a-f:.]*:[0-9a-f:.]*(?:%.+)?")
# Path segments that no proxy between two zones rewrites: an assertion signs the path, so a
# rewritten one would be refused.
_PATH: Final = re.compile(r"(?:/(?!\.\.?(?:/|$))[A-Za-z0-9._~\-]+)*/?")


@dataclass(frozen=True, slots=True)
class NewZone:
    """An operator's description of a new child zone; the password is in plain text."""

    name: str
    api_url: str
    username: str = ""
    password: str = ""
    weight_offset: float = 0.0
    weight_scale: float = 1.0
    is_enabled: bool = True


@dataclass(frozen=True, slots=True)
class ZoneChange:
    """New values for the fields of a zone; a field with None does not change."""

    api_url: str | None = None
    username: str | None = None
    password: str | None = None
    weight_offset: float | None = None
    weight_scale: float | None = None
    is_enabled: bool | None = None


class Zones:
    """Manages the records of child zones. All changes take one guard, so that no update is lost.

    Args:
        ledger: stores the records.
        sealer: seals the passwords, so that a copy of the ledger does not disclose them.
        zone: the name of this zone, which cannot be its own child.
    """

    def __init__(self, ledger: Ledger, sealer: Sealer, zone: str) -> None:
        self._ledger = ledger
        self._sealer = sealer
        self._zone = zone

    async def create(self, new: NewZone) -> Zone:
        """Create a child and return its record. A removed child of the same name is revived.

        Raises:
            InvalidInputError: a field is invalid, or the name is that of this zone.
            ConflictError: the name is taken, the zone has `ZONES_MAX` children, or each attempt
                lost to a concurrent change of the zones.
            UnavailableError: the ledger cannot be reached.
        """
        check_url(new.api_url)
        check_username(new.username)
        check_zone_name(new.name, "name")
        if new.name == self._zone:
            raise InvalidInputError(
                "name", f"{new.name!r} is this zone, which cannot be its own child"
            )
        zone = Zone(
            zone_id=await self._ledger.next_id(Kind.ZONE),
            name=new.name,
            api_url=new.api_url.rstrip("/"),
            username=new.username,
            weight_offset=new.weight_offset,
            weight_scale=new.weight_scale,
            is_enabled=new.is_enabled,
        )
        kept: list[Zone] = []

        async def read() -> Unit:
            others = await self._ledger.all(Zone)
            children = [other for other in others if not other.is_removed]
            if any(other.name == zone.name for other in children):
                raise ConflictError(
                    f"a child zone named {zone.name} already exists; choose another name"
                )
            if len(children) >= ZONES_MAX:
                raise ConflictError(
                    f"this zone already has {ZONES_MAX} children, the maximum; remove one first"
                )
            # A revived child gets its old id, because the instances that were delegated to it and
            # the groups that live there refer to that id.
            earlier = next((other for other in others if other.name == zone.name), None)
            zone_id = zone.zone_id if earlier is None else earlier.zone_id
            sealed = self._sealed(zone_id, new.password)
            kept[:] = [replace(zone, zone_id=zone_id, sealed_password=sealed)]
            return (Add(kept[0]) if earlier is None else Put(kept[0]),)

        await save_guarded(self._ledger, _GUARD, read)
        return kept[0]

    async def all(self) -> list[Zone]:
        """Return all children, ordered by id.

        Raises:
            UnavailableError: the ledger cannot be reached.
        """
        children = [one for one in await self._ledger.all(Zone) if not one.is_removed]
        return sorted(children, key=lambda zone: zone.zone_id)

    async def get(self, zone_id: int) -> Zone:
        """Return a child by its id.

        Raises:
            NotFoundError: no child has this id.
            UnavailableError: the ledger cannot be reached.
        """
        zone = await self._ledger.get(Zone, str(zone_id))
        if zone is None or zone.is_removed:
            raise NotFoundError("zone", str(zone_id))
        return zone

    async def delete(self, zone_id: int) -> None:
        """Remove a child; its id stays reserved for its name, and its instances continue to run.

        Raises:
            NotFoundError: no child has this id.
            ConflictError: each attempt lost to a concurrent change of the zones.
            UnavailableError: the ledger cannot be reached.
        """

        async def read() -> Unit:
            zone = await self.get(zone_id)
            return (Put(Zone(zone_id, zone.name, "", is_enabled=False, is_removed=True)),)

        await save_guarded(self._ledger, _GUARD, read)

    async def change(self, zone_id: int, change: ZoneChange) -> Zone:
        """Change a child's record and return it.

        Raises:
            NotFoundError: no child has this id.
            InvalidInputError: a field is invalid.
            ConflictError: each attempt lost to a concurrent change of the zones.
            UnavailableError: the ledger cannot be reached.
        """
        if change.api_url is not None:
            check_url(change.api_url)
        if change.username is not None:
            check_username(change.username)
        fields: dict[str, object] = {
            name: value
            for name in ("username", "weight_offset", "weight_scale", "is_enabled")
            if (value := getattr(change, name)) is not None
        }
        if change.api_url is not None:
            fields["api_url"] = change.api_url.rstrip("/")
        if change.password is not None:
            fields["sealed_password"] = self._sealed(zone_id, change.password)
        return await self._change(zone_id, lambda old: replace(old, **fields))  # type: ignore[arg-type]

    def password(self, zone: Zone) -> str:
        """Return a child's password, or "" if it is unset or the key that sealed it is gone."""
        opened = self._sealer.unseal(_purpose(zone.zone_id), zone.sealed_password)
        return "" if opened is None else opened.decode()

    async def reseal(self) -> int:
        """Seal again, with the newest key, each password that an older key sealed.

        Passwords whose key is gone are left alone.

        Returns:
            The number of passwords that had to be sealed again.

        Raises:
            ConflictError: each attempt lost to a concurrent change of the zones.
            UnavailableError: the ledger cannot be reached.
        """
        # A rotation drops the oldest key, and the passwords that it sealed would then be lost.
        old = [one for one in await self.all() if self._resealed(one) is not one]
        for one in old:
            try:
                await self._change(one.zone_id, self._resealed)
            except NotFoundError:
                continue  # an operator has removed the child in the meantime
        return len(old)

    def _resealed(self, zone: Zone) -> Zone:
        if not zone.sealed_password or self._sealer.is_newest(zone.sealed_password):
            return zone
        password = self.password(zone)
        if not password:
            return zone  # its key is gone, so the password can no longer be read
        return replace(zone, sealed_password=self._sealed(zone.zone_id, password))

    async def _change(self, zone_id: int, change: Callable[[Zone], Zone]) -> Zone:
        changed: list[Zone] = []

        async def read() -> Unit:
            changed[:] = [change(await self.get(zone_id))]
            return (Put(changed[0]),)

        await save_guarded(self._ledger, _GUARD, read)
        return changed[0]

    def _sealed(self, zone_id: int, password: str) -> str:
        if len(password) > _PASSWORD_MAX:
            raise InvalidInputError(
                "password", f"has {len(password)} characters; at most {_PASSWORD_MAX} are allowed"
            )
        return self._sealer.seal(_purpose(zone_id), password.encode()) if password else ""


def check_username(username: str) -> None:
    """Reject a user name that HTTP Basic cannot transport; a colon would end it.

    Raises:
        InvalidInputError: the name contains a colon or unprintable characters.
    """
    if ":" in username or not username.isprintable():
        raise InvalidInputError(
            "username", f"{username[:80]!r} must not contain colons or unprintable characters"
        )


def check_url(url: str) -> None:
    """Reject a URL that cannot be the address of a zone's API.

    Raises:
        InvalidInputError: the URL is invalid; the error names the rule that it breaks.
    """
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError as error:
        # The error does not quote the URL, because an invalid port may be part of a password.
        reason = "is not a valid URL; its form is https://HOST:PORT/PATH"
        raise InvalidInputError("api_url", reason) from error
    # `urlsplit` drops line breaks and tabs silently, so the raw text is checked.
    if not (url.isascii() and url.isprintable()) or _ODD.search(url):
        raise InvalidInputError(
            "api_url", "must be ASCII without spaces, backslashes or control characters"
        )
    if _PATH.fullmatch(parts.path) is None:
        reason = "the path must consist of letters, digits and - . _ ~, without // or /../"
        raise InvalidInputError("api_url", reason)
    if len(url) > URL_MAX:
        raise InvalidInputError(
            "api_url", f"has {len(url)} characters; at most {URL_MAX} are allowed"
        )
    if parts.scheme not in {"http", "https"} or not parts.hostname:
        raise InvalidInputError("api_url", "must have the form http[s]://HOST[:PORT][/PATH]")
    if _HOST.fullmatch(parts.hostname) is None:
        reason = "the host must be an IP address, or a name of letters, digits, '-', '_' and '.'"
        raise InvalidInputError("api_url", reason)
    if port == 0:
        raise InvalidInputError("api_url", "the port must not be 0")
    if "@" in parts.netloc:
        raise InvalidInputError(
            "api_url", "must not contain a user; set username and password instead"
        )
    if parts.query or parts.fragment:
        raise InvalidInputError("api_url", "must not contain a query or fragment")


def _purpose(zone_id: int) -> str:
    return f"password of zone {zone_id}"
