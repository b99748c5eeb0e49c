"""The APIs with tokens of a Keystone: rights of roles, isolation of projects, and outages."""

from collections.abc import AsyncIterator
from dataclasses import replace

import pytest

from berth.adapters.system import NoMetrics
from berth.api.app import build_app
from berth.api.auth.circuit_breaker import CircuitBreaker
from berth.api.auth.keystone import KeystoneAuth
from berth.api.auth.role_mapping import RoleMapping
from berth.api.placement.routes import PREFIX
from berth.ports.token_validation import TokenServiceDownError, ValidToken
from tests.unit.api.cloud import NOW_S, FakeClock, Stack, Told
from tests.unit.api.placement.service import parts_of

URL = "http://keystone.test/v3"
FLAVOR = {"flavor": {"id": "f", "name": "f", "vcpus": 1, "ram": 64, "disk": 1}}
SERVER = {"server": {"name": "vm", "flavorRef": "f"}}


def _token(roles: str, project: str = "web", *, is_system: bool = False) -> ValidToken:
    return ValidToken("u1", NOW_S + 3600, frozenset(roles.split()), project, is_system=is_system)


class FewTokens:
    """A Keystone that knows one token for each kind of caller."""

    def __init__(self) -> None:
        self.is_down = False
        self.tokens = {
            "admin": _token("admin member reader", "ops"),
            "member": _token("member reader"),
            "reader": _token("reader"),
            "other": _token("member reader", "shop"),
            "auditor": _token("auditor"),
            "service": _token("service", "service"),
            "unscoped": _token("", ""),
            "system": _token("admin member reader", "", is_system=True),
        }

    async def validate(self, token: str, *, allow_expired: bool = False) -> ValidToken | None:
        """See `TokenValidator.validate`."""
        if self.is_down:
            raise TokenServiceDownError("connection refused")
        if token == "expired":
            return self.tokens["member"] if allow_expired else None
        return self.tokens.get(token)


class Cloud:
    """All APIs in the mode `keystone`."""

    def __init__(self, *, system_admins: bool = False) -> None:
        clock = FakeClock()
        self.keystone = FewTokens()
        auth = KeystoneAuth(
            self.keystone,
            RoleMapping(system_admins=system_admins),
            CircuitBreaker(clock, Told()),
            clock,
            NoMetrics(),
            key=b"k" * 32,
            uri=URL,
        )
        self.stack = Stack(auth=auth, clock=clock)
        self.stack.parts = replace(self.stack.parts, keystone_url=URL)
        self.stack.app = build_app(self.stack.parts, parts_of(auth=auth, prefix=PREFIX))

    async def status(self, method: str, path: str, token: str | None, body: object = None) -> int:
        """Send a request and return the status."""
        return (await self.stack.ask(method, path, body, token=token)).status


@pytest.fixture
async def cloud() -> AsyncIterator[Cloud]:
    """Yield a cloud with a flavor `f`."""
    made = Cloud()
    await made.stack.start()
    assert await made.status("POST", "/v2.1/flavors", "admin", FLAVOR) == 200
    yield made
    await made.stack.ledger.close()


@pytest.mark.parametrize(
    ("token", "read", "change", "manage"),
    [
        ("admin", 200, 202, 200),
        ("member", 200, 202, 403),
        ("reader", 200, 403, 403),
        ("auditor", 403, 403, 403),
        ("service", 403, 403, 403),
        ("unscoped", 403, 403, 403),
        ("system", 403, 403, 403),
        ("forged", 401, 401, 401),
        (None, 401, 401, 401),
    ],
)
async def test_roles_decide_what_a_caller_may_do(
    cloud: Cloud, token: str | None, read: int, change: int, manage: int
) -> None:
    """Readers read, members change, and administrators manage; others do nothing."""
    assert await cloud.status("GET", "/v2.1/servers", token) == read
    assert await cloud.status("GET", "/image/v2/images", token) == read
    assert await cloud.status("POST", "/v2.1/servers", token, SERVER) == change
    assert await cloud.status("GET", "/v2.1/os-hypervisors", token) == manage
    assert await cloud.status("GET", "/berth/v1/hosts", token) == manage


@pytest.mark.parametrize(
    ("token", "status"),
    [("admin", 200), ("service", 200), ("member", 403), ("system", 403), (None, 401)],
)
async def test_placement_has_the_roles_of_the_token(
    cloud: Cloud, token: str | None, status: int
) -> None:
    """Services and administrators use the Placement API."""
    assert await cloud.status("GET", "/placement/resource_providers", token) == status


async def test_projects_see_only_their_own_servers(cloud: Cloud) -> None:
    """A member sees and deletes servers of the token's project only; an admin sees all."""
    uuid = await cloud.stack.server(token="member", flavorRef="f")
    path = f"/v2.1/servers/{uuid}"
    shown = await cloud.stack.ask("GET", path, token="reader")
    assert (shown.body["server"]["tenant_id"], shown.body["server"]["user_id"]) == ("web", "u1")
    assert await cloud.status("GET", path, "other") == 404
    assert await cloud.status("DELETE", path, "other") == 404
    assert await cloud.status("DELETE", path, "reader") == 403
    assert await cloud.status("GET", path, "admin") == 200
    assert await cloud.status("DELETE", path, "member") == 204


async def test_the_identity_api_is_keystones(cloud: Cloud) -> None:
    """Berth serves none in this mode, says where it is, and describes none."""
    for path in ("/identity", "/identity/v3", "/identity/v3/auth/tokens"):
        answer = await cloud.stack.ask("POST", path, {}, token="admin")
        assert answer.status == 404
        assert URL in answer.body["error"]["message"]
    document = await cloud.stack.ask("GET", "/openapi.json")
    assert not [path for path in document.body["paths"] if path.startswith("/identity")]
    assert "/v2.1/servers" in document.body["paths"]
    assert await cloud.status("GET", "/nowhere", "admin") == 404


async def test_without_keystone_unknown_tokens_get_503(cloud: Cloud) -> None:
    """Every API responds with 503 and the time to wait, in its own form; known tokens go on."""
    assert await cloud.status("GET", "/v2.1/servers", "member") == 200
    cloud.keystone.is_down = True
    cloud.stack.clock.seconds += 61
    for path in ("/v2.1/servers", "/berth/v1/status", "/image/v2/images", "/placement/traits"):
        answer = await cloud.stack.ask("GET", path, token="other")
        assert (answer.status, answer.headers["retry-after"]) == (503, "5")
    assert await cloud.status("GET", "/v2.1/servers", "member") == 200
    assert await cloud.status("GET", "/v2.1/", None) == 200


async def test_administrators_of_the_system_need_no_project() -> None:
    """With the setting they manage hosts and flavors, but have no servers."""
    cloud = Cloud(system_admins=True)
    await cloud.stack.start()
    assert await cloud.status("POST", "/v2.1/flavors", "system", FLAVOR) == 200
    assert await cloud.status("GET", "/v2.1/os-hypervisors", "system") == 200
    assert await cloud.status("POST", "/v2.1/servers", "system", SERVER) == 403
    assert await cloud.status("GET", "/placement/resource_providers", "system") == 403
    await cloud.stack.ledger.close()


@pytest.mark.parametrize("path", ["/v2.1/servers", "/placement/resource_providers"])
async def test_a_service_continues_the_request_of_a_user(cloud: Cloud, path: str) -> None:
    """Every API reads the header of the service, and grants only the rights of the user."""
    service = {"X-Service-Token": "service"}
    allowed = await cloud.stack.ask("GET", path, token="expired", headers=service)
    as_user = await cloud.stack.ask("GET", path, token="member")
    assert allowed.status == as_user.status != 401
    assert (await cloud.stack.ask("GET", path, token="expired")).status == 401
