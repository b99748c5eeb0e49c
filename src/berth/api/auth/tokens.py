"""Tokens, which clients send instead of a password until the tokens expire."""

from typing import NamedTuple, Protocol

from berth.api.auth.authentication import (
    CHALLENGE,
    TOKEN_CHALLENGE,
    Auth,
    Credentials,
    HttpBasic,
    Identity,
    is_name,
)
from berth.api.auth.directory import (
    AccountDirectory,
    Directory,
    OpenDirectory,
    Person,
    may_work_in,
)
from berth.api.codec import Model, decode, encode
from berth.api.errors import HttpError
from berth.domain.errors import InvalidInputError
from berth.ports.clock import Clock, Ids


class Revoked:
    """Remembers revoked tokens until they expire, in the memory of this process.

    Args:
        clock: provides the time.
        kept_max: maximum number of tokens; if none of them has expired, no further token can be
            revoked.
    """

    def __init__(self, clock: Clock, *, kept_max: int = 100_000) -> None:
        self._clock = clock
        self._kept_max = kept_max
        self._until_s: dict[str, int] = {}

    def __contains__(self, audit_id: str) -> bool:
        return audit_id in self._until_s

    def add(self, audit_id: str, expires_at_s: int) -> None:
        """Remember a revoked token by its audit id, until the token expires.

        Raises:
            HttpError: 503 when `kept_max` revoked tokens have not expired yet.
        """
        # Dropping an entry would make a revoked token valid again, so a full set refuses new ones.
        if len(self._until_s) >= self._kept_max:
            self._forget_expired()
        if len(self._until_s) >= self._kept_max:
            raise HttpError(
                503,
                "The token cannot be revoked, because too many revoked tokens have not expired "
                "yet. Try again in 60 s.",
                {"Retry-After": "60"},
            )
        self._until_s[audit_id] = expires_at_s

    def _forget_expired(self) -> None:
        now_s = self._clock.now_s()
        for audit_id, until_s in list(self._until_s.items()):
            if until_s <= now_s:
                del self._until_s[audit_id]


_PURPOSE = "berth token"
_TEXT_MAX = 4096
_ANCESTORS_MAX = 16


# Defaults are omitted, so that processes of the previous version can read most tokens.
class Grant(Model, omit_defaults=True):
    """The content of a token; times are Unix seconds, and an unscoped token has no project.

    `methods` are those by which the user authenticated, the latest first. `password` is a digest of
    the user's password hash; changing the password therefore ends the user's tokens. `ancestors`
    are the audit ids of the tokens that this one derives from; the first was issued for a password.
    """

    user: str
    project: str | None
    methods: tuple[str, ...]
    issued_at_s: int
    expires_at_s: int
    audit_id: str
    password: str = ""
    ancestors: tuple[str, ...] = ()


class Token(NamedTuple):
    """A token with its content and its user."""

    text: str
    grant: Grant
    person: Person


class Seals(Protocol):
    """Encrypts and authenticates byte strings under keys of this deployment."""

    def seal(self, purpose: str, content: bytes) -> str:
        """Return the content as a string that only `unseal` with the same purpose can read."""
        ...

    def unseal(self, purpose: str, text: str) -> bytes | None:
        """Return the content, or None if these keys did not seal it for the same purpose."""
        ...


class Tokens(Protocol):
    """Issues, reads and revokes tokens."""

    async def log_in(self, user: str, password: str, address: str) -> Person:
        """Return the user after checking the password, if the mode has passwords.

        Raises:
            HttpError: user or password is wrong (401), too many attempts failed (429), or too many
                logins are in progress (503).
        """
        ...

    def issue(self, person: Person, project: str | None, before: Token | None = None) -> Token:
        """Return a new token for a project or, if the mode has such tokens, an unscoped token.

        Args:
            person: the user.
            project: a project that the user may work in, or None for an unscoped token.
            before: the token that the user authenticated with, or None for a password. If tokens
                expire, the new token expires when this one does, and is revoked with it.

        Raises:
            HttpError: 401 when `before` derives from too many tokens.
        """
        ...

    def read(self, text: str) -> Token:
        """Verify a token, and return it with its content and its user.

        Raises:
            HttpError: 401 when the string is not a token, or the token has expired, was revoked,
                names a user that no longer exists, or was issued before a change of the password.
        """
        ...

    def revoke(self, token: Token) -> None:
        """Revoke a token, and all tokens that were issued for it, directly or indirectly.

        Raises:
            HttpError: too many tokens have been revoked (503), or this mode has no revocation
                (403).
        """
        ...


class SealedTokens:
    """Issues and reads tokens that only holders of the keys can make or read; see `Tokens`.

    Every use of a token looks up the user again. Removing a user or its administrator role thus
    takes effect as soon as the directory knows of it.

    Args:
        basic: checks passwords.
        directory: the users.
        seals: seals and opens tokens.
        clock: provides the time.
        ids: generates audit ids.
        lifetime_s: lifetime of a token in seconds.
    """

    def __init__(
        self,
        basic: HttpBasic,
        directory: AccountDirectory,
        seals: Seals,
        clock: Clock,
        ids: Ids,
        *,
        lifetime_s: float,
    ) -> None:
        self._basic = basic
        self._directory = directory
        self._seals = seals
        self._clock = clock
        self._ids = ids
        self._lifetime_s = lifetime_s
        self._revoked = Revoked(clock)

    async def log_in(self, user: str, password: str, address: str) -> Person:
        """See `Tokens.log_in`."""
        if not is_name(user):
            raise HttpError(401, "The user name or the password is wrong.", CHALLENGE)
        await self._basic.log_in(user, password.encode(), address)
        return self._person(user)

    def issue(self, person: Person, project: str | None, before: Token | None = None) -> Token:
        """See `Tokens.issue`."""
        now_s = int(self._clock.now_s())
        ancestors = () if before is None else (*before.grant.ancestors, before.grant.audit_id)
        if len(ancestors) > _ANCESTORS_MAX:
            text = (
                f"The token derives from {_ANCESTORS_MAX} others, and none may derive from more. "
                "Log in with the password."
            )
            raise HttpError(401, text, CHALLENGE)
        grant = Grant(
            user=person.name,
            project=project,
            methods=("password",) if before is None else ("token", *before.grant.methods)[:2],
            issued_at_s=now_s,
            # A token that was obtained with another one expires together with that one. Otherwise a
            # stolen token could be renewed forever.
            expires_at_s=(
                now_s + int(self._lifetime_s) if before is None else before.grant.expires_at_s
            ),
            audit_id=self._ids.uuid(),
            password=self._directory.password_mark(person.name),
            ancestors=ancestors,
        )
        return Token(self._seals.seal(_PURPOSE, encode(grant)), grant, person)

    def read(self, text: str) -> Token:
        """See `Tokens.read`."""
        content = self._seals.unseal(_PURPOSE, text) if len(text) <= _TEXT_MAX else None
        if content is None:
            raise HttpError(
                401, "The token was not issued by this deployment. Log in again.", CHALLENGE
            )
        try:
            grant = decode(content, Grant)
        except InvalidInputError as error:
            raise HttpError(
                401, "Another version of Berth issued the token. Log in again.", CHALLENGE
            ) from error
        is_revoked = any(one in self._revoked for one in (grant.audit_id, *grant.ancestors))
        if is_revoked or self._clock.now_s() >= grant.expires_at_s:
            raise HttpError(401, "The token has expired or was revoked. Log in again.", CHALLENGE)
        person = self._person(grant.user)
        if self._directory.password_mark(grant.user) != grant.password:
            raise HttpError(
                401, "The password has changed since the token was issued. Log in again.", CHALLENGE
            )
        return Token(text, grant, person)

    def revoke(self, token: Token) -> None:
        """See `Tokens.revoke`. Other processes still accept the token until it expires."""
        self._revoked.add(token.grant.audit_id, token.grant.expires_at_s)

    def _person(self, name: str) -> Person:
        person = self._directory.find_user(name)
        if person is None:
            raise HttpError(
                401, f"User {name} no longer exists. Log in as another user.", CHALLENGE
            )
        return person


class NamedTokens:
    """Issues and reads tokens `USER:PROJECT` in modes that trust every client and any password.

    The tokens do not expire, and each has a project: the user's own if none is requested.

    Args:
        directory: the users.
        clock: provides the time.
        lifetime_s: lifetime that responses state, in seconds.
    """

    def __init__(self, directory: OpenDirectory, clock: Clock, *, lifetime_s: float) -> None:
        self._directory = directory
        self._clock = clock
        self._lifetime_s = lifetime_s

    async def log_in(self, user: str, password: str, address: str) -> Person:  # noqa: ARG002 - any password is accepted
        """See `Tokens.log_in`."""
        return self._person(user)

    def issue(self, person: Person, project: str | None, before: Token | None = None) -> Token:  # noqa: ARG002 - the tokens do not expire
        """See `Tokens.issue`."""
        return self._token(person, project)

    def read(self, text: str) -> Token:
        """See `Tokens.read`."""
        user, _, project = text.partition(":")
        return self._token(self._person(user), project or user)

    def revoke(self, token: Token) -> None:  # noqa: ARG002 - no token can be revoked
        """See `Tokens.revoke`."""
        raise HttpError(403, "Tokens cannot be revoked in a deployment without authentication.")

    def _token(self, person: Person, project: str | None) -> Token:
        now_s = int(self._clock.now_s())
        grant = Grant(
            user=person.name,
            project=project or person.project_id,
            methods=("password",),
            issued_at_s=now_s,
            expires_at_s=now_s + int(self._lifetime_s),
            audit_id="-",
        )
        return Token(f"{grant.user}:{grant.project}", grant, person)

    def _person(self, name: str) -> Person:
        person = None if ":" in name else self._directory.find_user(name)
        if person is None:
            raise HttpError(
                401,
                "The user name must consist of 1 to 255 printable characters other than a colon.",
                TOKEN_CHALLENGE,
            )
        return person


class TokenAuth:
    """Authenticates by token, or by HTTP Basic if a request has no token; see `Auth`.

    Args:
        tokens: reads tokens.
        directory: the users and projects.
        basic: authenticates requests without a token.
    """

    def __init__(self, tokens: Tokens, directory: Directory, basic: Auth) -> None:
        self._tokens = tokens
        self._directory = directory
        self._basic = basic

    async def identify(self, credentials: Credentials) -> Identity:
        """See `Auth.identify`. For an unscoped token, the identity has no project or roles."""
        if credentials.token:
            return identity_of(self._tokens.read(credentials.token), self._directory)
        if not credentials.authorization:
            raise HttpError(
                401, "Authentication is required; send a token or use HTTP Basic.", CHALLENGE
            )
        return await self._basic.identify(credentials)


def identity_of(token: Token, directory: Directory) -> Identity:
    """Return the identity of a token's user in the token's project.

    Raises:
        HttpError: 401 when the user may no longer work in the token's project.
    """
    person, project = token.person, token.grant.project
    if project is None:
        return Identity(person.name, "", is_admin=False, roles=frozenset())
    if not may_work_in(directory, person, project):
        raise HttpError(
            401,
            f"User {person.name} has no access to project {project}. Log in to another project.",
            CHALLENGE,
        )
    return Identity(person.name, project, is_admin=person.is_admin)
