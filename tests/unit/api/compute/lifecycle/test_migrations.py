"""Migrations over HTTP."""

from typing import Any

import pytest

from tests.unit.api.cloud import Json
from tests.unit.api.compute.lifecycle.conftest import MakeStaffed
from tests.unit.api.compute.lifecycle.staffed import NEWEST, OWNER, SLOW, Staffed

PATH = "/v2.1/os-migrations"
AUTO = {"host": None, "block_migration": "auto"}
FIRST = {
    "id",
    "status",
    "instance_uuid",
    "source_compute",
    "source_node",
    "dest_compute",
    "dest_node",
    "dest_host",
    "old_instance_type_id",
    "new_instance_type_id",
    "created_at",
    "updated_at",
}


async def listed(cloud: Staffed, query: str = "", version: str = NEWEST) -> list[Json]:
    """Return the list of migrations."""
    answer = await cloud.ask("GET", f"{PATH}{query}", version=version)
    assert answer.status == 200, answer.body
    found: list[Json] = answer.body["migrations"]
    return found


async def moved(cloud: Staffed) -> str:
    """Create a server, resize it without confirming, and return its id."""
    uuid = await cloud.built()
    await cloud.done(uuid, "resize", {"flavorRef": "large"})
    return uuid


@pytest.mark.parametrize(
    ("version", "more"),
    [
        ("2.1", set[str]()),
        ("2.23", {"migration_type"}),
        ("2.59", {"migration_type", "uuid"}),
        ("2.80", {"migration_type", "uuid", "user_id", "project_id"}),
    ],
)
async def test_each_microversion_shows_more(cloud: Staffed, version: str, more: set[str]) -> None:
    """Each microversion shows its own fields."""
    uuid = await moved(cloud)
    (found,) = await listed(cloud, version=version)
    assert found.keys() == FIRST | more
    assert (found["instance_uuid"], found["status"]) == (uuid, "finished")
    assert found["dest_compute"] == await cloud.host_of(uuid)
    assert found["dest_host"].startswith("10.0.0.")
    if version == "2.80":
        assert (found["user_id"], found["project_id"]) == ("alice", "web")


async def test_they_are_for_administrators(cloud: Staffed) -> None:
    """Only administrators can see migrations, because they name hosts."""
    uuid = await cloud.built()
    for path in (PATH, f"/v2.1/servers/{uuid}/migrations", f"/v2.1/servers/{uuid}/migrations/1"):
        assert (await cloud.ask("GET", path, version=NEWEST, token=OWNER)).status == 403


async def test_every_filter(cloud: Staffed) -> None:
    """Each filter finds matching migrations only, and is ignored before its microversion."""
    uuid = await moved(cloud)
    (one,) = await listed(cloud)
    await cloud.done(await cloud.built(), "migrate")
    same = {
        "host": one["dest_compute"],
        "source_compute": one["source_compute"],
        "instance_uuid": uuid,
        "status": "finished",
        "migration_type": "resize",
        "user_id": "alice",
        "project_id": "web",
    }
    for name, value in same.items():
        found = await listed(cloud, f"?{name}={value}")
        assert one["id"] in [each["id"] for each in found], name
        assert not await listed(cloud, f"?{name}=none"), name
    assert [each["id"] for each in await listed(cloud, "?migration_type=resize")] == [one["id"]]
    assert len(await listed(cloud, "?project_id=none", "2.79")) == 2
    assert len(await listed(cloud, "?hidden=true&more=1")) == 2


async def test_pages_came_with_2_59(cloud: Staffed) -> None:
    """Pages list newest first with a link to the next one; an unknown marker gets 400."""
    for _ in range(3):
        await moved(cloud)
    everything = await listed(cloud)
    assert [one["id"] for one in everything] == [3, 2, 1]
    answer = await cloud.ask("GET", f"{PATH}?limit=2", version="2.59")
    (link,) = answer.body["migrations_links"]
    assert link["rel"] == "next"
    following = await cloud.ask("GET", link["href"], version="2.59")
    assert [one["id"] for one in following.body["migrations"]] == [1]
    assert "migrations_links" not in following.body
    assert (await cloud.ask("GET", f"{PATH}?marker=x", version="2.59")).status == 400
    assert (await cloud.ask("GET", f"{PATH}?limit=-1", version="2.59")).status == 400
    assert len(await listed(cloud, "?limit=1&marker=x", "2.58")) == 3


EARLY, LATE = "2001-01-01T00:00:00Z", "2100-01-01T00:00:00Z"


@pytest.mark.parametrize(
    ("query", "version", "count"),
    [
        (f"changes-since={EARLY}", "2.59", 1),
        (f"changes-since={LATE}", "2.59", 0),
        (f"changes-since={LATE}", "2.58", 1),
        (f"changes-before={EARLY}", "2.66", 0),
        (f"changes-before={LATE}", "2.66", 1),
        (f"changes-before={EARLY}", "2.65", 1),
    ],
)
async def test_a_period_may_be_asked_for(
    cloud: Staffed, query: str, version: str, count: int
) -> None:
    """The filters apply from 2.59 and 2.66 on and are ignored before."""
    await moved(cloud)
    assert len(await listed(cloud, f"?{query}", version)) == count


@pytest.mark.parametrize(
    "query", ["changes-since=never", f"changes-since={LATE}&changes-before={EARLY}"]
)
async def test_a_period_that_is_none_is_400(cloud: Staffed, query: str) -> None:
    """A period with an invalid time, or one that ends before it begins, is refused."""
    for path in (PATH, f"/v2.1/servers/{await cloud.built()}/os-instance-actions"):
        assert (await cloud.ask("GET", f"{path}?{query}", version="2.66")).status == 400


async def under_way(make_staffed: MakeStaffed, seconds: float = 7.0) -> tuple[Staffed, str, str]:
    """Start a live migration and return the deployment, the server and the migrations' path."""
    cloud = await make_staffed(faults=SLOW)
    uuid = await cloud.built()
    await cloud.act(uuid, "os-migrateLive", AUTO)
    await cloud.work(seconds)
    return cloud, uuid, f"/v2.1/servers/{uuid}/migrations"


@pytest.mark.parametrize(
    ("version", "more"),
    [
        ("2.23", set[str]()),
        ("2.59", {"uuid"}),
        ("2.80", {"uuid", "user_id", "project_id"}),
    ],
)
async def test_a_live_migration_is_seen_while_it_goes_on(
    make_staffed: MakeStaffed, version: str, more: set[str]
) -> None:
    """A running migration is in the server's list and is linked from the list of all."""
    cloud, uuid, path = await under_way(make_staffed)
    (found,) = (await cloud.ask("GET", path, version=version)).body["migrations"]
    assert (found["id"], found["server_uuid"], found["status"]) == (1, uuid, "running")
    assert more <= found.keys()
    assert not ({"uuid", "user_id", "project_id"} - more) & found.keys()
    shown = await cloud.ask("GET", f"{path}/1", version=version)
    assert shown.body["migration"] == found
    (one,) = await listed(cloud, version="2.23")
    assert one["links"][0]["href"].endswith(f"{path}/1")
    await cloud.work()
    assert (await cloud.ask("GET", path, version=version)).body == {"migrations": []}
    assert "links" not in (await listed(cloud))[0]


async def test_there_is_none_before_2_23(cloud: Staffed) -> None:
    """The server's migrations exist from 2.23 on, and cancelling from 2.24 on."""
    path = f"/v2.1/servers/{await cloud.built()}/migrations"
    assert (await cloud.ask("GET", path, version="2.22")).status == 404
    assert (await cloud.ask("GET", path, version="2.23")).status == 200
    assert (await cloud.ask("DELETE", f"{path}/1", version="2.23")).status == 404


async def message_of(cloud: Staffed, path: str) -> str:
    """Return the message of a request that gets 404."""
    answer = await cloud.ask("GET", path, version=NEWEST)
    assert answer.status == 404
    told: Any = answer.body["itemNotFound"]["message"]
    return str(told)


async def test_what_is_not_shown_is_404_in_novas_words(make_staffed: MakeStaffed) -> None:
    """Unknown, ended and cold migrations get 404 with Nova's messages."""
    cloud, uuid, path = await under_way(make_staffed)
    server = f"server {uuid}"
    for key in ("2", "x", "9" * 30):
        told = f"In-progress live migration {key} is not found for {server}."
        assert await message_of(cloud, f"{path}/{key}") == told
    await cloud.work()
    told = f"Live migration 1 for {server} is not in progress."
    assert await message_of(cloud, f"{path}/1") == told
    await cloud.done(uuid, "migrate")
    told = f"Migration 2 for {server} is not live-migration."
    assert await message_of(cloud, f"{path}/2") == told


async def test_a_live_migration_can_be_cancelled(make_staffed: MakeStaffed) -> None:
    """Cancelling keeps the server on its host and is in the history."""
    cloud, uuid, path = await under_way(make_staffed)
    before = await cloud.host_of(uuid)
    assert (await cloud.ask("DELETE", f"{path}/1", version="2.24", token=OWNER)).status == 403
    assert (await cloud.ask("DELETE", f"{path}/1", version="2.24")).status == 202
    await cloud.work()
    assert (await listed(cloud))[0]["status"] == "cancelled"
    assert (await cloud.states(uuid), await cloud.host_of(uuid)) == (
        ("ACTIVE", "active", 1, None),
        before,
    )
    names = [one.name for one in await cloud.ledger.actions(uuid)]
    assert names == ["live_migration_cancel", "live-migration"]


async def test_one_that_is_prepared_can_be_cancelled_from_2_65_on(
    make_staffed: MakeStaffed,
) -> None:
    """Before 2.65, a migration in preparation cannot be cancelled."""
    cloud, uuid, path = await under_way(make_staffed, seconds=3.0)
    answer = await cloud.ask("DELETE", f"{path}/1", version="2.64")
    assert answer.status == 400
    assert answer.body["badRequest"]["message"] == (
        f"Migration 1 state of instance {uuid} is preparing. "
        "Cannot abort live migration while the migration is in this state."
    )
    assert (await cloud.ask("DELETE", f"{path}/1", version="2.65")).status == 202


async def test_what_is_not_there_cannot_be_cancelled(make_staffed: MakeStaffed) -> None:
    """Cancelling an unknown migration gets 404, and 409 if none is in progress."""
    cloud, uuid, path = await under_way(make_staffed)
    answer = await cloud.ask("DELETE", f"{path}/7", version=NEWEST)
    assert answer.status == 404
    told = f"Migration 7 not found for instance {uuid}."
    assert answer.body["itemNotFound"]["message"] == told
    await cloud.work()
    assert (await cloud.ask("DELETE", f"{path}/1", version=NEWEST)).status == 409


async def test_forcing_one_to_its_end_is_501(cloud: Staffed) -> None:
    """Forcing a migration to complete is answered with 501."""
    path = f"/v2.1/servers/{await cloud.built()}/migrations/1/action"
    answer = await cloud.ask("POST", path, {"force_complete": None}, version="2.22")
    assert answer.status == 501
