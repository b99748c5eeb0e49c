"""Tokens: what a client shows instead of a password, until they expire."""

from typing import NamedTuple, Protocol

from berth.api.auth.authentication import CHALLENGE, Auth, Credentials, HttpBasic, Identity, is_name
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
    """Remembers ended tokens until they expire by themselves; memory of one process.

    Args:
        clock: tells the time.
        kept_max: how many are remembered; none is forgotten for another one.
    """

    def __init__(self, clock: Clock, *, kept_max: int = 100_000) -> None:
        self._clock = clock
        self._kept_max = kept_max
        self._until_s: dict[str, int] = {}

    def __contains__(self, audit_id: str) -> bool:
        return audit_id in self._until_s

    def add(self, audit_id: str, expires_at_s: int) -> None:
        """Remember a token by its audit id.

        Raises:
            HttpError: 503, too many are remembered.
        """
        if len(self._until_s) >= self._kept_max:
            self._forget_expired()
        if len(self._until_s) >= self._kept_max:
            raise HttpError(503, "Too many tokens were revoked.", {"Retry-After": "60"})
        self._until_s[audit_id] = expires_at_s

    def _forget_expired(self) -> None:
        now_s = self._clock.now_s()
        for audit_id, until_s in list(self._until_s.items()):
            if until_s <= now_s:
                del self._until_s[audit_id]


_PURPOSE = "berth token"
_TEXT_MAX = 4096


class Grant(Model):
    """What a token says. Times are Unix seconds; without a project it is for none.

    `password` is a digest of the hash that the user's password has: who changes the password ends
    the tokens.
    """

    user: str
    project: str | None
    methods: tuple[str, ...]
    issued_at_s: int
    expires_at_s: int
    audit_id: str
    password: str = ""


class Token(NamedTuple):
    """A token, what it says, and whose it is."""

    text: str
    grant: Grant
    person: Person


class Seals(Protocol):
    """Seals texts as `berth.services.crypto.sealing.Sealer` does, which loads only when needed."""

    def seal(self, purpose: str, content: bytes) -> str:
        """Return a text that only `unseal` for the same purpose can read."""
        ...

    def unseal(self, purpose: str, text: str) -> bytes | None:
        """Return what was sealed; None when that was not done here for this purpose."""
        ...


class Tokens(Protocol):
    """Gives tokens and reads them."""

    async def log_in(self, user: str, password: str, address: str) -> Person:
        """Return the user who has a password.

        Raises:
            HttpError: nobody that is known (401), or too many failures before (429).
        """
        ...

    def issue(self, person: Person, project: str | None, before: Token | None = None) -> Token:
        """Give a token for a project that the user may work in, or for none.

        Args:
            person: whose it is.
            project: what it is for.
            before: the token that the user showed for it; the new one lasts no longer.
        """
        ...

    def read(self, text: str) -> Token:
        """Return what a token says.

        Raises:
            HttpError: it is none, or no longer (401).
        """
        ...

    def revoke(self, token: Token) -> None:
        """End a token.

        Raises:
            HttpError: that cannot be remembered (503), or is not possible here (403).
        """
        ...


class SealedTokens:
    """Tokens that nobody can read or make without a key; see `Tokens`.

    What an account says counts when a token is shown, not when it was given: a user who is
    removed, or is no administrator any more, is none at once.

    Args:
        basic: checks passwords.
        directory: the users.
        seals: seals and opens.
        clock: tells the time.
        ids: names tokens.
        lifetime_s: how long a token lasts.
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
            raise HttpError(401, "User or password is wrong.", CHALLENGE)
        await self._basic.log_in(user, password.encode(), address)
        return self._person(user)

    def issue(self, person: Person, project: str | None, before: Token | None = None) -> Token:
        """See `Tokens.issue`."""
        now_s = int(self._clock.now_s())
        grant = Grant(
            user=person.name,
            project=project,
            methods=("password",) if before is None else ("token", *before.grant.methods)[:2],
            issued_at_s=now_s,
            expires_at_s=(
                now_s + int(self._lifetime_s) if before is None else before.grant.expires_at_s
            ),
            audit_id=self._ids.uuid(),
            password=self._directory.password_mark(person.name),
        )
        return Token(self._seals.seal(_PURPOSE, encode(grant)), grant, person)

    def read(self, text: str) -> Token:
        """See `Tokens.read`."""
        content = self._seals.unseal(_PURPOSE, text) if len(text) <= _TEXT_MAX else None
        if content is None:
            raise HttpError(401, "The token is not one of this server.", CHALLENGE)
        try:
            grant = decode(content, Grant)
        except InvalidInputError as error:
            raise HttpError(401, "The token is of another version of Berth.") from error
        if self._clock.now_s() >= grant.expires_at_s or grant.audit_id in self._revoked:
            raise HttpError(401, "The token has expired.", CHALLENGE)
        person = self._person(grant.user)
        if self._directory.password_mark(grant.user) != grant.password:
            raise HttpError(401, "The token has expired: the password was changed.", CHALLENGE)
        return Token(text, grant, person)

    def revoke(self, token: Token) -> None:
        """See `Tokens.revoke`; other processes still take it."""
        self._revoked.add(token.grant.audit_id, token.grant.expires_at_s)

    def _person(self, name: str) -> Person:
        person = self._directory.find_user(name)
        if person is None:
            raise HttpError(401, "The user is gone.", CHALLENGE)
        return person


class NamedTokens:
    """Tokens `USER:PROJECT`, where everybody is believed; any password is right; see `Tokens`.

    Args:
        directory: the users.
        clock: tells the time.
        lifetime_s: how long clients are told that a token lasts.
    """

    def __init__(self, directory: OpenDirectory, clock: Clock, *, lifetime_s: float) -> None:
        self._directory = directory
        self._clock = clock
        self._lifetime_s = lifetime_s

    async def log_in(self, user: str, password: str, address: str) -> Person:  # noqa: ARG002 - see above
        """See `Tokens.log_in`."""
        return self._person(user)

    def issue(self, person: Person, project: str | None, before: Token | None = None) -> Token:  # noqa: ARG002 - no token says when it was given
        """See `Tokens.issue`."""
        return self._token(person, project)

    def read(self, text: str) -> Token:
        """See `Tokens.read`."""
        user, _, project = text.partition(":")
        return self._token(self._person(user), project or user)

    def revoke(self, token: Token) -> None:  # noqa: ARG002 - see `Tokens`
        """See `Tokens.revoke`."""
        raise HttpError(403, "Without authentication a token is a name and has no end.")

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
            raise HttpError(401, "A user has a name of printable characters, without a colon.")
        return person


class TokenAuth:
    """Checks tokens, and HTTP Basic where a request has none; see `Auth`.

    Args:
        tokens: reads tokens.
        directory: the users and projects.
        basic: checks the rest.
    """

    def __init__(self, tokens: Tokens, directory: Directory, basic: Auth) -> None:
        self._tokens = tokens
        self._directory = directory
        self._basic = basic

    async def identify(self, credentials: Credentials) -> Identity:
        """See `Auth.identify`; of a token for no project the identity has none, and no role."""
        if credentials.token:
            return identity_of(self._tokens.read(credentials.token), self._directory)
        if not credentials.authorization:
            raise HttpError(401, "Authentication is required: a token, or HTTP Basic.", CHALLENGE)
        return await self._basic.identify(credentials)


def identity_of(token: Token, directory: Directory) -> Identity:
    """Return who shows a token.

    Raises:
        HttpError: the user may not work in its project any more (401).
    """
    person, project = token.person, token.grant.project
    if project is None:
        return Identity(person.name, "", is_admin=False, roles=frozenset())
    if not may_work_in(directory, person, project):
        raise HttpError(401, f"User {person.name} is not in project {project} any more.")
    return Identity(person.name, project, is_admin=person.is_admin)
