"""Berth and a real Keystone: OpenStack's clients, rights, revocation and outages."""

import json
from collections.abc import Iterator
from dataclasses import replace

import httpx
import pytest

from berth.adapters.keystone import KeystoneAccess, KeystoneTokens
from berth.ports.token_validation import TokenServiceDownError
from tests.e2e.clients import clouds
from tests.e2e.clients.programs import Programs
from tests.e2e.keystone.rig import (
    GUIDE,
    GUIDE_BERTH,
    MISSING,
    PASSWORDS,
    PYTHON,
    Cloud,
    running_berth,
    running_keystone,
    wait_past_the_cache,
)
from tests.forks import run_berth

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]

FLAVOR = {"id": "f", "name": "f", "vcpus": 1, "ram": 64, "disk": 1}
SERVERS = "/v2.1/servers"


@pytest.fixture(scope="module")
def cloud(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cloud]:
    """Yield a cloud with the flavor `f`; skip the test if there is no .venv-keystone."""
    if not PYTHON.exists():
        pytest.skip(MISSING)
    with (
        running_keystone(tmp_path_factory.mktemp("keystone")) as keystone,
        running_berth(keystone, tmp_path_factory.mktemp("berth")) as made,
    ):
        admin = keystone.token("admin", "admin")
        assert made.status(admin, "/v2.1/flavors", "POST", {"flavor": FLAVOR}) == 200
        yield made


def _server(name: str) -> dict[str, object]:
    return {"server": {"name": name, "flavorRef": "f", "networks": "none"}}


def test_clients_need_only_the_url_of_keystone(cloud: Cloud) -> None:
    """With the endpoints that the guide creates, `openstack` works as the guide says."""
    if not clouds.PYTHON.exists():
        pytest.skip(clouds.MISSING)
    block = GUIDE.read_text("utf-8").partition("## The catalog")[2].partition("```sh\n")[2]
    commands = block.partition("```")[0].replace(GUIDE_BERTH, cloud.url).splitlines()
    assert len(commands) == 6
    admin, alice = cloud.environment("admin", "admin"), cloud.environment("alice", "web")
    with Programs() as programs:
        for line in commands:
            done = programs.call(line, admin)
            assert done.code == 0, str(done)
        create = (
            "openstack server create --flavor f --image cirros --nic none --wait -f json vm-cli"
        )
        made = programs.call(create, alice).json
        assert made["status"] == "ACTIVE"
        listed = programs.call("openstack server list -f json", alice).json
        assert "vm-cli" in [one["Name"] for one in listed]
        bobs = programs.call("openstack server list -f json", cloud.environment("bob", "shop"))
        assert "vm-cli" not in bobs.out
        own = run_berth("server", "list", "--json", environment=alice)
        assert "vm-cli" in [one["name"] for one in json.loads(own.stdout)["servers"]], own.stderr
        hosts = programs.call("openstack resource provider list -f json", admin)
        assert len(hosts.json) == 2
        refused = programs.call("openstack hypervisor list", alice)
        assert refused.code != 0
        assert "Only administrators" in refused.err


def test_the_berth_command_signs_in_at_keystone(cloud: Cloud) -> None:
    """It uses the variables of OpenStack's clients, and says why Keystone refuses."""
    # Another test creates the catalog, and may run later.
    address = {"OS_COMPUTE_ENDPOINT_OVERRIDE": f"{cloud.url}/v2.1"}
    admin = {**cloud.environment("admin", "admin"), **address}
    done = run_berth("host", "list", "--json", environment=admin)
    assert done.returncode == 0, done.stderr
    assert len(json.loads(done.stdout)["hosts"]) == 2
    alice = {**cloud.environment("alice", "web"), **address}
    done = run_berth("host", "list", environment=alice)
    assert done.returncode == 1
    assert "administrators" in done.stderr
    done = run_berth("host", "list", environment={**alice, "OS_PASSWORD": "wrong"})
    assert done.returncode == 1
    assert "HTTP 401" in done.stderr


def test_roles_and_projects_are_those_of_keystone(cloud: Cloud) -> None:
    """Members change their own project, readers read it, and administrators see everything."""
    tokens = {
        "alice": cloud.keystone.token("alice", "web"),
        "bob": cloud.keystone.token("bob", "shop"),
        "rita": cloud.keystone.token("rita", "web"),
        "admin": cloud.keystone.token("admin", "admin"),
    }
    made = cloud.ask(tokens["alice"], SERVERS, "POST", _server("vm"))
    assert made.status_code == 202, made.text
    path = f"{SERVERS}/{made.json()['server']['id']}"
    reads = {user: cloud.status(token, path) for user, token in tokens.items()}
    assert reads == {"alice": 200, "bob": 404, "rita": 200, "admin": 200}
    assert cloud.status(tokens["rita"], path, "DELETE") == 403
    assert cloud.status(tokens["rita"], SERVERS, "POST", _server("vm")) == 403
    assert cloud.status(tokens["bob"], path, "DELETE") == 404
    assert cloud.status(tokens["alice"], "/v2.1/os-hypervisors") == 403
    assert cloud.status(tokens["alice"], "/placement/resource_providers") == 403
    assert cloud.status(tokens["alice"], "/metrics") == 403
    assert cloud.status(tokens["admin"], "/placement/resource_providers") == 200
    assert cloud.status(tokens["admin"], "/berth/v1/hosts") == 200
    service = cloud.keystone.token("berth", "service")
    assert cloud.status(service, "/placement/resource_providers") == 200
    assert cloud.status(service, SERVERS) == 403
    shown = cloud.ask(tokens["alice"], path).json()["server"]
    who = cloud.keystone.log_in("alice", "web").json()["token"]
    assert (shown["tenant_id"], shown["user_id"]) == (who["project"]["id"], who["user"]["id"])
    assert cloud.status(tokens["alice"], path, "DELETE") == 204


def test_tokens_without_a_project_and_strangers(cloud: Cloud) -> None:
    """Unscoped tokens and system scope have no rights; what is no token is refused."""
    assert cloud.status(cloud.keystone.token("alice"), SERVERS) == 403
    assert cloud.status(cloud.keystone.token("admin", "system"), "/v2.1/os-hypervisors") == 403
    refused = cloud.ask("gAAAAABnot-a-token", SERVERS)
    assert refused.status_code == 401
    assert refused.headers["www-authenticate"] == f'Keystone uri="{cloud.keystone.url}"'
    login = httpx.post(f"{cloud.url}/identity/v3/auth/tokens", json={}, trust_env=False)
    assert login.status_code == 404
    assert cloud.keystone.url in login.text


def test_a_revoked_token_is_refused_after_the_stated_time(cloud: Cloud) -> None:
    """A request more than `keystone.cache_s` after the revocation gets 401."""
    token, other = cloud.keystone.token("bob", "shop"), cloud.keystone.token("bob", "shop")
    assert cloud.status(token, SERVERS) == 200
    cloud.keystone.ask(token, "DELETE", "/auth/tokens", subject=token)
    wait_past_the_cache()
    assert cloud.status(token, SERVERS) == 401
    assert cloud.status(other, SERVERS) == 200


def test_known_tokens_survive_the_absence_of_keystone(cloud: Cloud) -> None:
    """Without Keystone, known tokens work and others get 503, until it is back."""
    admin, known = cloud.keystone.token("admin", "admin"), cloud.keystone.token("alice", "web")
    unknown = cloud.keystone.token("bob", "shop")
    assert (cloud.status(admin, SERVERS), cloud.status(known, SERVERS)) == (200, 200)
    cloud.keystone.stop()
    try:
        wait_past_the_cache()
        for _ in range(3):
            refused = cloud.ask(unknown, SERVERS)
            assert refused.status_code == 503
            assert int(refused.headers["retry-after"]) >= 1
            assert "Keystone" in refused.json()["serviceUnavailable"]["message"]
            assert cloud.status(known, SERVERS) == 200
        made = cloud.ask(known, SERVERS, "POST", _server("during"))
        assert made.status_code == 202
        assert "berth_keystone_up 0.0" in cloud.ask(admin, "/metrics").text
        assert cloud.log.count("keystone_unavailable") == 1
    finally:
        cloud.keystone.start()
    wait_past_the_cache()
    assert cloud.status(unknown, SERVERS) == 200
    assert "keystone_available" in cloud.log
    metrics = cloud.ask(admin, "/metrics").text
    assert "berth_keystone_up 1.0" in metrics
    assert 'berth_tokens_total{outcome="grace"}' in metrics
    for secret in (*PASSWORDS.values(), known, unknown, admin):
        assert secret not in cloud.log


async def test_an_application_credential_validates_tokens(cloud: Cloud) -> None:
    """An application credential of Berth's account is sufficient; a wrong secret is an outage."""
    login = cloud.keystone.log_in("berth", "service")
    token, user_id = login.headers["x-subject-token"], login.json()["token"]["user"]["id"]
    made = cloud.keystone.ask(
        token,
        "POST",
        f"/users/{user_id}/application_credentials",
        {"application_credential": {"name": "berth", "secret": "credential-word"}},
    )["application_credential"]
    access = KeystoneAccess(
        cloud.keystone.url,
        lambda: "credential-word",
        application_credential_id=made["id"],
        timeout_s=60.0,
    )
    tokens = KeystoneTokens(access)
    found = await tokens.validate(cloud.keystone.token("alice", "web"))
    assert found is not None
    assert found.roles == frozenset({"member", "reader"})
    assert await tokens.validate("unknown") is None
    tokens.close()
    wrong = KeystoneTokens(replace(access, read_secret=lambda: "wrong"))
    with pytest.raises(TokenServiceDownError, match="refuses the credentials"):
        await wrong.validate(token)
    wrong.close()
