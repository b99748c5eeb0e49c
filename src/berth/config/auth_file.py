"""The file of users, in Apache's htpasswd form with bcrypt hashes only.

One `USER:HASH` a line, as `htpasswd -B` writes it, with an optional comment that names the
project (docs/reference/http-api.md, "Authentication"). Empty lines and those that start with `#`
are skipped.
"""

import re
from collections import Counter
from collections.abc import Collection, Mapping
from pathlib import Path

from berth.api.auth.authentication import Account
from berth.domain.errors import InvalidInputError
from berth.ports.clock import Clock
from berth.ports.telemetry import Telemetry

FILE_BYTES_MAX = 4 * 1024 * 1024

_COST_DEFAULT = 12
_USER_MAX = 255
_LOOK_EVERY_NS = 1_000_000_000
_HASH = re.compile(r"\$2[aby]\$(?P<cost>0[4-9]|[12][0-9]|3[01])\$[./A-Za-z0-9]{53}")
_COMMENT = re.compile(r"#\s*(project=(?P<project>\S{1,255})|no project)\s*")
_NO_HASH = "." * 53

_Stamp = tuple[int, int, int]


def parse_accounts(text: str, source: str) -> dict[str, Account]:
    """Read the lines of an htpasswd file into accounts by user.

    Raises:
        InvalidInputError: naming the line, never the hash.
    """
    accounts: dict[str, Account] = {}
    for number, line in enumerate(text.splitlines(), start=1):
        if line.strip() and not line.lstrip().startswith("#"):
            account = _account(line.strip(), f"{source}: line {number}")
            if account.user in accounts:
                raise InvalidInputError(f"{source}: line {number}", "names a user again")
            accounts[account.user] = account
    return accounts


def _account(line: str, where: str) -> Account:
    user, colon, rest = line.partition(":")
    password_hash, _, comment = rest.partition(" ")
    if not colon or not (0 < len(user) <= _USER_MAX and user.isprintable()):
        raise InvalidInputError(where, "must be USER:HASH; add users with `htpasswd -B`")
    if _HASH.fullmatch(password_hash) is None:
        raise InvalidInputError(where, "the hash is not bcrypt; write it with `htpasswd -B`")
    found = _COMMENT.fullmatch(comment.strip())
    if comment.strip() and found is None:
        raise InvalidInputError(
            where, "after the hash only `# project=NAME` or `# no project` may come"
        )
    project = (found["project"] or "") if found else user
    return Account(user, password_hash.encode(), project)


class AuthFile:
    """The accounts of a file, read again when it changes.

    A file that is wrong changes nothing: the accounts read before stay, and telemetry is told.

    Args:
        path: the htpasswd file.
        clock: tells when to look at the file again, at most once a second.
        telemetry: is told of a changed file that cannot be read.

    Raises:
        InvalidInputError: the file is wrong at the start, when there is no other to fall back on.
    """

    def __init__(self, path: Path, clock: Clock, telemetry: Telemetry) -> None:
        self._path = path
        self._clock = clock
        self._telemetry = telemetry
        self._generation = 0
        self._looked_ns = clock.ticks_ns()
        self._stamp = self._stamp_now()
        self._accounts: Mapping[str, Account] = self._read()
        self._dummy_hash = _dummy_hash(self._accounts)

    @property
    def generation(self) -> int:
        """Raised whenever the accounts have changed; reading it looks at the file."""
        now_ns = self._clock.ticks_ns()
        if now_ns - self._looked_ns >= _LOOK_EVERY_NS:
            self._looked_ns = now_ns
            self.reload_if_touched()
        return self._generation

    @property
    def dummy_hash(self) -> bytes:
        """A hash that no password has, as costly to check as most of the file."""
        return self._dummy_hash

    def find(self, user: str) -> Account | None:
        """Return the account of a user."""
        return self._accounts.get(user)

    def users(self) -> Collection[str]:
        """Return the names of all users."""
        return self._accounts.keys()

    def reload_if_touched(self) -> bool:
        """Read the file again if it was written since; tell whether it took effect."""
        stamp = self._stamp_now()
        if stamp == self._stamp:
            return False
        self._stamp = stamp
        try:
            accounts = self._read()
        except InvalidInputError as error:
            self._telemetry.failure("auth_file_refused", error)
            return False
        self._accounts, self._dummy_hash = accounts, _dummy_hash(accounts)
        self._generation += 1
        self._telemetry.event("auth_file_read", users=len(accounts))
        return True

    def _read(self) -> Mapping[str, Account]:
        try:
            with self._path.open("rb") as file:
                content = file.read(FILE_BYTES_MAX + 1)
            if len(content) > FILE_BYTES_MAX:
                raise InvalidInputError(str(self._path), f"is above {FILE_BYTES_MAX} bytes")
            return parse_accounts(content.decode(), str(self._path))
        except OSError as error:
            raise InvalidInputError(str(self._path), f"cannot be read: {error.strerror}") from error
        except UnicodeDecodeError as error:
            raise InvalidInputError(str(self._path), "is not UTF-8 text") from error

    def _stamp_now(self) -> _Stamp | None:
        try:
            status = self._path.stat()
        except OSError:
            return None  # a missing file is a change too, and reading it says what is wrong
        return status.st_mtime_ns, status.st_size, status.st_ino


def _dummy_hash(accounts: Mapping[str, Account]) -> bytes:
    costs = Counter(int(account.password_hash[4:6]) for account in accounts.values())
    cost = costs.most_common(1)[0][0] if costs else _COST_DEFAULT
    return f"$2b${cost:02d}${_NO_HASH}".encode()
