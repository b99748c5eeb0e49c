"""Access lists of private flavors: actions, lists, and what each project can see and use."""

import pytest

from tests.unit.api.cloud import Answer, Json, Stack

FLAVORS = "/v2.1/flavors"
ALICE = "alice:web"
BOB = "bob:shop"


async def act(
    stack: Stack, action: str, tenant: str = "web", *, version: str = "2.7", flavor: str = "secret"
) -> Answer:
    """Give or withdraw access to a flavor, as an administrator."""
    body = {action: {"tenant": tenant}}
    return await stack.ask("POST", f"{FLAVORS}/{flavor}/action", body, version=version)


async def ids(stack: Stack, query: str = "", token: str | None = None) -> set[str]:
    """Return the ids of the listed flavors."""
    answer = await stack.ask("GET", f"{FLAVORS}/detail{query}", token=token)
    return {one["id"] for one in answer.body["flavors"]}


def lines(*projects: str) -> Json:
    """Return the access list with these projects."""
    return {"flavor_access": [{"flavor_id": "secret", "tenant_id": one} for one in projects]}


@pytest.fixture
async def private(stack: Stack) -> Stack:
    """Return a cloud with the private flavor `secret`."""
    await stack.flavor("secret", **{"os-flavor-access:is_public": False})
    return stack


async def test_access_is_given_and_withdrawn(private: Stack) -> None:
    """Each action returns the whole list; repetitions are a conflict and a 404."""
    path = f"{FLAVORS}/secret/os-flavor-access"
    assert (await private.ask("GET", path)).body == lines()
    assert (await act(private, "addTenantAccess")).body == lines("web")
    assert (await act(private, "addTenantAccess", "shop")).body == lines("shop", "web")
    again = await act(private, "addTenantAccess")
    assert again.status == 409
    assert again.body["conflictingRequest"]["message"] == (
        "Flavor access already exists for flavor secret and project web combination."
    )
    assert (await private.ask("GET", path)).body == lines("shop", "web")
    assert (await act(private, "removeTenantAccess", "shop")).body == lines("web")
    assert (await act(private, "removeTenantAccess", "shop")).status == 404
    for token in (ALICE, BOB):
        assert (await private.ask("GET", path, token=token)).status == 403


async def test_only_projects_with_access_see_and_use_a_private_flavor(private: Stack) -> None:
    """For all others, the flavor does not exist; servers keep it when the access ends."""
    await act(private, "addTenantAccess")
    for token, status, listed in ((ALICE, 200, {"small", "secret"}), (BOB, 404, {"small"})):
        assert (await private.ask("GET", f"{FLAVORS}/secret", token=token)).status == status
        specs = await private.ask("GET", f"{FLAVORS}/secret/os-extra_specs", token=token)
        assert specs.status == status
        assert await ids(private, token=token) == listed
        assert await ids(private, "?is_public=None", token=token) == listed
    uuid = await private.server(token=ALICE, flavorRef="secret")
    body = {"server": {"name": "vm", "flavorRef": "secret", "networks": "none"}}
    refused = await private.ask("POST", "/v2.1/servers", body, version="2.90", token=BOB)
    assert refused.status == 400
    assert "could not be found" in refused.body["badRequest"]["message"]
    await act(private, "removeTenantAccess")
    assert (await private.ask("GET", f"/v2.1/servers/{uuid}", token=ALICE)).status == 200
    assert await ids(private, token=ALICE) == {"small"}


async def test_administrators_list_by_access_too(private: Stack) -> None:
    """Private flavors of the administrator's own project are among the public ones, as in Nova."""
    assert await ids(private) == {"small"}
    assert await ids(private, "?is_public=false") == {"secret"}
    assert await ids(private, "?is_public=none") == {"small", "secret"}
    await act(private, "addTenantAccess", "admin")
    assert await ids(private) == {"small", "secret"}


async def test_a_resize_needs_access(private: Stack) -> None:
    """A server cannot be resized to a private flavor without access."""
    uuid = await private.server(token=BOB)
    await private.activate(uuid)
    body = {"resize": {"flavorRef": "secret"}}
    path = f"/v2.1/servers/{uuid}/action"
    assert (await private.ask("POST", path, body, token=BOB)).status == 400
    await act(private, "addTenantAccess", "shop")
    # With access the flavor is found; it is refused only because it has the same size.
    answer = await private.ask("POST", path, body, token=BOB)
    assert "could not be found" not in str(answer.body)


async def test_a_deleted_flavor_leaves_no_access(private: Stack) -> None:
    """A deleted flavor's access does not apply to a new flavor with the same id."""
    await act(private, "addTenantAccess")
    await private.ask("DELETE", f"{FLAVORS}/secret")
    assert (await act(private, "addTenantAccess", "shop")).status == 404
    assert (await act(private, "removeTenantAccess")).status == 404
    await private.flavor("secret", **{"os-flavor-access:is_public": False})
    assert (await private.ask("GET", f"{FLAVORS}/secret/os-flavor-access")).body == lines()


async def test_public_flavors_have_no_list(stack: Stack) -> None:
    """From 2.7 on, access to a public flavor is a conflict; before, it is stored without effect."""
    assert (await stack.ask("GET", f"{FLAVORS}/small/os-flavor-access")).status == 404
    refused = await act(stack, "addTenantAccess", flavor="small")
    assert refused.status == 409
    assert (await act(stack, "addTenantAccess", flavor="small", version="2.6")).status == 200
    assert (await act(stack, "removeTenantAccess", flavor="small", version="2.6")).status == 200


@pytest.mark.parametrize(
    "body",
    [
        {},
        {"addTenantAccess": {}},
        {"addTenantAccess": {"tenant": ""}},
        {"addTenantAccess": {"tenant": 5}},
        {"addTenantAccess": {"tenant": "x" * 256}},
        {"addTenantAccess": {"tenant": "x", "more": 1}},
        {"addTenantAccess": {"tenant": "x"}, "removeTenantAccess": {"tenant": "x"}},
        {"more": {"tenant": "x"}},
        None,
    ],
)
async def test_malformed_actions_are_refused(private: Stack, body: object) -> None:
    """The response is 400, and nothing changes."""
    path = f"{FLAVORS}/secret/action"
    answer = await private.ask("POST", path, body)
    assert answer.status == 400
    assert (await private.ask("GET", f"{FLAVORS}/secret/os-flavor-access")).body == lines()
