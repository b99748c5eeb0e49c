"""Identities of hosts: enrolment, rotation and revocation of keys, and the check of signatures.

An operator enrols a host and gets a one-time token. The agent exchanges the token for a key of its
own: it makes the key pair and sends the public half, so no secret of the host ever leaves it.
"""

import base64
import hashlib
import hmac
from collections.abc import Callable, Collection, Sequence
from dataclasses import replace
from typing import Final

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

from berth.domain.compute.host_identity import (
    KEYS_MAX,
    HostIdentity,
    HostKey,
    identity_guard,
    public_key_bytes,
)
from berth.domain.errors import AccessDeniedError, ConflictError, InvalidInputError, NotFoundError
from berth.domain.ledger.change import Change, RecordRemoved, Snapshot
from berth.domain.ledger.record import Kind
from berth.domain.ledger.write import Put, Unit
from berth.ports.clock import Clock
from berth.ports.ledger import Ledger
from berth.services.providers.guarded_saves import save_guarded

TOKEN_LIFE_S: Final = 3_600.0
"""The lifetime of a token in seconds."""

TOKEN_LIFE_S_MAX: Final = 30 * 86_400.0

_TOKEN_BYTES: Final = 32
_HOST_MAX: Final = 255


def _nothing(_: Collection[str]) -> None:
    """Do nothing: no sessions have to be checked."""


class HostIdentities:
    """Keeps the identities of hosts; a subscriber of the change feed.

    Args:
        ledger: stores the identities.
        clock: provides the times of keys and tokens.
        random_bytes: returns the given number of unpredictable bytes.
    """

    def __init__(self, ledger: Ledger, clock: Clock, random_bytes: Callable[[int], bytes]) -> None:
        self._ledger = ledger
        self._clock = clock
        self._random_bytes = random_bytes
        self.by_host: dict[str, HostIdentity] = {}
        """The identity of each host, as this process knows it."""
        self.changed: Callable[[Collection[str]], None] = _nothing
        """Called with the names of the hosts whose identities may have changed."""

    def load(self, snapshot: Snapshot) -> None:
        """See `Subscriber.load`."""
        before = self.by_host
        self.by_host = {one.host: one for one in snapshot.host_identities}
        self.changed(before.keys() | self.by_host.keys())

    def apply(self, changes: Sequence[Change]) -> None:
        """See `Subscriber.apply`."""
        changed = set[str]()
        for change in changes:
            event = change.event
            if isinstance(event, HostIdentity):
                self.by_host[event.host] = event
                changed.add(event.host)
            elif isinstance(event, RecordRemoved) and event.kind is Kind.HOST_IDENTITY:
                self.by_host.pop(event.key, None)
                changed.add(event.key)
        if changed:
            self.changed(changed)

    def all(self) -> list[HostIdentity]:
        """Return all identities as this process knows them, ordered by host."""
        return [self.by_host[host] for host in sorted(self.by_host)]

    def is_valid(self, host: str, public_key: str) -> bool:
        """Return whether a public key is a valid key of a host now."""
        found = self.by_host.get(host)
        if found is None or found.revoked_at_s is not None:
            return False
        return any(key.public_key == public_key for key in found.keys)

    def signer(self, host: str, message: bytes, signature: bytes) -> HostKey | None:
        """Return the key with which a host signed a message, or None if it is none of its keys."""
        found = self.by_host.get(host)
        if found is None or found.revoked_at_s is not None:
            return None
        # The newest key is tried first, because it is the one that stays.
        for key in reversed(found.keys):
            try:
                Ed25519PublicKey.from_public_bytes(key.public_bytes).verify(signature, message)
            except (InvalidSignature, ValueError):
                continue
            return key
        return None

    async def enroll(self, host: str, *, life_s: float = TOKEN_LIFE_S) -> str:
        """Return a new one-time token for a host, which replaces an unused one.

        The keys that the host has stay valid until the token is redeemed.

        Args:
            host: the name of the host, which need not exist yet.
            life_s: the lifetime of the token in seconds; at most 30 days.

        Raises:
            InvalidInputError: `host` is not a valid name, or `life_s` is out of bounds.
            ConflictError: each attempt lost to a concurrent change of the identity.
            UnavailableError: the ledger cannot be reached.
        """
        if not 0 < len(host) <= _HOST_MAX or not host.isprintable() or "/" in host:
            reason = (
                f"{host[:80]!r} must consist of 1 to {_HOST_MAX} printable characters without a "
                "slash"
            )
            raise InvalidInputError("host", reason)
        if not 0 < life_s <= TOKEN_LIFE_S_MAX:
            reason = f"must be above 0 and at most {TOKEN_LIFE_S_MAX:,.0f} seconds, not {life_s}"
            raise InvalidInputError("life_s", reason)
        token = base64.urlsafe_b64encode(self._random_bytes(_TOKEN_BYTES)).decode().rstrip("=")

        async def read() -> Unit:
            now_s = self._clock.now_s()
            old = await self._ledger.get(HostIdentity, host)
            found = old or HostIdentity(host, created_at_s=now_s)
            digest, expires_at_s = _digest(token), now_s + life_s
            return (Put(replace(found, token_digest=digest, token_expires_at_s=expires_at_s)),)

        await save_guarded(self._ledger, identity_guard(host), read)
        return token

    async def redeem(self, host: str, token: str, public_key: str) -> None:
        """Give a host a new key in exchange for its token; earlier keys become invalid.

        Raises:
            AccessDeniedError: the token is wrong, used or expired.
            InvalidInputError: the key is not an Ed25519 public key.
            ConflictError: each attempt lost to a concurrent change of the identity.
            UnavailableError: the ledger cannot be reached; the token may have been used.
        """
        public_key_bytes(public_key)

        async def read() -> Unit:
            now_s = self._clock.now_s()
            found = await self._ledger.get(HostIdentity, host)
            known = HostIdentity(host) if found is None else found
            # The digests are compared even if there is no token, so that the response time
            # discloses nothing about hosts.
            is_equal = hmac.compare_digest(known.token_digest, _digest(token))
            if not is_equal or now_s > known.token_expires_at_s:
                raise AccessDeniedError(
                    f"the token for host {host[:_HOST_MAX]!r} is wrong, used or expired; make a "
                    f"new one with `berth host enroll`"
                )
            key = HostKey(public_key, now_s)
            fresh = replace(known, keys=(key,), token_digest="", revoked_at_s=None, rotates=False)
            return (Put(fresh),)

        await save_guarded(self._ledger, identity_guard(host), read)

    async def add_key(self, host: str, public_key: str) -> None:
        """Add the key that will replace a host's current one.

        The current key stays valid until the host uses the new one.

        Raises:
            InvalidInputError: the key is not an Ed25519 public key.
            ConflictError: the host has no key or is revoked, or each attempt lost to a concurrent
                change of the identity.
            UnavailableError: the ledger cannot be reached.
        """
        public_key_bytes(public_key)

        async def read() -> Unit:
            found = await self._ledger.get(HostIdentity, host)
            if found is None or found.revoked_at_s is not None or not found.keys:
                raise ConflictError(
                    f"cannot rotate the key of host {host}: it has no valid key; enroll the host "
                    "again with `berth host enroll`"
                )
            if any(key.public_key == public_key for key in found.keys):
                return ()
            added = HostKey(public_key, self._clock.now_s())
            # The present key is the oldest; a newer one that was never used is dropped.
            return (Put(replace(found, keys=(*found.keys[: KEYS_MAX - 1], added))),)

        await save_guarded(self._ledger, identity_guard(host), read)

    async def settle(self, host: str, used: HostKey) -> None:
        """End a rotation: make the new key, which the host has now used, its only key.

        Nothing changes if the key is the host's oldest, or no longer one of its keys.

        Raises:
            ConflictError: each attempt lost to a concurrent change of the identity.
            UnavailableError: the ledger cannot be reached.
        """

        async def read() -> Unit:
            found = await self._ledger.get(HostIdentity, host)
            if found is None or used not in found.keys or found.keys[0] == used:
                return ()
            return (Put(replace(found, keys=(used,), rotates=False)),)

        await save_guarded(self._ledger, identity_guard(host), read)

    async def rotate(self, host: str) -> None:
        """Ask the agent of a host to replace its key, now or when it next connects.

        Raises:
            NotFoundError: the host has no identity.
            ConflictError: its keys are revoked, it has none yet, or each attempt lost to a
                concurrent change of the identity.
            UnavailableError: the ledger cannot be reached.
        """

        async def read() -> Unit:
            found = await self._get(host)
            if found.revoked_at_s is not None:
                raise ConflictError(
                    f"the keys of host {host} are revoked; enroll it again with `berth host enroll`"
                )
            if not found.keys:
                raise ConflictError(
                    f"host {host} has no key yet, because its agent has not redeemed its token; "
                    "start the agent, or make a new token with `berth host enroll`"
                )
            return (Put(replace(found, rotates=True)),)

        await save_guarded(self._ledger, identity_guard(host), read)

    async def revoke(self, host: str) -> None:
        """Revoke the keys and the token of a host; its agent is disconnected immediately.

        Raises:
            NotFoundError: the host has no identity.
            ConflictError: each attempt lost to a concurrent change of the identity.
            UnavailableError: the ledger cannot be reached.
        """

        async def read() -> Unit:
            found = await self._get(host)
            return (Put(found.revoked(self._clock.now_s())),)

        await save_guarded(self._ledger, identity_guard(host), read)

    async def _get(self, host: str) -> HostIdentity:
        found = await self._ledger.get(HostIdentity, host)
        if found is None:
            raise NotFoundError("host identity", host)
        return found


def _digest(token: str) -> str:
    return hashlib.sha256(token.encode()).hexdigest()
