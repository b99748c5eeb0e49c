"""Users and tokens for the tests of the identity API."""

from typing import Any

import bcrypt

from berth.api.auth.authentication import Account, HttpBasic
from berth.api.auth.directory import AccountDirectory
from berth.api.auth.tokens import SealedTokens, TokenAuth
from berth.services.crypto.sealing import KEY_BYTES, Sealer
from tests.unit.api.cloud import CountedIds, FakeClock

TOKENS = "/identity/v3/auth/tokens"
LIFETIME_S = 600
COST = 4


class FewAccounts:
    """Accounts in memory: admin's project is `admin`, all others have `web` by default."""

    def __init__(self, **passwords: str) -> None:
        self.generation = 0
        self.dummy_hash = f"$2b$0{COST}${'.' * 53}".encode()
        self.accounts: dict[str, Account] = {}
        for user, password in passwords.items():
            self.put(user, password)

    def put(self, user: str, password: str, project: str | None = None) -> None:
        """Add a user, or change the password of an existing one."""
        project = project or ("admin" if user == "admin" else "web")
        hashed = bcrypt.hashpw(password.encode(), bcrypt.gensalt(COST))
        self.accounts[user] = Account(user, hashed, project)
        self.generation += 1

    def remove(self, user: str) -> None:
        """Remove a user."""
        del self.accounts[user]
        self.generation += 1


class FixedKeys:
    """A key ring with one fixed key."""

    newest_first = (b"k" * KEY_BYTES,)


class House:
    """Users, and the services that authenticate them and their tokens."""

    def __init__(self) -> None:
        self.clock = FakeClock()
        self.accounts = FewAccounts(admin="secret", alice="wonder", bob="builder")
        basic = HttpBasic(self.accounts, self.clock, key=b"k" * 32)
        self.directory = AccountDirectory(self.accounts)
        nonces = iter(range(10**6))
        sealer = Sealer(FixedKeys(), lambda length: next(nonces).to_bytes(length, "big"))
        self.tokens = SealedTokens(
            basic, self.directory, sealer, self.clock, CountedIds(), lifetime_s=LIFETIME_S
        )
        self.auth = TokenAuth(self.tokens, self.directory, basic)


def login(user: str, password: str, scope: object = None) -> dict[str, Any]:
    """Return the body of a request for a token."""
    about = {"name": user, "password": password, "domain": {"id": "default"}}
    identity = {"methods": ["password"], "password": {"user": about}}
    auth: dict[str, Any] = {"identity": identity}
    if scope is not None:
        auth["scope"] = scope
    return {"auth": auth}


def project(name: str, domain: str = "Default") -> dict[str, Any]:
    """Return the scope of a project."""
    return {"project": {"name": name, "domain": {"name": domain}}}
