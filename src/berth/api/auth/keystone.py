"""Authenticates callers by tokens that an external Keystone validates."""

import asyncio
import hashlib
import math
from collections import Counter, OrderedDict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

from berth.api.auth.authentication import Auth, Credentials, Identity, is_name
from berth.api.auth.circuit_breaker import CircuitBreaker
from berth.api.auth.role_mapping import RoleMapping
from berth.api.errors import HttpError
from berth.domain.client_network import network_of
from berth.ports.clock import Clock
from berth.ports.measures import KEYSTONE_UP, TOKENS
from berth.ports.telemetry import Metrics, Reading
from berth.ports.token_validation import (
    TokenServiceBusyError,
    TokenServiceDownError,
    TokenServiceError,
    TokenValidator,
    ValidToken,
)

_NS_PER_S: Final = 1_000_000_000
_DIGEST_BYTES: Final = 32
# Fernet tokens have about 250 characters, and JWS tokens about 900. Web servers in front of
# Keystone accept header fields of about 8,000 bytes.
_TOKEN_MAX: Final = 2_048
# Seconds for which a refused token is refused again without a validation. Refused tokens rarely
# become valid, for example when a user is enabled again.
_REFUSED_S: Final = 30.0
_REFUSED_MAX: Final = 10_000
_SERVICE: Final = "service"
_EXPIRED: Final = b"allows expired"
_BUSY: Final = "Too many tokens are being validated. Try again in 1 s."


@dataclass(frozen=True, slots=True)
class TokenCaching:
    """How long validated tokens stay valid without Keystone, and the limits on validations.

    Attributes:
        fresh_s: seconds after which a token is validated again. While Keystone answers in time, a
            revoked token is refused after this time at the latest.
        grace_s: further seconds for which a token stays valid while Keystone does not answer.
        tokens_max: maximum number of cached valid tokens.
        waiting_max: maximum number of unknown tokens that are being validated.
        waiting_per_address: the same maximum for one IPv4 address or one /64 IPv6 network.
        renewals_max: maximum number of known tokens that are being validated again. At this limit,
            other known tokens stay valid, without a validation, until their grace period ends.
    """

    fresh_s: float = 60.0
    grace_s: float = 300.0
    tokens_max: int = 10_000
    waiting_max: int = 64
    waiting_per_address: int = 16
    renewals_max: int = 16


class _Known(NamedTuple):
    """A validated token: `*_ns` are clock ticks in nanoseconds, `expires_at_s` is Unix time."""

    identity: Identity
    expires_at_s: float
    fresh_until_ns: int
    grace_until_ns: int


class _Asked(NamedTuple):
    """A token in a request, its MAC, and whether a service vouches for it if it has expired."""

    token: str
    digest: bytes
    allows_expired: bool


class KeystoneAuth:
    """Authenticates by `X-Auth-Token`, which Keystone validates; see `Auth`.

    A token that has expired is accepted together with a valid `X-Service-Token` of a service, for
    as long as Keystone allows (its option `allow_expired_window`), as by keystonemiddleware.

    The cache holds MACs of tokens under a key of this process, never the tokens. Concurrent
    requests with one token share one validation. Tokens that were validated recently stay valid for
    a grace period while Keystone does not answer, or while too many validations are in progress.
    During an outage, requests with other tokens get a 503 at once, except the one that probes
    Keystone.

    Args:
        validator: asks Keystone.
        mapping: maps roles to rights.
        breaker: tracks Keystone's outages.
        clock: the clock.
        metrics: counts tokens by outcome.
        key: the key of the MAC: at most 64 random bytes, new in each process.
        uri: URL of Keystone, which the challenge of a 401 names.
        caching: times and limits; None uses the defaults of `TokenCaching`.
        accounts: authenticates parent zones by HTTP Basic; None refuses HTTP Basic.

    Attributes:
        uri: see above.
    """

    def __init__(  # noqa: PLR0913 - the collaborators
        self,
        validator: TokenValidator,
        mapping: RoleMapping,
        breaker: CircuitBreaker,
        clock: Clock,
        metrics: Metrics,
        *,
        key: bytes,
        uri: str,
        caching: TokenCaching | None = None,
        accounts: Auth | None = None,
    ) -> None:
        self._validator = validator
        self._mapping = mapping
        self._breaker = breaker
        self._clock = clock
        self._metrics = metrics
        self._key = key
        self.uri = uri
        self._challenge: Mapping[str, str] = {"WWW-Authenticate": f'Keystone uri="{uri}"'}
        self._caching = caching or TokenCaching()
        self._accounts = accounts
        self._known: OrderedDict[bytes, _Known] = OrderedDict()
        self._refused_until_ns: OrderedDict[bytes, int] = OrderedDict()
        self._validating: dict[bytes, asyncio.Task[Identity | None]] = {}
        self._renewals = 0
        self._unknown = 0
        self._unknown_by_address: Counter[str] = Counter()

    async def identify(self, credentials: Credentials) -> Identity:
        """See `Auth.identify`.

        Raises:
            HttpError: the token is missing, malformed or invalid (401), or Keystone does not answer
                or too many tokens are being validated (503).
        """
        token, address = credentials.token, credentials.address
        if not token:
            return await self._parent_zone(credentials)
        asked = self._asked(token, "X-Auth-Token")
        if credentials.service_token:
            # A service acts for a user whose request takes longer than the token of the user lives,
            # and proves with a token of its own that it is a service.
            service = self._asked(credentials.service_token, "X-Service-Token")
            identity = await self._identify(service, address)
            if _SERVICE in (identity.roles or ()):
                asked = self._asked(token, "X-Auth-Token", allows_expired=True)
        return await self._identify(asked, address)

    def _asked(self, token: str, header: str, *, allows_expired: bool = False) -> "_Asked":
        if len(token) > _TOKEN_MAX or not (token.isascii() and token.isprintable()) or " " in token:
            raise self._unauthorized(
                f"{header} must have 1 to {_TOKEN_MAX:,} printable characters and no spaces."
            )
        # Lookups compare MACs, so their timing reveals nothing about the tokens. The person keeps a
        # token that may have expired apart from the same token in requests without a service.
        digest = hashlib.blake2b(
            token.encode(),
            digest_size=_DIGEST_BYTES,
            key=self._key,
            person=_EXPIRED if allows_expired else b"",
        ).digest()
        return _Asked(token, digest, allows_expired)

    async def _identify(self, asked: "_Asked", address: str) -> Identity:
        digest = asked.digest
        known = self._recall(digest)
        if known is not None and self._clock.ticks_ns() < known.fresh_until_ns:
            self._count("cached")
            return known.identity
        if self._is_refused(digest):
            self._count("refused")
            raise self._invalid()
        if known is not None and self._breaker.is_open and self._is_in_grace(known):
            # The probe runs in the background, because this request does not need its result.
            number = None if digest in self._validating else self._breaker.admit()
            if number is not None:
                self._begin(asked, number)
            self._count("grace")
            return known.identity
        return await self._ask(asked, known, address)

    def read(self) -> Sequence[Reading]:
        """Return the gauge that is 1 while Keystone counts as up, and 0 during an outage."""
        return [Reading(KEYSTONE_UP, 0.0 if self._breaker.is_open else 1.0)]

    async def _parent_zone(self, credentials: Credentials) -> Identity:
        if self._accounts is None or not credentials.authorization:
            raise self._unauthorized(f"A token is required in X-Auth-Token; {self._remedy()}.")
        identity = await self._accounts.identify(credentials)
        if identity.project_id:
            raise self._unauthorized(
                "HTTP Basic is only for parent zones, whose accounts have no project. Send a "
                f"token in X-Auth-Token; {self._remedy()}."
            )
        return identity

    def _recall(self, digest: bytes) -> _Known | None:
        """Return the cached validation of a token, or None if none may be used any more."""
        known = self._known.get(digest)
        if known is None:
            return None
        if not self._is_in_grace(known):
            del self._known[digest]
            return None
        self._known.move_to_end(digest)
        return known

    def _is_in_grace(self, known: _Known) -> bool:
        """Return whether a token has not expired and its grace period is not over."""
        return (
            self._clock.ticks_ns() < known.grace_until_ns
            and self._clock.now_s() < known.expires_at_s
        )

    def _is_refused(self, digest: bytes) -> bool:
        until_ns = self._refused_until_ns.get(digest)
        if until_ns is None:
            return False
        if self._clock.ticks_ns() < until_ns:
            return True
        del self._refused_until_ns[digest]
        return False

    async def _ask(self, asked: "_Asked", known: _Known | None, address: str) -> Identity:
        digest = asked.digest
        task = self._validating.get(digest)
        if task is None and known is not None and self._renewals >= self._caching.renewals_max:
            self._count("grace")
            return known.identity
        # During an outage, requests do not join a running validation: `_admit` lets the probe
        # through and refuses the others at once.
        if task is None or self._breaker.is_open:
            is_unknown = known is None
            task = self._admit(asked, is_unknown=is_unknown, address=network_of(address))
        try:
            # A client that disconnects must not cancel the validation for the others.
            identity = await asyncio.shield(task)
        except TokenServiceError as error:
            if known is not None and self._is_in_grace(known) and digest in self._known:
                self._count("grace")
                return known.identity
            if isinstance(error, TokenServiceBusyError):
                raise self._busy() from error
            self._count("unavailable")
            raise self._unavailable() from error
        if identity is None:
            self._count("refused")
            raise self._invalid()
        self._count("accepted")
        return identity

    def _admit(
        self, asked: "_Asked", *, is_unknown: bool, address: str
    ) -> "asyncio.Task[Identity | None]":
        # The limits are checked first, because a refused request must not use up the probe.
        if is_unknown and (
            self._unknown >= self._caching.waiting_max
            or self._unknown_by_address[address] >= self._caching.waiting_per_address
        ):
            raise self._busy()
        number = self._breaker.admit()
        if number is None:
            self._count("unavailable")
            raise self._unavailable()
        task = self._begin(asked, number)
        if is_unknown:
            self._unknown += 1
            self._unknown_by_address[address] += 1
            task.add_done_callback(lambda _: self._leave(address))
        else:
            self._renewals += 1
            task.add_done_callback(self._end_renewal)
        return task

    def _end_renewal(self, _: "asyncio.Task[Identity | None]") -> None:
        self._renewals -= 1

    def _leave(self, address: str) -> None:
        self._unknown -= 1
        self._unknown_by_address[address] -= 1
        if not self._unknown_by_address[address]:
            del self._unknown_by_address[address]

    def _begin(self, asked: "_Asked", number: int) -> "asyncio.Task[Identity | None]":
        task = asyncio.create_task(self._validate(asked, number))
        self._validating[asked.digest] = task
        task.add_done_callback(lambda done: self._end(asked.digest, done))
        return task

    def _end(self, digest: bytes, task: "asyncio.Task[Identity | None]") -> None:
        if self._validating.get(digest) is task:
            del self._validating[digest]
        if not task.cancelled():
            # If all clients have disconnected, asyncio would log the exception as never retrieved.
            task.exception()

    async def _validate(self, asked: "_Asked", number: int) -> Identity | None:
        """Validate a token at Keystone and cache the answer; return None for a refused token.

        `number` is the circuit breaker's number of the call.
        """
        try:
            found = await self._validator.validate(asked.token, allow_expired=asked.allows_expired)
            identity = None if found is None else self._identity_of(found)
        except TokenServiceError as error:
            self._breaker.fail(error, number)
            raise
        except BaseException:
            # The breaker admits no further probe until the outcome of the current one is reported.
            interrupted = TokenServiceDownError("the validation of a token was interrupted")
            self._breaker.fail(interrupted, number)
            raise
        self._breaker.succeed()
        expires_at_s = 0.0 if found is None else found.expires_at_s
        if asked.allows_expired:
            # Keystone decides how long after its expiry the token is accepted.
            expires_at_s = math.inf
        if found is None or identity is None or self._clock.now_s() >= expires_at_s:
            self._known.pop(asked.digest, None)
            self._refuse(asked.digest)
            return None
        self._remember(asked.digest, identity, expires_at_s)
        return identity

    def _identity_of(self, token: ValidToken) -> Identity:
        names = (token.user_id, token.project_id or token.user_id)
        if not all(is_name(name) for name in names):
            raise TokenServiceError("Keystone sent an id with characters that are not printable")
        return self._mapping.identity_of(token)

    def _remember(self, digest: bytes, identity: Identity, expires_at_s: float) -> None:
        now_ns = self._clock.ticks_ns()
        fresh_until_ns = now_ns + int(self._caching.fresh_s * _NS_PER_S)
        grace_until_ns = fresh_until_ns + int(self._caching.grace_s * _NS_PER_S)
        self._known[digest] = _Known(identity, expires_at_s, fresh_until_ns, grace_until_ns)
        self._known.move_to_end(digest)
        if len(self._known) > self._caching.tokens_max:
            self._known.popitem(last=False)

    def _refuse(self, digest: bytes) -> None:
        # Refused tokens have a cache of their own, because clients can send any number of them,
        # which must not displace valid ones.
        self._refused_until_ns[digest] = self._clock.ticks_ns() + int(_REFUSED_S * _NS_PER_S)
        if len(self._refused_until_ns) > _REFUSED_MAX:
            self._refused_until_ns.popitem(last=False)

    def _count(self, outcome: str) -> None:
        self._metrics.add(TOKENS, (outcome,))

    def _remedy(self) -> str:
        return f"log in at {self.uri} to get one"

    def _invalid(self) -> HttpError:
        return self._unauthorized("The token is invalid, expired or revoked. Log in again.")

    def _unauthorized(self, message: str) -> HttpError:
        return HttpError(401, message, self._challenge)

    def _busy(self) -> HttpError:
        self._count("busy")
        return HttpError(503, _BUSY, {"Retry-After": "1"})

    def _unavailable(self) -> HttpError:
        after_s = self._breaker.retry_after_s
        return HttpError(
            503,
            "The token cannot be checked, because Keystone, which validates tokens, does not "
            f"answer. The token may still be valid. Try again in {after_s} s.",
            {"Retry-After": f"{after_s}"},
        )
