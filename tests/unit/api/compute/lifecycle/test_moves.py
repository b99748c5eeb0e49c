"""Resizes, migrations and unshelving over HTTP."""

import pytest

from tests.unit.api.compute.lifecycle.conftest import MakeStaffed
from tests.unit.api.compute.lifecycle.staffed import OWNER, SLOW, Staffed

LARGE = {"flavorRef": "large"}


async def test_a_resize_is_confirmed_by_its_owner(cloud: Staffed) -> None:
    """The resize gets 202 and the confirmation 204; the server has the new size and host."""
    uuid = await cloud.built()
    before = await cloud.host_of(uuid)
    assert (await cloud.act(uuid, "resize", LARGE, token=OWNER)).status == 202
    assert await cloud.states(uuid) == ("RESIZE", "active", 1, "resize_prep")
    await cloud.work()
    assert await cloud.states(uuid) == ("VERIFY_RESIZE", "resized", 1, None)
    answer = await cloud.act(uuid, "confirmResize", token=OWNER)
    assert (answer.status, answer.body) == (204, None)
    await cloud.work()
    server = await cloud.show(uuid)
    assert await cloud.states(uuid) == ("ACTIVE", "active", 1, None)
    assert server["flavor"]["vcpus"] == 4
    assert server["OS-EXT-SRV-ATTR:host"] != before


async def test_a_resize_is_reverted_by_its_owner(cloud: Staffed) -> None:
    """The status is REVERT_RESIZE, and then size and host are as before."""
    uuid = await cloud.built()
    before = await cloud.host_of(uuid)
    await cloud.done(uuid, "resize", LARGE)
    assert (await cloud.act(uuid, "revertResize", token=OWNER)).status == 202
    assert await cloud.states(uuid) == ("REVERT_RESIZE", "resized", 1, "resize_reverting")
    await cloud.work()
    server = await cloud.show(uuid)
    assert (server["status"], server["flavor"]["vcpus"]) == ("ACTIVE", 2)
    assert server["OS-EXT-SRV-ATTR:host"] == before


async def test_each_step_of_a_resize_can_be_seen(make_staffed: MakeStaffed) -> None:
    """The status is RESIZE during the move, and the task names the step."""
    cloud = await make_staffed(faults=SLOW)
    uuid = await cloud.built()
    await cloud.done(uuid, "os-stop")
    await cloud.act(uuid, "resize", LARGE)
    seen: list[tuple[str, str | None]] = []
    for _ in range(10):
        status, _, _, task = await cloud.states(uuid)
        if (status, task) not in seen:
            seen.append((status, task))
        await cloud.work(3.0)
    assert seen == [
        ("RESIZE", "resize_prep"),
        ("RESIZE", "resize_migrating"),
        ("RESIZE", "resize_migrated"),
        ("VERIFY_RESIZE", None),
    ]
    assert (await cloud.done(uuid, "confirmResize"))["status"] == "SHUTOFF"


@pytest.mark.parametrize(
    "args",
    [
        None,
        {},
        {"flavorRef": ""},
        {"flavorRef": "none"},
        {"flavorRef": "small"},
        {"flavorRef": "hidden"},
        {"flavorRef": "tiny"},
        {"flavorRef": "large", "more": 1},
        {"flavorRef": "large", "OS-DCF:diskConfig": "SOME"},
    ],
)
async def test_a_resize_needs_another_flavor(cloud: Staffed, args: object) -> None:
    """A missing, private or equal flavor and a smaller disk are refused."""
    await cloud.flavor("hidden", **{"os-flavor-access:is_public": False})
    await cloud.flavor("tiny", disk=1)
    uuid = await cloud.built()
    answer = await cloud.act(uuid, "resize", args, token=OWNER)
    assert answer.status == 400
    assert (await cloud.states(uuid))[3] is None


async def test_no_resize_takes_an_ephemeral_disk_away(cloud: Staffed) -> None:
    """A flavor with a smaller ephemeral disk or none is refused."""
    disk = "OS-FLV-EXT-DATA:ephemeral"
    await cloud.flavor("roomy", vcpus=4, **{disk: 5})
    await cloud.flavor("less", vcpus=4, **{disk: 4})
    uuid = await cloud.built()
    await cloud.done(uuid, "resize", {"flavorRef": "roomy"})
    await cloud.done(uuid, "confirmResize")
    for flavor in ("less", "large"):
        answer = await cloud.act(uuid, "resize", {"flavorRef": flavor}, token=OWNER)
        assert answer.status == 400
        assert "smaller" in str(answer.body)


async def test_a_resize_that_nobody_has_room_for_changes_nothing(cloud: Staffed) -> None:
    """The resize is accepted, as in Nova, and its failure is in the history."""
    await cloud.flavor("huge", vcpus=1000)
    uuid = await cloud.built()
    server = await cloud.done(uuid, "resize", {"flavorRef": "huge"})
    assert (server["status"], server["flavor"]["vcpus"]) == ("ACTIVE", 2)
    (action, *_) = await cloud.ledger.actions(uuid)
    assert "No valid host" in action.message


async def test_a_migration_is_for_administrators(cloud: Staffed) -> None:
    """An administrator can migrate a server to a named host."""
    uuid = await cloud.built()
    assert (await cloud.act(uuid, "migrate", token=OWNER)).status == 403
    before = await cloud.host_of(uuid)
    wanted = next(f"host-{n}" for n in range(3) if f"host-{n}" != before)
    server = await cloud.done(uuid, "migrate", {"host": wanted})
    assert server["status"] == "VERIFY_RESIZE"
    assert server["OS-EXT-SRV-ATTR:host"] == wanted


@pytest.mark.parametrize(
    ("version", "args", "status"),
    [
        ("2.1", None, 202),
        ("2.55", {"host": "nowhere"}, 202),
        ("2.56", {"host": "nowhere"}, 400),
        ("2.56", {"host": ""}, 400),
        ("2.56", {"host": None}, 202),
        ("2.56", {}, 202),
        ("2.56", {"node": "n"}, 400),
        ("2.56", "host-1", 400),
    ],
)
async def test_what_a_migration_takes(
    cloud: Staffed, version: str, args: object, status: int
) -> None:
    """Before 2.56, arguments are ignored; later ones are validated."""
    uuid = await cloud.built()
    assert (await cloud.act(uuid, "migrate", args, version=version)).status == status


async def test_a_server_cannot_move_to_where_it_is(cloud: Staffed) -> None:
    """A migration to the server's own host gets 400, cold or live."""
    uuid = await cloud.built()
    here = await cloud.host_of(uuid)
    assert (await cloud.act(uuid, "migrate", {"host": here})).status == 400
    live = {"host": here, "block_migration": "auto"}
    assert (await cloud.act(uuid, "os-migrateLive", live)).status == 400


async def test_a_shelved_server_comes_back_where_it_is_told(cloud: Staffed) -> None:
    """Only administrators can name the host of an unshelved server."""
    uuid = await cloud.built()
    await cloud.done(uuid, "shelve")
    assert (await cloud.act(uuid, "unshelve", {"host": "host-2"}, token=OWNER)).status == 403
    assert (await cloud.act(uuid, "unshelve", {"host": "host-2"})).status == 202
    assert (await cloud.states(uuid))[3] == "unshelving"
    await cloud.work()
    server = await cloud.show(uuid)
    assert (server["status"], server["OS-EXT-SRV-ATTR:host"]) == ("ACTIVE", "host-2")


@pytest.mark.parametrize(
    ("version", "args", "status"),
    [
        ("2.76", {"availability_zone": 7}, 202),
        ("2.77", None, 202),
        ("2.77", {}, 400),
        ("2.77", {"availability_zone": None}, 400),
        ("2.77", {"availability_zone": ""}, 400),
        ("2.77", {"availability_zone": "nova"}, 202),
        ("2.90", {"availability_zone": "nova", "host": "host-1"}, 400),
        ("2.91", {}, 202),
        ("2.91", {"availability_zone": None}, 202),
        ("2.91", {"host": "nowhere"}, 400),
        ("2.91", {"host": None}, 400),
        ("2.91", {"availability_zone": "", "host": ""}, 202),
    ],
)
async def test_what_unshelving_takes(
    cloud: Staffed, version: str, args: object, status: int
) -> None:
    """A zone is accepted from 2.77 on, and a host from 2.91 on."""
    uuid = await cloud.built()
    await cloud.done(uuid, "shelve")
    answer = await cloud.act(uuid, "unshelve", args, version=version)
    assert answer.status == status, answer.body


async def test_a_shelved_server_is_not_sent_where_no_host_is(cloud: Staffed) -> None:
    """An unknown zone gets 400; a host outside the zone gets 409 and changes nothing."""
    uuid = await cloud.built()
    await cloud.done(uuid, "shelve")
    for args, status in (
        ({"availability_zone": "nowhere"}, 400),
        ({"availability_zone": "nova", "host": "host-1"}, 202),
    ):
        before = await cloud.show(uuid)
        await _zone(cloud, "east", "host-2")
        wrong = {"availability_zone": "east", "host": "host-1"}
        assert (await cloud.act(uuid, "unshelve", wrong)).status == 409
        assert await cloud.show(uuid) == before
        answer = await cloud.act(uuid, "unshelve", args)
        assert answer.status == status, answer.body


async def _zone(cloud: Staffed, name: str, host: str) -> None:
    """Create an availability zone of one host, unless it exists."""
    body: dict[str, object] = {"aggregate": {"name": name, "availability_zone": name}}
    made = await cloud.ask("POST", "/v2.1/os-aggregates", body)
    if made.status == 200:
        path = f"/v2.1/os-aggregates/{made.body['aggregate']['id']}/action"
        assert (await cloud.ask("POST", path, {"add_host": {"host": host}})).status == 200


async def test_a_server_that_has_not_left_is_not_told_where_to_go(
    make_staffed: MakeStaffed,
) -> None:
    """A shelved server that still has its host gets 409."""
    cloud = await make_staffed(offloads=False)
    uuid = await cloud.built()
    await cloud.done(uuid, "shelve")
    answer = await cloud.act(uuid, "unshelve", {"host": "host-2"})
    assert answer.status == 409
    assert "must be SHELVED_OFFLOADED" in answer.body["conflictingRequest"]["message"]


@pytest.mark.parametrize("action", ["resize", "migrate"])
async def test_nothing_moves_from_a_host_that_is_down(cloud: Staffed, action: str) -> None:
    """A resize and a cold migration need the agent of the source, so they get 409, as in Nova."""
    uuid = await cloud.built()
    host = await cloud.host_of(uuid)
    await cloud.take_down(host)
    args = {"flavorRef": "large"} if action == "resize" else None
    answer = await cloud.act(uuid, action, args)
    assert answer.status == 409
    message = answer.body["conflictingRequest"]["message"]
    assert "its host is down" in message
    assert host not in message
    assert (await cloud.states(uuid))[0] == "ACTIVE"
