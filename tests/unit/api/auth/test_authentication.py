"""Authentication of callers."""

import ast
import asyncio
import base64
from collections import Counter
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import bcrypt
import pytest

from berth.api import errors
from berth.api.auth.authentication import Account, Credentials, HttpBasic, Identity, NoAuth
from berth.api.errors import HttpError
from tests.unit.api.cloud import FakeClock
from tests.unit.api.conftest import MakeStack

COST = 4
API = Path(errors.__file__).parent


class FewAccounts:
    """Accounts that are kept in memory."""

    def __init__(self, passwords: Mapping[str, str]) -> None:
        self.generation = 0
        self.dummy_hash = f"$2b$0{COST}${'.' * 53}".encode()
        self.accounts = {
            user: Account(user, bcrypt.hashpw(word.encode(), bcrypt.gensalt(COST)), f"{user}s")
            for user, word in passwords.items()
        }


class Checks:
    """A recorder of the costly password checks."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.hashes: list[bytes] = []
        real = bcrypt.checkpw

        def counted(password: bytes, password_hash: bytes) -> bool:
            self.hashes.append(password_hash)
            return real(password, password_hash)

        monkeypatch.setattr(bcrypt, "checkpw", counted)


@pytest.fixture
def checks(monkeypatch: pytest.MonkeyPatch) -> Checks:
    """Return a recorder of the costly password checks."""
    return Checks(monkeypatch)


def basic(user: str, password: str, address: str = "10.0.0.1") -> Credentials:
    """Return credentials as a client sends them."""
    text = base64.b64encode(f"{user}:{password}".encode()).decode()
    return Credentials(f"Basic {text}", None, address)


def http_basic(
    *, remembered_max: int = 8, waiting_max: int = 64
) -> tuple[HttpBasic, FewAccounts, FakeClock]:
    """Return the mode http_basic with the users admin and bob, its accounts and its clock."""
    accounts = FewAccounts({"admin": "secret", "bob": "builder"})
    clock = FakeClock()
    mode = HttpBasic(
        accounts,
        clock,
        key=b"k" * 32,
        remembered_max=remembered_max,
        waiting_max=waiting_max,
    )
    return mode, accounts, clock


@pytest.mark.parametrize(
    ("token", "identity"),
    [
        (None, Identity("admin", "admin", is_admin=True)),
        ("notused", Identity("admin", "admin", is_admin=True)),
        ("admin", Identity("admin", "admin", is_admin=True)),
        ("admin:demo", Identity("admin", "demo", is_admin=True)),
        ("bob", Identity("bob", "bob", is_admin=False)),
        ("bob:web", Identity("bob", "web", is_admin=False)),
    ],
)
async def test_without_authentication_the_token_names_the_user(
    token: str | None, identity: Identity
) -> None:
    """Without a token, the caller is an administrator."""
    assert await NoAuth().identify(Credentials(None, token, "")) == identity


@pytest.mark.parametrize("token", [":", ":web", "a\tb", "x" * 256, "bob:" + "x" * 256])
async def test_a_token_must_be_readable(token: str) -> None:
    """A name must consist of 1 to 255 printable characters."""
    with pytest.raises(HttpError) as caught:
        await NoAuth().identify(Credentials(None, token, ""))
    assert caught.value.status == 401


async def test_a_right_password_identifies() -> None:
    """The user, project and role come from the account."""
    mode, _, _ = http_basic()
    assert await mode.identify(basic("bob", "builder")) == Identity("bob", "bobs", is_admin=False)
    admin = await mode.identify(basic("admin", "secret"))
    assert admin == Identity("admin", "admins", is_admin=True)


@pytest.mark.parametrize(
    "header",
    [
        None,
        "",
        "Basic",
        "Basic !!!",
        "Basic " + base64.b64encode(b"nocolon").decode(),
        "Basic " + base64.b64encode(b":x").decode(),
        "Basic " + base64.b64encode(b"\xff:x").decode(),
        "Basic " + "A" * 5000,
        "Bearer token",
        basic("bob", "wrong").authorization,
        basic("nobody", "builder").authorization,
        basic("bob", "builder" + "x" * 100).authorization,
        basic("bob", "builder\0").authorization,
    ],
)
async def test_anything_else_is_unauthorized(header: str | None) -> None:
    """Any other header gets 401 with a challenge."""
    mode, _, _ = http_basic()
    with pytest.raises(HttpError) as caught:
        await mode.identify(Credentials(header, "admin", "10.0.0.1"))
    assert caught.value.status == 401
    assert caught.value.headers["WWW-Authenticate"].startswith("Basic realm=")


async def test_an_unknown_user_costs_as_much_as_a_wrong_password(checks: Checks) -> None:
    """An unknown user is checked against the dummy hash, so timing does not reveal users."""
    mode, accounts, _ = http_basic()
    with pytest.raises(HttpError):
        await mode.identify(basic("nobody", "x"))
    with pytest.raises(HttpError):
        await mode.identify(basic("bob", "x" * 100))
    assert checks.hashes == [accounts.dummy_hash, accounts.accounts["bob"].password_hash]


async def test_a_verified_header_is_remembered(checks: Checks) -> None:
    """A verified password is not checked again; a wrong one always is."""
    mode, _, clock = http_basic()
    for _ in range(3):
        await mode.identify(basic("bob", "builder"))
    clock.seconds += 86_400
    await mode.identify(basic("bob", "builder"))
    assert len(checks.hashes) == 1
    for _ in range(2):
        with pytest.raises(HttpError):
            await mode.identify(basic("bob", "wrong"))
    assert len(checks.hashes) == 3


async def test_known_passwords_do_not_wait_behind_unknown_ones(checks: Checks) -> None:
    """A flood of wrong passwords, even from the same address, affects no verified client."""
    mode, _, _ = http_basic()
    await mode.identify(basic("bob", "builder"))
    flood = [asyncio.create_task(mode.identify(basic(f"u{n}", "x"))) for n in range(200)]
    await asyncio.sleep(0)
    assert (await mode.identify(basic("bob", "builder"))).user_id == "bob"
    assert not all(task.done() for task in flood)
    await asyncio.gather(*flood, return_exceptions=True)
    assert (await mode.identify(basic("bob", "builder"))).user_id == "bob"


async def test_a_change_of_one_account_affects_no_other(checks: Checks) -> None:
    """Passwords of unchanged accounts stay verified, so a change during a flood ends no session."""
    mode, accounts, _ = http_basic()
    for user, password in (("bob", "builder"), ("admin", "secret")):
        await mode.identify(basic(user, password))
    accounts.accounts["admin"] = replace(accounts.accounts["admin"], project_id="other")
    accounts.generation += 1
    assert (await mode.identify(basic("bob", "builder"))).user_id == "bob"
    assert len(checks.hashes) == 2
    assert (await mode.identify(basic("admin", "secret"))).project_id == "other"
    assert len(checks.hashes) == 3


async def test_the_first_login_waits_for_its_turn_only(checks: Checks) -> None:
    """An address that floods leaves room for the unverified logins of others, in turns."""
    mode, accounts, _ = http_basic()
    flood = [asyncio.create_task(mode.identify(basic(f"u{n}", "x"))) for n in range(200)]
    await asyncio.sleep(0)
    found = await mode.identify(basic("bob", "builder", address="10.0.0.2"))
    assert found.user_id == "bob"
    assert checks.hashes.index(accounts.accounts["bob"].password_hash) <= 4
    answers = await asyncio.gather(*flood, return_exceptions=True)
    statuses = Counter(one.status for one in answers if isinstance(one, HttpError))
    assert statuses == {401: 16, 503: 184}


@pytest.mark.parametrize("is_spread", [True, False], ids=["one user", "one address"])
async def test_addresses_and_users_have_budgets(checks: Checks, *, is_spread: bool) -> None:
    """Failures of one user from many addresses are limited, and so are those of one address."""
    mode, _, clock = http_basic()

    def guess(number: int) -> Credentials:
        if is_spread:
            return basic("bob", f"x{number}", address=f"10.0.1.{number}")
        return basic(f"user{number}", "x", address="2001:db8::" + format(number + 1, "x"))

    statuses: Counter[int] = Counter()
    for number in range(120):
        with pytest.raises(HttpError) as caught:
            await mode.identify(guess(number))
        statuses[caught.value.status] += 1
    assert statuses == {401: 100, 429: 20}
    assert len(checks.hashes) == 100
    clock.seconds += 61
    with pytest.raises(HttpError) as caught:
        await mode.identify(guess(1))
    assert caught.value.status == 401


async def test_a_flooding_address_does_not_lock_out_its_other_users(checks: Checks) -> None:
    """The first password of a user is checked although refused, and works from then on."""
    mode, accounts, _ = http_basic()

    async def attempt(user: str, password: str) -> int:
        try:
            await mode.identify(basic(user, password))
        except HttpError as error:
            status = error.status
        else:
            status = 200
        await asyncio.gather(*mode._deferred)
        return status

    for number in range(150):
        await attempt(f"user{number}", "x")
    count = len(checks.hashes)
    assert [await attempt("bob", "builder") for _ in range(2)] == [429, 200]
    assert [await attempt("unknown", "x") for _ in range(2)] == [429, 429]
    assert [await attempt("admin", f"guess{number}") for number in range(5)] == [429] * 5
    assert await attempt("admin", "secret") == 429
    assert checks.hashes[count:] == [
        accounts.accounts[user].password_hash for user in ("bob", "admin")
    ]


async def test_a_busy_address_does_not_lock_out_its_other_users(checks: Checks) -> None:
    """While an address waits for as many checks as it may, a user's first password is checked."""
    mode, _, _ = http_basic()
    flood = [asyncio.create_task(mode.identify(basic(f"u{n}", "x"))) for n in range(200)]
    await asyncio.sleep(0)
    with pytest.raises(HttpError, match="in progress"):
        await mode.identify(basic("bob", "builder"))
    await asyncio.gather(*flood, *mode._deferred, return_exceptions=True)
    assert (await mode.identify(basic("bob", "builder"))).user_id == "bob"


async def test_deferred_checks_are_limited(checks: Checks) -> None:
    """Refused attempts with the names of many users cause 30 checks a minute."""
    mode, accounts, _ = http_basic()
    for number in range(60):
        accounts.accounts[f"known{number}"] = accounts.accounts["bob"]
    for number in range(100):
        with pytest.raises(HttpError):
            await mode.identify(basic(f"user{number}", "x"))
    for number in range(60):
        with pytest.raises(HttpError):
            await mode.identify(basic(f"known{number}", "x"))
        await asyncio.gather(*mode._deferred)
    assert len(checks.hashes) == 130


async def test_a_changed_account_is_forgotten_at_once(checks: Checks) -> None:
    """A removed user is refused immediately."""
    mode, accounts, _ = http_basic()
    await mode.identify(basic("bob", "builder"))
    del accounts.accounts["bob"]
    accounts.generation += 1
    with pytest.raises(HttpError):
        await mode.identify(basic("bob", "builder"))


async def test_equal_headers_at_once_are_checked_once(checks: Checks) -> None:
    """Simultaneous equal headers share one check, which a cancelled call does not end."""
    mode, _, _ = http_basic()
    calls = [asyncio.create_task(mode.identify(basic("bob", "builder"))) for _ in range(10)]
    await asyncio.sleep(0)
    calls[0].cancel()
    found = await asyncio.gather(*calls, return_exceptions=True)
    assert isinstance(found[0], asyncio.CancelledError)
    assert set(found[1:]) == {Identity("bob", "bobs", is_admin=False)}
    assert len(checks.hashes) == 1


async def test_guessing_is_slow(checks: Checks) -> None:
    """After ten wrong guesses for a user from an address, further guesses are not checked."""
    mode, _, clock = http_basic()
    guesses = [mode.identify(basic("bob", f"guess {index}")) for index in range(30)]
    answers = await asyncio.gather(*guesses, return_exceptions=True)
    statuses = [answer.status for answer in answers if isinstance(answer, HttpError)]
    assert sorted(statuses) == [401] * 10 + [429] * 20
    assert len(checks.hashes) == 10
    elsewhere = await mode.identify(basic("bob", "builder", address="10.0.0.2"))
    assert elsewhere.user_id == "bob"
    clock.seconds += 61
    assert (await mode.identify(basic("bob", "builder"))).user_id == "bob"


async def test_a_flood_of_names_is_bounded(checks: Checks) -> None:
    """Calls beyond the limit of waiting checks are answered with 503."""
    mode, _, _ = http_basic(waiting_max=5)
    guesses = [mode.identify(basic(f"user {index}", "x")) for index in range(20)]
    answers = await asyncio.gather(*guesses, return_exceptions=True)
    statuses = [answer.status for answer in answers if isinstance(answer, HttpError)]
    assert sorted(statuses) == [401] * 5 + [503] * 15


async def test_memory_is_bounded(checks: Checks) -> None:
    """Beyond the limit, the verified header that is least recently used is forgotten."""
    mode, accounts, _ = http_basic(remembered_max=2)
    accounts.accounts["eve"] = replace(accounts.accounts["bob"], user="eve")
    for user in ("bob", "eve", "bob"):
        await mode.identify(basic(user, "builder"))
    await mode.identify(basic("admin", "secret"))
    assert len(mode._remembered) == 2
    await mode.identify(basic("bob", "builder"))
    assert len(checks.hashes) == 3
    await mode.identify(basic("eve", "builder"))
    assert len(checks.hashes) == 4


async def test_the_api_asks_for_a_password(make_stack: MakeStack) -> None:
    """The API answers 401 without a password, but its version document is public."""
    mode, _, _ = http_basic()
    stack = await make_stack(auth=mode)
    refused = await stack.ask("GET", "/v2.1/servers")
    assert refused.status == 401
    assert refused.headers["WWW-Authenticate"].startswith("Basic")
    assert refused.body["unauthorized"]["code"] == 401
    header = {"Authorization": basic("bob", "builder").authorization or ""}
    assert (await stack.ask("GET", "/v2.1/servers", headers=header)).status == 200
    assert (await stack.ask("GET", "/v2.1/")).status == 200
    told = repr(stack.told)
    assert "builder" not in told


def test_every_401_has_a_challenge() -> None:
    """Each 401 of the API is created with a WWW-Authenticate header, as RFC 9110 requires."""
    bare: list[str] = []
    found = 0
    for path in sorted(API.rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text())):
            match node:
                case ast.Call(ast.Name("HttpError"), [ast.Constant(401), *more], _):
                    found += 1
                    named = "challenge" in ast.unparse(more[-1]).lower()
                    bare += [] if named else [f"{path.name}:{node.lineno}"]
                case _:
                    pass
    assert found > 10
    assert bare == []
