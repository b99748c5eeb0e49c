"""Users, projects and the catalog in the identity API, and its version documents."""

from dataclasses import replace

import pytest

from berth.api.app import build_app
from berth.api.auth.directory import OpenDirectory
from berth.api.auth.tokens import NamedTokens
from tests.unit.api.cloud import Stack
from tests.unit.api.conftest import MakeStack
from tests.unit.api.identity.cloud import TOKENS, login, project
from tests.unit.api.identity.conftest import LockedStack

V3 = "/identity/v3"


@pytest.mark.parametrize("path", ["/identity", "/identity/"])
async def test_versions_are_public(locked: LockedStack, path: str) -> None:
    """The version documents need no token, and their links use the forwarded address."""
    headers = {"X-Forwarded-Host": "cloud.example", "X-Forwarded-Proto": "https"}
    answer = await locked.ask("GET", path, headers=headers)
    assert answer.status == 300
    (version,) = answer.body["versions"]["values"]
    assert version["id"].startswith("v3.")
    assert version["links"][0]["href"] == "https://cloud.example/identity/v3/"
    assert (await locked.ask("GET", V3)).body["version"]["id"] == version["id"]


@pytest.mark.parametrize(
    ("path", "key", "ids"),
    [
        ("users", "users", ["admin", "alice", "bob"]),
        ("users?name=bob", "users", ["bob"]),
        ("users?name=eve", "users", []),
        ("projects", "projects", ["admin", "web"]),
        ("projects?name=web", "projects", ["web"]),
        ("projects?name=db", "projects", []),
        ("users/alice/projects", "projects", ["web"]),
        ("auth/projects", "projects", ["admin", "web"]),
        ("domains", "domains", ["default"]),
        ("domains?name=Default", "domains", ["default"]),
        ("domains?name=other", "domains", []),
        ("roles", "roles", ["admin", "member", "reader"]),
        ("roles?name=reader", "roles", ["reader"]),
        ("regions", "regions", ["RegionOne"]),
    ],
)
async def test_lists(locked: LockedStack, path: str, key: str, ids: list[str]) -> None:
    """Administrators can list all records of each kind, filtered by name."""
    token = await locked.token("admin", "secret")
    answer = await locked.ask("GET", f"{V3}/{path}", token=token)
    assert answer.status == 200
    assert [one["id"] for one in answer.body[key]] == ids
    assert answer.body["links"]["self"].startswith("http://berth.test/identity/v3/")


@pytest.mark.parametrize(
    ("path", "status"),
    [
        ("users/alice", 200),
        ("users/bob", 403),
        ("users/eve", 403),
        ("users", 403),
        ("users/alice/projects", 200),
        ("users/bob/projects", 403),
        ("projects/web", 200),
        ("projects/admin", 403),
        ("projects", 403),
        ("auth/projects", 200),
        ("auth/catalog", 200),
        ("domains/default", 200),
        ("domains/other", 404),
        ("roles/member", 200),
        ("roles/owner", 404),
        ("regions/RegionOne", 200),
        ("regions/other", 404),
        ("services", 200),
        ("services/compute", 404),
        ("endpoints", 200),
        ("endpoints/compute", 404),
        ("groups", 404),
    ],
)
async def test_others_find_themselves_alone(locked: LockedStack, path: str, status: int) -> None:
    """Other users see only themselves and their project; the rest gets 403."""
    token = await locked.token("alice", "wonder")
    answer = await locked.ask("GET", f"{V3}/{path}", token=token)
    assert answer.status == status
    assert (await locked.ask("GET", f"{V3}/{path}")).status in {401, 404}
    if status != 200:
        assert answer.body["error"]["code"] == status


@pytest.mark.parametrize("path", ["users/eve", "projects/db"])
async def test_what_is_not_there_is_404(locked: LockedStack, path: str) -> None:
    """Administrators get 404 for an unknown user or project."""
    token = await locked.token("admin", "secret")
    assert (await locked.ask("GET", f"{V3}/{path}", token=token)).status == 404


@pytest.mark.parametrize("path", ["users", "projects"])
async def test_nothing_can_be_made(locked: LockedStack, path: str) -> None:
    """A creation gets 403, and the message names `berth user add`."""
    token = await locked.token("admin", "secret")
    answer = await locked.ask("POST", f"{V3}/{path}", {}, token=token)
    assert answer.status == 403
    assert "berth user add" in answer.body["error"]["message"]


async def test_without_authentication_any_password_is_right(stack: Stack) -> None:
    """Without authentication, the token is the names of the user and the project."""
    tokens = NamedTokens(OpenDirectory(), stack.clock, lifetime_s=60)
    stack.app = build_app(replace(stack.parts, tokens=tokens))
    answer = await stack.ask("POST", TOKENS, login("bob", "anything", project("db")))
    assert answer.status == 401  # bob is not an administrator, so he has only the project named bob
    answer = await stack.ask("POST", TOKENS, login("bob", "anything"))
    assert answer.headers["X-Subject-Token"] == "bob:bob"
    answer = await stack.ask("POST", TOKENS, login("admin", "anything", project("db")))
    token = answer.headers["X-Subject-Token"]
    assert token == "admin:db"
    headers = {"X-Subject-Token": token}
    assert (await stack.ask("GET", TOKENS, token=token, headers=headers)).status == 200
    assert (await stack.ask("DELETE", TOKENS, token=token, headers=headers)).status == 403
    assert (await stack.ask("POST", TOKENS, login("a:b", "anything"))).status == 401
    shown = await stack.ask("GET", f"{V3}/projects/any", token=token)
    assert shown.body["project"]["name"] == "any"


async def test_where_there_are_no_tokens_that_is_said(make_stack: MakeStack) -> None:
    """In the mode http_basic, a request for a token gets 403 and names the setting."""
    stack = await make_stack()
    answer = await stack.ask("POST", TOKENS, login("admin", "secret"))
    assert answer.status == 403
    assert "auth.mode" in answer.body["error"]["message"]


@pytest.mark.parametrize(
    ("query", "types"),
    [
        ("type=compute", ["compute"]),
        ("name=nova", ["compute"]),
        ("name=glance&type=compute", []),
        ("type=network", []),
    ],
)
async def test_services_are_found(locked: LockedStack, query: str, types: list[str]) -> None:
    """Services are filtered by name and type."""
    token = await locked.token("admin", "secret")
    answer = await locked.ask("GET", f"{V3}/services?{query}", token=token)
    assert [one["type"] for one in answer.body["services"]] == types


async def test_endpoints_are_found(locked: LockedStack) -> None:
    """Endpoints are filtered by service, interface and region, and shown by id."""
    token = await locked.token("admin", "secret")
    services = (await locked.ask("GET", f"{V3}/services?type=image", token=token)).body["services"]
    shown = await locked.ask("GET", f"{V3}/services/{services[0]['id']}", token=token)
    assert shown.body == {"service": services[0]}
    of_images = f"{V3}/endpoints?service_id={services[0]['id']}"
    assert len((await locked.ask("GET", of_images, token=token)).body["endpoints"]) == 3
    elsewhere = await locked.ask("GET", f"{of_images}&region_id=moon", token=token)
    assert elsewhere.body["endpoints"] == []
    answer = await locked.ask("GET", f"{of_images}&interface=public", token=token)
    (endpoint,) = answer.body["endpoints"]
    assert endpoint["url"] == "http://berth.test/image"
    shown = await locked.ask("GET", f"{V3}/endpoints/{endpoint['id']}", token=token)
    assert shown.body == {"endpoint": endpoint}
