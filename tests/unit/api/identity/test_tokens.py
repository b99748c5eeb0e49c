"""Tokens: issued, shown, revoked, and used."""

from typing import Any

import pytest

from berth.api.placement.policy import caller_of
from tests.unit.api.cloud import Answer
from tests.unit.api.identity.cloud import LIFETIME_S, TOKENS, login, project
from tests.unit.api.identity.conftest import LockedStack


async def test_a_password_gives_a_token(locked: LockedStack) -> None:
    """The token has the user, project, roles, expiry and catalog."""
    answer = await locked.log_in("alice", "wonder", project("web"))
    assert answer.status == 201
    token = answer.body["token"]
    assert token["user"]["name"] == "alice"
    assert token["project"]["id"] == "web"
    assert [role["name"] for role in token["roles"]] == ["member", "reader"]
    assert token["expires_at"] == "2027-01-15T08:10:00.000000Z"
    urls = {entry["type"]: entry["endpoints"][0]["url"] for entry in token["catalog"]}
    assert urls == {
        "compute": "http://berth.test/v2.1",
        "identity": "http://berth.test/identity",
        "image": "http://berth.test/image",
        "placement": "http://berth.test/placement",
    }


async def test_a_token_opens_the_api(locked: LockedStack) -> None:
    """The API accepts tokens and HTTP Basic, and the caller has the rights of the user."""
    admin = {"X-Auth-Token": await locked.token("admin", "secret")}
    flavor = {"id": "small", "name": "small", "vcpus": 1, "ram": 64, "disk": 0}
    await locked.ask("POST", "/v2.1/flavors", {"flavor": flavor}, headers=admin)
    alice = await locked.token("alice", "wonder")
    uuid = await locked.server(token=alice)
    shown = await locked.ask("GET", f"/v2.1/servers/{uuid}", token=alice)
    assert (shown.body["server"]["user_id"], shown.body["server"]["tenant_id"]) == ("alice", "web")
    assert (await locked.ask("GET", "/v2.1/os-services", token=alice)).status == 403
    assert (await locked.ask("GET", "/v2.1/servers", headers=basic())).status == 200
    assert (await locked.ask("GET", "/v2.1/servers")).status == 401
    assert (await locked.ask("GET", "/v2.1/servers", token="admin:admin")).status == 401


def basic() -> dict[str, str]:
    """Return alice's header for HTTP Basic."""
    return {"Authorization": "Basic YWxpY2U6d29uZGVy"}


@pytest.mark.parametrize(
    ("user", "password"),
    [("alice", "wrong"), ("nobody", "wonder"), ("", "x"), ("a\nb", "x"), ("alice", "w" * 4000)],
)
async def test_a_wrong_password_gives_none(locked: LockedStack, user: str, password: str) -> None:
    """An unknown user and a wrong password get the same error, without a token."""
    answer = await locked.log_in(user, password)
    assert answer.status == 401
    assert answer.body["error"]["code"] == 401
    assert answer.body["error"]["title"] == "Unauthorized"
    assert "X-Subject-Token" not in answer.headers


async def test_guessing_is_slow(locked: LockedStack) -> None:
    """After ten wrong passwords, further attempts get 429 for a minute."""
    statuses = [(await locked.log_in("bob", f"guess {number}")).status for number in range(12)]
    assert statuses == [401] * 10 + [429] * 2
    locked.house.clock.seconds += 61
    assert (await locked.log_in("bob", "builder")).status == 201


@pytest.mark.parametrize(
    "scope",
    [
        project("admin"),
        project("web", "other"),
        {"domain": {"id": "default"}},
        {"system": {"all": True}},
        {},
    ],
)
async def test_a_scope_that_the_user_has_not_is_refused(locked: LockedStack, scope: object) -> None:
    """Another project or domain, or a scope that is not a project, gets 401."""
    assert (await locked.log_in("alice", "wonder", scope)).status == 401


async def test_administrators_work_in_every_project(locked: LockedStack) -> None:
    """An administrator can get a token for any existing project."""
    answer = await locked.log_in("admin", "secret", {"project": {"id": "web"}})
    assert answer.body["token"]["project"]["id"] == "web"
    assert [role["name"] for role in answer.body["token"]["roles"]] == ["admin", "member", "reader"]
    assert (await locked.log_in("admin", "secret", project("nope"))).status == 401


@pytest.mark.parametrize("scope", ["unscoped", {"unscoped": {}}])
async def test_a_token_for_no_project_finds_one(locked: LockedStack, scope: object) -> None:
    """An unscoped token can list projects and be exchanged for a scoped one, but opens no API."""
    answer = await locked.log_in("admin", "secret", scope)
    assert not {"project", "roles", "catalog"} & set(answer.body["token"])
    text = answer.headers["X-Subject-Token"]
    assert (await locked.ask("GET", "/v2.1/servers", token=text)).status == 403
    assert (await locked.ask("GET", "/berth/v1/status", token=text)).status == 403
    listed = await locked.ask("GET", "/identity/v3/auth/projects", token=text)
    assert [one["id"] for one in listed.body["projects"]] == ["admin", "web"]
    locked.house.clock.seconds += 60
    wanted = {"identity": {"methods": ["token"], "token": {"id": text}}, "scope": project("web")}
    again = await locked.ask("POST", TOKENS, {"auth": wanted})
    assert again.body["token"]["expires_at"] == answer.body["token"]["expires_at"]
    token = again.headers["X-Subject-Token"]
    assert (await locked.ask("GET", "/v2.1/os-services", token=token)).status == 200


@pytest.mark.parametrize(
    "identity",
    [
        {"methods": ["token"], "token": {"id": "admin:admin"}},
        {"methods": ["token"]},
        {"methods": ["password", "totp"], "password": {"user": {"name": "a", "password": "b"}}},
        {"methods": ["application_credential"]},
    ],
)
async def test_other_methods_are_refused(locked: LockedStack, identity: Any) -> None:  # noqa: ANN401
    """An invalid token, several methods and other methods get 401."""
    answer = await locked.ask("POST", TOKENS, {"auth": {"identity": identity}})
    assert answer.status == 401


@pytest.mark.parametrize("body", [{}, {"auth": {}}, {"auth": {"identity": {"methods": []}}}])
async def test_a_malformed_request_is_told(locked: LockedStack, body: object) -> None:
    """A body without identity or method gets 400."""
    assert (await locked.ask("POST", TOKENS, body)).status == 400


async def test_a_token_ends(locked: LockedStack) -> None:
    """A token is valid until its lifetime has passed."""
    token = await locked.token("alice", "wonder")
    locked.house.clock.seconds += LIFETIME_S - 1
    assert (await locked.ask("GET", "/v2.1/servers", token=token)).status == 200
    locked.house.clock.seconds += 1
    assert (await locked.ask("GET", "/v2.1/servers", token=token)).status == 401


async def test_accounts_count_as_they_are_now(locked: LockedStack) -> None:
    """A changed password or project, or removing the user, invalidates tokens immediately."""
    accounts = locked.house.accounts
    first = await locked.token("alice", "wonder")
    accounts.put("alice", "other")
    assert (await locked.ask("GET", "/v2.1/servers", token=first)).status == 401
    bob = await locked.token("bob", "builder")
    account = accounts.accounts["bob"]
    accounts.accounts["bob"] = account.__class__("bob", account.password_hash, "db")
    accounts.generation += 1
    assert (await locked.ask("GET", "/v2.1/servers", token=bob)).status == 401
    again = await locked.token("alice", "other")
    accounts.remove("alice")
    assert (await locked.ask("GET", "/v2.1/servers", token=again)).status == 401


async def test_a_token_is_shown_and_revoked(locked: LockedStack) -> None:
    """Users can show and revoke their own token, and administrators can show any."""
    admin, alice = await locked.token("admin", "secret"), await locked.token("alice", "wonder")
    bob = await locked.token("bob", "builder")

    async def asked(method: str, subject: str, token: str) -> int:
        answer = await locked.ask(method, TOKENS, token=token, headers={"X-Subject-Token": subject})
        return answer.status

    assert await asked("GET", alice, alice) == 200
    assert await asked("HEAD", alice, admin) == 200
    assert await asked("GET", alice, bob) == 403
    assert await asked("DELETE", alice, bob) == 403
    assert await asked("GET", "nonsense", admin) == 404
    assert (await locked.ask("GET", TOKENS, token=admin)).status == 400
    assert await asked("DELETE", alice, alice) == 204
    assert await asked("GET", alice, admin) == 404
    assert (await locked.ask("GET", "/v2.1/servers", token=alice)).status == 401


async def rescoped(locked: LockedStack, token: str) -> Answer:
    """Exchange a token for another one."""
    wanted = {"identity": {"methods": ["token"], "token": {"id": token}}, "scope": project("web")}
    return await locked.ask("POST", TOKENS, {"auth": wanted})


async def test_revoking_a_token_ends_those_issued_for_it(locked: LockedStack) -> None:
    """Tokens that derive from it end too, however indirectly; those that it derives from do not."""
    first = await locked.log_in("admin", "secret")
    answers = [first]
    for _ in range(3):
        answers.append(await rescoped(locked, answers[-1].headers["X-Subject-Token"]))
    ids = [one.body["token"]["audit_ids"] for one in answers]
    assert [len(one) for one in ids] == [1, 2, 2, 2]
    assert {one[-1] for one in ids} == {ids[0][0]}
    tokens = [one.headers["X-Subject-Token"] for one in answers]
    sibling = (await rescoped(locked, tokens[0])).headers["X-Subject-Token"]

    async def valid() -> list[bool]:
        statuses = [
            (await locked.ask("GET", "/v2.1/servers", token=one)).status
            for one in (*tokens, sibling)
        ]
        return [one == 200 for one in statuses]

    for subject, left in (
        (tokens[1], [True, False, False, False, True]),
        (tokens[0], [False] * 5),
    ):
        headers = {"X-Subject-Token": subject}
        gone = await locked.ask("DELETE", TOKENS, token=tokens[0], headers=headers)
        assert (gone.status, await valid()) == (204, left)


async def test_a_chain_of_tokens_is_limited(locked: LockedStack) -> None:
    """A token derives from 16 others at most, because it names all of them."""
    token = await locked.token("admin", "secret")
    for _ in range(16):
        answer = await rescoped(locked, token)
        assert answer.status == 201
        token = answer.headers["X-Subject-Token"]
    assert (await locked.ask("GET", "/v2.1/servers", token=token)).status == 200
    assert (await rescoped(locked, token)).status == 401


async def test_no_secret_is_told(locked: LockedStack) -> None:
    """The password is not in the telemetry of failed requests."""
    token = await locked.token("alice", "wonder")
    await locked.ask("GET", "/v2.1/servers", token=token[:-1])
    await locked.ask("POST", TOKENS, login("alice", "wonder", {"nonsense": 1}))
    assert locked.told.failures == []
    assert "wonder" not in repr(locked.told)


@pytest.mark.parametrize(
    ("user", "password", "scope", "roles"),
    [
        ("admin", "secret", None, {"admin", "member", "reader"}),
        ("alice", "wonder", None, {"member", "reader"}),
        ("admin", "secret", "unscoped", set()),
    ],
)
async def test_the_placement_api_takes_tokens(
    locked: LockedStack, user: str, password: str, scope: object, roles: set[str]
) -> None:
    """The caller has the roles of the token; an unscoped token has none."""
    token = await locked.token(user, password, scope)
    request = {"headers": [(b"x-auth-token", token.encode())], "client": ("10.0.0.1", 1)}
    caller = await caller_of(locked.house.auth, request)
    assert (caller.user_id, set(caller.roles)) == (user, roles)
