"""The file of users, in Apache's htpasswd format with bcrypt hashes only.

Each line is `USER:HASH`, as `htpasswd -B` writes it, and may end with a comment that names the
project (docs/reference/http-api.md, "Authentication"). Empty lines and lines that start with `#`
are skipped.
"""

import re
from collections import Counter
from collections.abc import Mapping
from pathlib import Path

from berth.api.auth.authentication import Account
from berth.domain.errors import InvalidInputError
from berth.ports.clock import Clock
from berth.ports.telemetry import Telemetry

# Largest file in bytes, enough for about 40,000 users.
FILE_BYTES_MAX = 4 * 1024 * 1024

# The default cost of bcrypt.gensalt(), which `berth user add` uses.
_COST_DEFAULT = 12
_USER_MAX = 255
# Minimum time between checks of the file, so that not every request costs a system call.
_CHECK_EVERY_NS = 1_000_000_000
_HASH = re.compile(r"\$2[aby]\$(?P<cost>0[4-9]|[12][0-9]|3[01])\$[./A-Za-z0-9]{53}")
_COMMENT = re.compile(r"#\s*(project=(?P<project>\S{1,255})|no project)\s*")
# The salt and digest part of a bcrypt hash that no password matches.
_NO_HASH = "." * 53

# Time of modification in nanoseconds, size in bytes, inode.
_Stamp = tuple[int, int, int]


def parse_accounts(text: str, source: str) -> dict[str, Account]:
    """Return the accounts in the text of an htpasswd file, by user name.

    Raises:
        InvalidInputError: a line is malformed or repeats a user; the message never quotes a hash.
    """
    accounts: dict[str, Account] = {}
    for number, line in enumerate(text.splitlines(), start=1):
        if line.strip() and not line.lstrip().startswith("#"):
            account = _account(line.strip(), f"{source}: line {number}")
            if account.user in accounts:
                raise InvalidInputError(
                    f"{source}: line {number}",
                    f"repeats user {account.user!r}; keep one line for each user",
                )
            accounts[account.user] = account
    return accounts


def _account(line: str, where: str) -> Account:
    user, colon, rest = line.partition(":")
    password_hash, _, comment = rest.partition(" ")
    if not colon or not (0 < len(user) <= _USER_MAX and user.isprintable()):
        raise InvalidInputError(
            where,
            "must be USER:HASH, with a user name of 1 to 255 printable characters; add users with "
            "`htpasswd -B`",
        )
    if _HASH.fullmatch(password_hash) is None:
        raise InvalidInputError(where, "the hash is not a bcrypt hash; write it with `htpasswd -B`")
    found = _COMMENT.fullmatch(comment.strip())
    if comment.strip() and found is None:
        raise InvalidInputError(
            where, "only `# project=NAME` or `# no project` may follow the hash"
        )
    project = (found["project"] or "") if found else user
    return Account(user, password_hash.encode(), project)


class AuthFile:
    """The accounts of a file, which is read again when it changes.

    A changed file that is invalid is reported to telemetry, and the earlier accounts stay in force.

    Args:
        path: the htpasswd file.
        clock: the monotonic clock; the file's status is checked at most once a second.
        telemetry: receives events of changes and failures.

    Attributes:
        accounts: the accounts in force, by user.

    Raises:
        InvalidInputError: the file is invalid or cannot be read at the start, when there are no
            earlier accounts.
    """

    def __init__(self, path: Path, clock: Clock, telemetry: Telemetry) -> None:
        self._path = path
        self._clock = clock
        self._telemetry = telemetry
        self._generation = 0
        self._checked_ns = clock.ticks_ns()
        self._stamp = self._stamp_now()
        self.accounts: Mapping[str, Account] = self._read()
        self._dummy_hash = _dummy_hash(self.accounts)

    @property
    def generation(self) -> int:
        """The number of changes of the accounts; reading it checks the file for changes."""
        now_ns = self._clock.ticks_ns()
        if now_ns - self._checked_ns >= _CHECK_EVERY_NS:
            self._checked_ns = now_ns
            self.reload_if_touched()
        return self._generation

    @property
    def dummy_hash(self) -> bytes:
        """A hash that no password matches, with the most common cost of the hashes in the file.

        It is checked for unknown users, so that the response time does not reveal whether a user
        exists.
        """
        return self._dummy_hash

    def reload_if_touched(self) -> bool:
        """Read the file again if it has changed, and return whether new accounts are in force."""
        stamp = self._stamp_now()
        if stamp == self._stamp:
            return False
        # The stamp is taken before the text is read, so a write in between is noticed next time.
        self._stamp = stamp
        try:
            accounts = self._read()
        except InvalidInputError as error:
            self._telemetry.failure("auth_file_refused", error)
            return False
        self.accounts, self._dummy_hash = accounts, _dummy_hash(accounts)
        self._generation += 1
        self._telemetry.event("auth_file_read", users=len(accounts))
        return True

    def _read(self) -> Mapping[str, Account]:
        try:
            with self._path.open("rb") as file:
                content = file.read(FILE_BYTES_MAX + 1)
            if len(content) > FILE_BYTES_MAX:
                raise InvalidInputError(
                    str(self._path), f"is larger than {FILE_BYTES_MAX:,} bytes, the maximum"
                )
            return parse_accounts(content.decode(), str(self._path))
        except OSError as error:
            raise InvalidInputError(
                str(self._path),
                f"cannot be read ({error.strerror}); check the path and its permissions",
            ) from error
        except UnicodeDecodeError as error:
            raise InvalidInputError(str(self._path), "is not UTF-8 text; convert it") from error

    def _stamp_now(self) -> _Stamp | None:
        try:
            status = self._path.stat()
        except OSError:
            return None  # a missing file is also a change; reading it reports the reason
        return status.st_mtime_ns, status.st_size, status.st_ino


def _dummy_hash(accounts: Mapping[str, Account]) -> bytes:
    costs = Counter(int(account.password_hash[4:6]) for account in accounts.values())
    cost = costs.most_common(1)[0][0] if costs else _COST_DEFAULT
    return f"$2b${cost:02d}${_NO_HASH}".encode()
