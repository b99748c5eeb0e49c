"""Identifies callers: by a name that is trusted unchecked, or by HTTP Basic and bcrypt hashes."""

import asyncio
import base64
import hashlib
from collections import Counter, OrderedDict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol

import bcrypt
from starlette.types import Scope

from berth.api.auth.attempts import FailedAttempts
from berth.api.auth.fair_slots import FairSlots
from berth.api.errors import HttpError
from berth.api.header_fields import header_of
from berth.domain.client_network import network_of
from berth.ports.clock import Clock

ADMIN = "admin"
_NAME_MAX = 255
# bcrypt ignores everything after 72 bytes. Longer passwords are refused, because otherwise any
# password with the same 72 bytes at its beginning would be accepted.
_PASSWORD_BYTES_MAX = 72
_HEADER_MAX = 1024
_DIGEST_BYTES = 32
CHALLENGE: Mapping[str, str] = {"WWW-Authenticate": 'Basic realm="Berth", charset="UTF-8"'}
# The challenge where a user name and password would not help. RFC 9110 requires a challenge with
# each 401, and a browser does not prompt for a password if it does not know the scheme.
TOKEN_CHALLENGE: Mapping[str, str] = {"WWW-Authenticate": 'X-Auth-Token realm="Berth"'}


@dataclass(frozen=True, slots=True)
class Identity:
    """The authenticated caller and its project.

    `project_id` is empty for a caller without a project. `roles` are in lower case, or None when
    the authentication mode has no roles. `is_system` is true when the caller requested system
    scope. `parent` is the parent zone that asserted this identity, or None for a caller that
    authenticated here. `may_read` and `may_write` say whether the caller's roles allow reading and
    changing the resources of its project.
    """

    user_id: str
    project_id: str
    is_admin: bool
    roles: frozenset[str] | None = None
    is_system: bool = False
    parent: str | None = None
    may_read: bool = True
    may_write: bool = True


class Credentials(NamedTuple):
    """The credentials in a request, and the address of its client, which is empty if unknown.

    `roles`, `project` and `system_scope` come from headers that any client can send. Only
    `NoAuth2`, which trusts every client, reads them. Only `KeystoneAuth` reads `service_token`.
    """

    authorization: str | None
    token: str | None
    address: str
    roles: str | None = None
    project: str | None = None
    system_scope: str | None = None
    service_token: str | None = None


class Auth(Protocol):
    """Authenticates callers."""

    async def identify(self, credentials: Credentials) -> Identity:
        """Return the identity of the caller.

        Raises:
            HttpError: the credentials are missing or invalid (401), too many attempts failed
                (429), or too many logins are in progress (503).
        """
        ...


class NoAuth:
    """Trusts every client.

    The token `USER:PROJECT` names the caller and its project; the token `USER` means a project of
    the same name. A client without a token is the administrator `admin`.

    Args:
        admins: users that are administrators.
    """

    # A client that sends one of these tokens is the administrator; keystoneauth's plugin `none`
    # sends `notused`.
    _ANYBODY = frozenset({"", "notused", ADMIN})

    _ANY_ADMIN = Identity(ADMIN, ADMIN, is_admin=True)

    def __init__(self, admins: frozenset[str] = frozenset({ADMIN})) -> None:
        self._admins = admins

    async def identify(self, credentials: Credentials) -> Identity:
        """See `Auth.identify`."""
        token = credentials.token or ""
        if token in self._ANYBODY:
            return self._ANY_ADMIN
        user, project = _user_and_project(token)
        return Identity(user, project, is_admin=user in self._admins)


class NoAuth2:
    """Trusts every client that sends a token, like OpenStack's `noauth2`, for tests.

    The token is `USER:PROJECT`, or `USER` for a project of the same name. Headers may set roles,
    another project, or system scope. A caller with the role `admin` is an administrator. If there
    is no roles header, the users in `admins` have that role and other users have none.

    Args:
        admins: users that are administrators unless a roles header says otherwise.
    """

    def __init__(self, admins: frozenset[str] = frozenset({ADMIN})) -> None:
        self._admins = admins

    async def identify(self, credentials: Credentials) -> Identity:
        """See `Auth.identify`."""
        if not credentials.token:
            raise HttpError(
                401,
                "The header X-Auth-Token is required; set it to USER or USER:PROJECT.",
                TOKEN_CHALLENGE,
            )
        user, project = _user_and_project(credentials.token)
        if credentials.project:
            project = credentials.project
            if not is_name(project):
                raise HttpError(
                    401,
                    "X-Project-Id must consist of 1 to 255 printable characters.",
                    TOKEN_CHALLENGE,
                )
        if credentials.roles is None:
            roles = frozenset({ADMIN} if user in self._admins else ())
        else:
            named = (role.strip().lower() for role in credentials.roles.split(","))
            roles = frozenset(role for role in named if role)
        return Identity(
            user,
            project,
            is_admin=ADMIN in roles,
            roles=roles,
            is_system=bool(credentials.system_scope),
        )


@dataclass(frozen=True, slots=True)
class Account:
    """A user with the bcrypt hash of the password and the user's project.

    `project_id` is empty for a user without a project, who has almost no rights. Such accounts are
    for parent zones, which send a signed assertion with every request.
    """

    user: str
    password_hash: bytes
    project_id: str


class Accounts(Protocol):
    """The users that can authenticate."""

    @property
    def generation(self) -> int:
        """A counter that grows with every change; reading it may first check for changes."""
        ...

    @property
    def dummy_hash(self) -> bytes:
        """A bcrypt hash that no password matches, about as expensive to check as a user's."""
        ...

    @property
    def accounts(self) -> Mapping[str, Account]:
        """The accounts by user."""
        ...


_Budgets = Sequence[tuple[FailedAttempts, str]]
"""The limits on failures that apply to an attempt, and its key in each."""


class HttpBasic:
    """Authenticates by HTTP Basic, or by user and password, against accounts.

    The MAC of each verified password under a key of this process is cached until its account
    changes, so that bcrypt runs only once per client. Logins with a cached password therefore never
    wait for checks of unknown passwords, of which anyone can send any number. Failures of unknown
    passwords are limited per address, per user and per pair of both. The checks of different
    addresses take turns.

    A client that floods an address with wrong passwords must not lock out the other users of the
    address. So the first attempt of a user within a minute is checked although its address has
    reached a limit: the attempt is refused, the check runs in the background, and if the password
    is right, the next attempt succeeds from the cache. The refusal does not depend on the result or
    on whether the user exists.

    Args:
        accounts: the users.
        clock: measures the windows of failed attempts.
        key: the key of the MAC: at most 64 random bytes, new in each process.
        admins: users that are administrators.
        remembered_max: maximum number of cached passwords; the least recently used one is dropped.
        checks_max: maximum number of concurrent password checks.
        waiting_max: maximum number of checks that run or wait; further logins get a 503.
        address_waiting_max: the same maximum for one IPv4 address or one /64 IPv6 network.
        failures_max: failed logins per minute, from one address or for one user, after which
            unknown passwords are refused with 429 and not checked. A pair of user and address has
            the lower limit of `FailedAttempts`.
        deferred_max: checks per minute, from one address, of attempts that were refused because of
            the address.
        deferred_waiting_max: maximum number of such checks that run or wait, of all addresses.
    """

    def __init__(  # noqa: PLR0913 - the collaborators, then limits with defaults
        self,
        accounts: Accounts,
        clock: Clock,
        *,
        key: bytes,
        admins: frozenset[str] = frozenset({ADMIN}),
        remembered_max: int = 10_000,
        checks_max: int = 2,
        waiting_max: int = 256,
        address_waiting_max: int = 16,
        failures_max: int = 100,
        deferred_max: int = 30,
        deferred_waiting_max: int = 32,
    ) -> None:
        self._accounts = accounts
        self._key = key
        self._admins = admins
        self._remembered_max = remembered_max
        # Each entry keeps the account as it was when the password was verified, so that `_recall`
        # notices a changed account.
        self._remembered: OrderedDict[bytes, tuple[Account, Identity]] = OrderedDict()
        self._checking: dict[bytes, asyncio.Task[Identity | None]] = {}
        self._waiting_max = waiting_max
        self._address_waiting_max = address_waiting_max
        self._slots = FairSlots(checks_max)
        self._checks_by_address: Counter[str] = Counter()
        self._failed_pairs = FailedAttempts(clock)
        self._failed_addresses = FailedAttempts(clock, failures_max=failures_max)
        self._failed_users = FailedAttempts(clock, failures_max=failures_max)
        self._failed_deferred = FailedAttempts(clock, failures_max=deferred_max)
        self._deferred: set[asyncio.Task[Identity | None]] = set()
        self._deferred_waiting_max = deferred_waiting_max
        self._generation = accounts.generation

    async def identify(self, credentials: Credentials) -> Identity:
        """See `Auth.identify`."""
        header = credentials.authorization
        if not header:
            raise HttpError(401, "Authentication is required; use HTTP Basic.", CHALLENGE)
        return await self.log_in(*_parse(header), credentials.address)

    async def log_in(self, user: str, password: bytes, address: str) -> Identity:
        """Return the identity of a user after checking the password.

        Args:
            user: name of the user.
            password: the password in UTF-8.
            address: address of the client.

        Raises:
            HttpError: user or password is wrong (401), too many attempts failed (429), or too many
                logins are in progress (503).
        """
        self._notice_changes()
        # The cache holds keyed MACs and no passwords. The timing of the lookup, which compares MACs
        # only, reveals nothing about the passwords.
        secret = user.encode() + b"\0" + password
        digest = hashlib.blake2b(secret, digest_size=_DIGEST_BYTES, key=self._key).digest()
        identity = self._recall(digest)
        if identity is not None:
            return identity
        task = self._checking.get(digest)
        if task is None:
            task = self._begin_check(digest, user, password, network_of(address))
        # Requests with the same user and password share one check, and a client that disconnects
        # must not cancel it for the others.
        identity = await asyncio.shield(task)
        if identity is None:
            raise HttpError(401, "The user name or the password is wrong.", CHALLENGE)
        return identity

    def _notice_changes(self) -> None:
        generation = self._accounts.generation
        if generation != self._generation:
            self._generation = generation
            # Running checks may have read the old accounts, so new logins must not join them. Their
            # results still enter the cache, but `_recall` drops those of changed accounts.
            self._checking.clear()

    def _recall(self, digest: bytes) -> Identity | None:
        found = self._remembered.get(digest)
        if found is None:
            return None
        account, identity = found
        if self._accounts.accounts.get(account.user) != account:
            del self._remembered[digest]
            return None
        self._remembered.move_to_end(digest)
        return identity

    def _begin_check(
        self, digest: bytes, user: str, password: bytes, address: str
    ) -> "asyncio.Task[Identity | None]":
        pair = (self._failed_pairs, f"{address}/{user}")
        of_user, of_address = (self._failed_users, user), (self._failed_addresses, address)
        for failed, key in (pair, of_user):
            failed.check(key)
        try:
            self._check_address(address)
        except HttpError:
            budgets = (pair, of_user, (self._failed_deferred, address))
            self._check_later(digest, user, password, address, budgets)
            raise
        budgets = (pair, of_user, of_address)
        # A failure is counted before the check and subtracted if the check succeeds. Otherwise
        # concurrent attempts could exceed the limit.
        for failed, key in budgets:
            failed.note(key)
        task = asyncio.create_task(self._check(digest, user, password, address))
        self._checking[digest] = task
        self._checks_by_address[address] += 1
        task.add_done_callback(lambda done: self._end_check(digest, address, budgets, done))
        return task

    def _check_address(self, address: str) -> None:
        """Refuse an address that has too many failures or checks in progress.

        Raises:
            HttpError: the address has too many failures (429), or too many checks are in progress
                (503).
        """
        self._failed_addresses.check(address)
        is_busy = self._checks_by_address[address] >= self._address_waiting_max
        if is_busy or self._checks_by_address.total() >= self._waiting_max:
            raise HttpError(
                503, "Too many logins are in progress. Try again in 2 s.", {"Retry-After": "2"}
            )

    def _check_later(
        self, digest: bytes, user: str, password: bytes, address: str, budgets: _Budgets
    ) -> None:
        """Check a refused password in the background, if it is the user's first from the address.

        Passwords of unknown users are not checked. They would use up the checks of the address, and
        no response shows the difference.
        """
        (failed_pairs, pair), _, (failed_deferred, _) = budgets
        if user not in self._accounts.accounts or failed_pairs.has_failures(pair):
            return
        if len(self._deferred) >= self._deferred_waiting_max:
            return
        try:
            failed_deferred.check(address)
        except HttpError:
            return
        for failed, key in budgets:
            failed.note(key)
        # The check is not in `_checking`: a repeated attempt that joined it would learn the result,
        # and so whether the user exists.
        task = asyncio.create_task(self._check(digest, user, password, address))
        self._deferred.add(task)
        task.add_done_callback(self._deferred.discard)
        task.add_done_callback(lambda done: _forgive(budgets, done))

    def _end_check(
        self,
        digest: bytes,
        address: str,
        budgets: _Budgets,
        task: "asyncio.Task[Identity | None]",
    ) -> None:
        if self._checking.get(digest) is task:
            del self._checking[digest]
        self._checks_by_address[address] -= 1
        if not self._checks_by_address[address]:
            del self._checks_by_address[address]
        _forgive(budgets, task)

    async def _check(
        self, digest: bytes, user: str, password: bytes, address: str
    ) -> Identity | None:
        account = self._accounts.accounts.get(user)
        # A password is also hashed for an unknown user, so that timing does not reveal which users
        # exist.
        password_hash = self._accounts.dummy_hash if account is None else account.password_hash
        await self._slots.acquire(address)
        try:
            right = await asyncio.to_thread(_is_right, password, password_hash)
        finally:
            self._slots.release()
        if account is None or not right:
            return None
        identity = Identity(user, account.project_id, is_admin=user in self._admins)
        self._remember(digest, account, identity)
        return identity

    def _remember(self, digest: bytes, account: Account, identity: Identity) -> None:
        self._remembered[digest] = (account, identity)
        if len(self._remembered) > self._remembered_max:
            self._remembered.popitem(last=False)


def _forgive(budgets: _Budgets, task: "asyncio.Task[Identity | None]") -> None:
    """Take back the failures that were counted for a check, if the password was right."""
    if not task.cancelled() and task.exception() is None and task.result() is not None:
        for failed, key in budgets:
            failed.forgive(key)


def _is_right(password: bytes, password_hash: bytes) -> bool:
    fits = len(password) <= _PASSWORD_BYTES_MAX and b"\0" not in password
    return bcrypt.checkpw(password if fits else b"", password_hash) and fits


def is_name(text: str) -> bool:
    """Return whether a string is a valid user or project name: 1 to 255 printable characters."""
    return 0 < len(text) <= _NAME_MAX and text.isprintable()


def _user_and_project(token: str) -> tuple[str, str]:
    """Return the names in a token `USER:PROJECT`; without a project, both are the user's."""
    user, _, project = token.partition(":")
    project = project or user
    if not (is_name(user) and is_name(project)):
        raise HttpError(
            401,
            "X-Auth-Token must be USER or USER:PROJECT, each with 1 to 255 printable characters.",
            TOKEN_CHALLENGE,
        )
    return user, project


def _parse(header: str) -> tuple[str, bytes]:
    scheme, _, text = header.partition(" ")
    if scheme.lower() != "basic" or len(header) > _HEADER_MAX:
        raise HttpError(
            401,
            f"The Authorization header must use HTTP Basic, in at most {_HEADER_MAX} characters.",
            CHALLENGE,
        )
    try:
        name, colon, password = base64.b64decode(text.strip(), validate=True).partition(b":")
        user = name.decode()
    except ValueError as error:  # binascii.Error and UnicodeDecodeError are subclasses
        raise HttpError(
            401,
            "The Authorization header must contain the base64 encoding of USER:PASSWORD in UTF-8.",
            CHALLENGE,
        ) from error
    if not (colon and is_name(user)):
        raise HttpError(
            401,
            "The Authorization header must encode USER:PASSWORD, with a user name of 1 to 255 "
            "printable characters.",
            CHALLENGE,
        )
    return user, password


def credentials_of(scope: Scope) -> Credentials:
    """Return the credentials of a request, without the headers that only `NoAuth2` trusts."""
    client = scope.get("client")
    return Credentials(
        authorization=header_of(scope, b"authorization"),
        token=header_of(scope, b"x-auth-token"),
        address=client[0] if client else "",
        service_token=header_of(scope, b"x-service-token"),
    )
