"""Information that a zone does not give its parents."""

from dataclasses import replace

import pytest

from berth.api.auth.authentication import Credentials, Identity, NoAuth
from berth.api.codec import decode, encode
from berth.domain.compute.instance import Fault, Instance, Status
from berth.domain.ledger.write import Put
from berth.services.zoning.messages.zone_messages import OffersMessage
from tests.unit.api.cloud import FakeClock, Json
from tests.unit.api.zones.tree import Net, ZoneStack

UUID = "00000000-0000-4000-8000-00000000beef"
SERVER = f"/v2.1/servers/{UUID}"
REFUSED = "No valid host was found for 1 instance. Of 3 hosts, ResourcesFilter removed 2."


def request(specs: dict[str, str] | None = None, hints: dict[str, list[str]] | None = None) -> Json:
    """Return a request in the form that a parent sends."""
    flavor = {
        "flavor_id": "f",
        "name": "f",
        "vcpus": 1,
        "memory_mb": 64,
        "extra_specs": specs or {},
    }
    tenant = {"project_id": "p", "user_id": "u"}
    return {"request_id": "req-1", "flavor": flavor, "hints": hints or {}, **tenant}


async def built(west: ZoneStack) -> Instance:
    """Build an instance by a parent's order and return it."""
    offers = await west.stated("POST", "/zones/select", encode({"request": request()}))
    blob = decode(encode(offers.body), OffersMessage).weights[0].blob
    one = {"uuid": UUID, "name": "vm", "blob": blob, "sent_ms": 1}
    order = {"request": request(), "reservation_id": "r-00000001", "instances": [one]}
    assert (await west.stated("POST", "/v2.1/servers", encode(order))).status == 202
    stored = await west.ledger.get(Instance, UUID)
    assert stored is not None
    return stored


@pytest.mark.parametrize(
    "asked",
    [
        request({"capabilities:host": "s> m"}),
        request(hints={"build_near_host_ip": ["10.0.0.1"]}),
        request(hints={"query": ['["<", "$hypervisor_hostname", "m"]']}),
    ],
    ids=["flavor", "address", "query"],
)
async def test_which_host_has_a_name(west: ZoneStack, asked: Json) -> None:
    """A request that selects hosts by name gets 400, since its offers would reveal names."""
    answer = await west.stated("POST", "/zones/select", encode({"request": asked}))
    assert answer.status == 400
    assert "selects hosts by name" in answer.body["badRequest"]["message"]


async def test_why_no_host_was_found(west: ZoneStack) -> None:
    """A parent sees only that no host was found; the zone's users see the reason."""
    stored = await built(west)
    fault = Fault(500, REFUSED, 1.0, "host-0: out of memory")
    broken = replace(stored, status=Status.ERROR, task=None, fault=fault)
    await west.ledger.commit([(Put(broken),)])
    told = (await west.stated("GET", SERVER)).body["server"]["fault"]
    assert (told["message"], told.get("details")) == ("No valid host was found.", None)
    own = (await west.ask("GET", SERVER)).body["server"]["fault"]
    assert (own["message"], own["details"]) == (REFUSED, "host-0: out of memory")


async def test_which_filter_removes_a_host(west: ZoneStack) -> None:
    """A parent sees that the host rejects the image, but not which filter did."""
    await built(west)
    image = {"image_id": "arm", "properties": {"hw_architecture": "aarch64"}}
    body = encode({"rebuild": {"image": image}})
    answer = await west.stated("POST", f"{SERVER}/action", body)
    assert answer.status == 409
    assert answer.body["conflictingRequest"]["message"] == (
        "the instance's host rejects the image; rebuild from another image"
    )


async def test_whose_agent_does_not_answer(west: ZoneStack) -> None:
    """The error for an unavailable agent does not name its host."""
    await built(west)
    body = encode({"os-getConsoleOutput": {}})
    answer = await west.stated("POST", f"{SERVER}/action", body)
    assert answer.status == 503
    assert "does not answer" in str(answer.body)
    assert "host-0" not in str(answer.body)


async def test_no_console_is_opened_for_a_parent(west: ZoneStack) -> None:
    """The URL would contain the address of the zone."""
    await built(west)
    body = encode({"os-getVNCConsole": {"type": "novnc"}})
    answer = await west.stated("POST", f"{SERVER}/action", body)
    assert answer.status == 501
    assert "no graphical console" in str(answer.body)


class OfNoProject(NoAuth):
    """An authentication for the account of a parent, which has no project."""

    async def identify(self, credentials: Credentials) -> Identity:
        """See `Auth.identify`."""
        return Identity("root", "", is_admin=False)


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [
        ("GET", "/zones/info", 200),
        ("GET", "/v2.1/servers", 403),
        ("GET", "/v2.1/os-availability-zone", 403),
        ("GET", "/v2.1/limits", 403),
        ("GET", "/berth/v1/capacity?flavor=small", 403),
        ("POST", "/berth/v1/decide", 403),
        ("POST", "/zones/servers", 403),
    ],
)
async def test_what_a_parent_is_told_without_statements(
    method: str, path: str, status: int
) -> None:
    """An account without a project can read /zones/info and nothing of a project."""
    zone = ZoneStack(Net(FakeClock()), "west", number=1, auth=OfNoProject())
    await zone.start(1)
    body = {"server": {"name": "vm", "flavorRef": "small", "networks": "none"}}
    answer = await zone.ask(method, path, body if method == "POST" else None)
    assert answer.status == status, answer.body
    await zone.ledger.close()


async def test_which_zones_are_below(net: Net, root: ZoneStack) -> None:
    """Neither tenants nor parents see the name of a missing child."""
    net.away.add("west")
    uuid = await root.server(token="u:p")
    net.away.add("deep")
    east = net.zones["east"]
    shown = await east.stated("GET", f"/v2.1/servers/{uuid}")
    assert (shown.status, "deep" in str(shown.body)) == (503, False)
    listed = await east.stated("GET", "/v2.1/servers")
    assert (listed.status, listed.headers["x-berth-zones-missing"]) == (200, "east")
    own = await east.ask("GET", "/v2.1/servers", token="u:p")
    assert own.headers["x-berth-zones-missing"] == "some"
