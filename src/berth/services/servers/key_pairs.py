"""Creates, lists and deletes the key pairs of users."""

import asyncio

from berth.domain.compute.key_pair import PAIRS_MAX, KeyPair, KeyRing, KeyType
from berth.domain.compute.quota import UNLIMITED, Excess, QuotaExceededError
from berth.domain.errors import ConflictError, NotFoundError
from berth.domain.ledger.record import Kind
from berth.domain.ledger.write import Put, Remove, Unit
from berth.ports.clock import Clock
from berth.ports.ledger import Ledger
from berth.services.crypto.key_material import fingerprint_of, generate
from berth.services.providers.guarded_saves import save_guarded
from berth.services.requests.quotas import QuotaLimits


class KeyPairs:
    """Manages key pairs, each of which belongs to a user.

    Args:
        ledger: stores the key pairs.
        clock: provides the time.
        quota_limits: the limits of projects; None for no limits.
    """

    def __init__(
        self, *, ledger: Ledger, clock: Clock, quota_limits: QuotaLimits | None = None
    ) -> None:
        self._ledger = ledger
        self._clock = clock
        self._quota_limits = quota_limits

    async def import_key(
        self, user_id: str, name: str, public_key: str, key_type: KeyType, *, project_id: str
    ) -> KeyPair:
        """Store a public key of the user under a name, and return the key pair.

        Args:
            user_id: the owner.
            name: the name, unique among the user's key pairs.
            public_key: the public key, in the format of its type.
            key_type: the type.
            project_id: the project whose quota limits the number of the user's key pairs.

        Raises:
            InvalidInputError: the public key is malformed.
            ConflictError: the name is taken, or every attempt lost a race against another change.
            QuotaExceededError: the user has as many key pairs as allowed.
            UnavailableError: the ledger cannot be reached.
        """
        # Berth checks the quota first, as Nova does, so a user above it learns nothing else.
        self._check_quota(await self._ring(user_id), project_id)
        print_ = fingerprint_of(public_key, key_type)
        pair = KeyPair(name, key_type, public_key, print_, self._clock.now_s())
        await self._add(user_id, pair, project_id)
        return pair

    async def generate(
        self, user_id: str, name: str, key_type: KeyType, *, project_id: str
    ) -> tuple[KeyPair, str]:
        """Generate a key pair, store its public key, and return the pair and the private key.

        Raises:
            ConflictError: the name is taken, or every attempt lost a race against another change.
            QuotaExceededError: the user has as many key pairs as allowed.
            UnavailableError: the ledger cannot be reached.
        """
        # A request that is refused must not cost the time to generate a key.
        ring = await self._ring(user_id)
        self._check_quota(ring, project_id)
        _check_free(ring, name)
        now_s = self._clock.now_s()
        made = await asyncio.to_thread(generate, key_type, user_id, now_s)
        print_ = fingerprint_of(made.public_key, key_type)
        pair = KeyPair(name, key_type, made.public_key, print_, now_s)
        await self._add(user_id, pair, project_id)
        return pair, made.private_key

    async def of_user(self, user_id: str) -> tuple[KeyPair, ...]:
        """Return the key pairs of a user, ordered by name.

        Raises:
            UnavailableError: the ledger cannot be reached.
        """
        return (await self._ring(user_id)).key_pairs

    async def get(self, user_id: str, name: str) -> KeyPair:
        """Return a key pair of a user.

        Raises:
            NotFoundError: the user has no key pair of that name.
            UnavailableError: the ledger cannot be reached.
        """
        return _found(await self._ring(user_id), name)

    async def delete(self, user_id: str, name: str) -> None:
        """Delete a key pair of a user; servers keep the copy that they were created with.

        Raises:
            NotFoundError: the user has no key pair of that name.
            ConflictError: every attempt lost a race against another change.
            UnavailableError: the ledger cannot be reached.
        """

        async def read() -> Unit:
            ring = await self._ring(user_id)
            _found(ring, name)
            left = ring.without(name)
            return (Put(left) if left.key_pairs else Remove(Kind.KEY_RING, user_id),)

        await save_guarded(self._ledger, _guard(user_id), read)

    async def _add(self, user_id: str, pair: KeyPair, project_id: str) -> None:
        async def read() -> Unit:
            ring = await self._ring(user_id)
            self._check_quota(ring, project_id)
            _check_free(ring, pair.name)
            return (Put(ring.with_pair(pair)),)

        await save_guarded(self._ledger, _guard(user_id), read)

    async def _ring(self, user_id: str) -> KeyRing:
        return await self._ledger.get(KeyRing, user_id) or KeyRing(user_id)

    def _check_quota(self, ring: KeyRing, project_id: str) -> None:
        limits = self._quota_limits
        limit = UNLIMITED if limits is None else limits.of_project(project_id).key_pairs
        limit = PAIRS_MAX if limit == UNLIMITED else min(limit, PAIRS_MAX)
        if len(ring.key_pairs) >= limit:
            raise QuotaExceededError((Excess("key_pairs", 1, len(ring.key_pairs), limit),))


def _guard(user_id: str) -> str:
    return f"key pairs of {user_id}"


def _check_free(ring: KeyRing, name: str) -> None:
    if ring.find(name) is not None:
        raise ConflictError(f"Key pair '{name}' already exists.")


def _found(ring: KeyRing, name: str) -> KeyPair:
    found = ring.find(name)
    if found is None:
        raise NotFoundError("key pair", name)
    return found
