"""Images of servers over HTTP: the actions, the images that they make, and who sees those."""

from collections.abc import Sequence
from dataclasses import replace

import pytest

from berth.adapters.virt.fake import DriverFaults, FakeDriver
from berth.api.app import build_app
from berth.domain.compute.flavor import Image
from berth.domain.compute.instance import Instance
from berth.domain.compute.quota import UNLIMITED, Limits
from berth.domain.compute.server_image import (
    DELETED_KEPT_S,
    UNCLEARED_KEPT_S,
    ImageStatus,
    ServerImage,
)
from berth.domain.compute.step import LEFTOVER_AGE_S
from berth.domain.errors import DriverError
from berth.domain.ledger.record import Kind
from berth.domain.ledger.write import Put, Remove, Write
from berth.services.requests.quotas import QuotaLimits
from berth.services.servers.image_cleanup import ImageCleanup
from berth.services.servers.server_images import ServerImages
from tests.unit.api.cloud import Json
from tests.unit.api.compute.lifecycle.conftest import MakeStaffed
from tests.unit.api.compute.lifecycle.staffed import OTHER, OWNER, Staffed

IMAGE = "/image/v2/images"
PROXY = "/v2.1/images"
BASE = Image("debian", properties={"hw_disk_bus": "scsi", "img_signature": "x"}, min_memory_mb=64)


async def with_base(cloud: Staffed) -> str:
    """Configure an image, and return the id of a server that was created from it."""
    cloud.parts = replace(cloud.parts, images={"debian": BASE})
    cloud.app = build_app(cloud.parts)
    return await cloud.built(imageRef="debian")


async def imaged(cloud: Staffed, uuid: str, name: str = "copy", **more: object) -> str:
    """Create an image of a server, wait until it is complete, and return its id."""
    answer = await cloud.act(uuid, "createImage", {"name": name, **more}, token=OWNER)
    assert answer.status == 202, answer.body
    await cloud.work()
    return str(answer.body["image_id"])


async def backed_up(cloud: Staffed, uuid: str, name: str, kind: str, rotation: object) -> Json:
    """Create a backup of a server, wait until it is complete, and return the response's body."""
    args = {"name": name, "backup_type": kind, "rotation": rotation}
    answer = await cloud.act(uuid, "createBackup", args, token=OWNER)
    assert answer.status == 202, answer.body
    await cloud.work()
    body: Json = answer.body
    return body


async def names(cloud: Staffed, *, token: str = OWNER) -> list[str]:
    """Return the names of the images that a caller sees, without those in the configuration."""
    found = (await cloud.ask("GET", IMAGE, token=token)).body["images"]
    return [one["name"] for one in found if not one["protected"]]


async def test_an_image_of_a_server_is_made_and_shown(cloud: Staffed) -> None:
    """The image inherits the properties of the server's image; both APIs show it and its status."""
    uuid = await with_base(cloud)
    args = {"name": "copy", "metadata": {"kind": "golden"}}
    answer = await cloud.act(uuid, "createImage", args, token=OWNER, version="2.44")
    assert (answer.status, answer.body) == (202, None)
    location = answer.headers["location"]
    path = location[location.index(IMAGE) :]
    key = path.rpartition("/")[2]
    assert await cloud.states(uuid) == ("ACTIVE", "active", 1, "image_snapshot")
    assert (await cloud.ask("GET", path, token=OWNER)).body["status"] == "queued"
    saving = await cloud.ask("GET", f"{PROXY}/{key}", token=OWNER, version="2.1")
    assert (saving.body["image"]["status"], saving.body["image"]["progress"]) == ("SAVING", 25)
    assert (await cloud.act(uuid, "createImage", args, token=OWNER)).status == 409
    refused = {"flavorRef": "small", "imageRef": key, "name": "x", "networks": "none"}
    body = {"server": refused}
    assert (await cloud.ask("POST", "/v2.1/servers", body, token=OWNER)).status == 400
    await cloud.work()
    assert await cloud.states(uuid) == ("ACTIVE", "active", 1, None)
    shown = (await cloud.ask("GET", path, token=OWNER)).body
    wanted = {
        "name": "copy",
        "status": "active",
        "visibility": "private",
        "owner": "web",
        "disk_format": "qcow2",
        "min_ram": 64,
        "image_type": "snapshot",
        "image_location": "snapshot",
        "instance_uuid": uuid,
        "base_image_ref": "debian",
        "user_id": "alice",
        "hw_disk_bus": "scsi",
        "kind": "golden",
    }
    assert {key: shown[key] for key in wanted} == wanted
    instance = await cloud.ledger.get(Instance, uuid)
    assert instance is not None
    assert shown["min_disk"] == instance.flavor.root_gb
    assert "img_signature" not in shown
    tasks = await cloud.ask("GET", f"{path}/tasks", token=OWNER)
    assert (tasks.status, tasks.body) == (200, {"tasks": []})
    assert "new_image" not in instance.extra
    active = await cloud.ask("GET", f"{PROXY}/{key}", token=OWNER, version="2.1")
    image = active.body["image"]
    assert (image["status"], image["progress"], image["server"]["id"]) == ("ACTIVE", 100, uuid)
    listed = await cloud.ask("GET", f"{PROXY}/detail?type=snapshot", token=OWNER, version="2.1")
    assert [one["id"] for one in listed.body["images"]] == [key]
    actions = await cloud.ask("GET", f"/v2.1/servers/{uuid}/os-instance-actions", token=OWNER)
    assert actions.body["instanceActions"][0]["action"] == "createImage"


async def test_servers_boot_from_the_image_of_their_project_only(cloud: Staffed) -> None:
    """The content of the disk is that of the first server; other projects do not find the image."""
    uuid = await cloud.built()
    cloud.machines[await cloud.host_of(uuid)].guests[uuid].disk = "precious"
    key = await imaged(cloud, uuid)
    copy = await cloud.built(imageRef=key)
    assert cloud.machines[await cloud.host_of(copy)].guests[copy].disk == "precious"
    assert (await cloud.act(uuid, "rebuild", {"imageRef": key}, token=OWNER)).status == 202
    await cloud.work()
    assert cloud.machines[await cloud.host_of(uuid)].guests[uuid].disk == "precious"
    assert (await cloud.act(copy, "rescue", {"rescue_image_ref": key}, token=OWNER)).status == 200
    assert await names(cloud) == ["copy"]
    assert await names(cloud, token=OTHER) == []
    for method, path, version in (
        ("GET", f"{IMAGE}/{key}", "2.1"),
        ("DELETE", f"{IMAGE}/{key}", "2.1"),
        ("GET", f"{PROXY}/{key}", "2.1"),
        ("DELETE", f"{PROXY}/{key}", "2.1"),
    ):
        assert (await cloud.ask(method, path, token=OTHER, version=version)).status == 404
    theirs = {"flavorRef": "small", "imageRef": key, "name": "x", "networks": "none"}
    answer = await cloud.ask("POST", "/v2.1/servers", {"server": theirs}, token=OTHER)
    assert answer.status == 400


@pytest.mark.parametrize("path", [IMAGE, PROXY])
async def test_a_deleted_image_leaves_the_storage_and_not_its_servers(
    cloud: Staffed, path: str
) -> None:
    """A server that was created from the image goes on; the data is deleted after the server."""
    uuid = await cloud.built()
    key = await imaged(cloud, uuid)
    copy = await cloud.built(imageRef=key)
    answer = await cloud.ask("DELETE", f"{path}/{key}", token=OWNER, version="2.1")
    assert (answer.status, await names(cloud)) == (204, [])
    assert (await cloud.ask("DELETE", f"{path}/{key}", token=OWNER, version="2.1")).status == 404
    await cloud.work(LEFTOVER_AGE_S + 700)
    assert (await cloud.show(copy))["status"] == "ACTIVE"
    await cloud.ask("DELETE", f"/v2.1/servers/{copy}", token=OWNER)
    await cloud.work(3600.0 + 1300.0)
    assert cloud.network.images == {}


async def test_data_of_an_image_stays_as_long_as_the_image(cloud: Staffed) -> None:
    """The agents do not mistake the data of an image for a leftover."""
    key = await imaged(cloud, await cloud.built())
    await cloud.work(3 * LEFTOVER_AGE_S)
    assert list(cloud.network.images) == [key]


async def test_backups_replace_the_oldest_of_their_type(cloud: Staffed) -> None:
    """Each type has its own backups, and other images of the server never count."""
    uuid = await cloud.built()
    await imaged(cloud, uuid, "kept")
    for name in ("day-1", "day-2", "day-3"):
        await backed_up(cloud, uuid, name, "daily", "2")
        await backed_up(cloud, uuid, f"{name}-w", "weekly", 1)
    assert await names(cloud) == ["day-2", "day-3", "day-3-w", "kept"]
    listed = await cloud.ask("GET", f"{IMAGE}?backup_type=daily&image_type=backup", token=OWNER)
    assert [one["name"] for one in listed.body["images"]] == ["day-2", "day-3"]
    await backed_up(cloud, uuid, "day-4", "daily", 0)
    assert await names(cloud) == ["day-3-w", "kept"]


async def test_backups_of_an_administrator_are_not_rotated_by_the_owner(cloud: Staffed) -> None:
    """Rotation counts only the backups of the caller's project, even those of the same server."""
    uuid = await cloud.built()
    args = {"name": "evidence", "backup_type": "daily", "rotation": 5}
    assert (await cloud.act(uuid, "createBackup", args)).status == 202
    await cloud.work()
    await backed_up(cloud, uuid, "b", "daily", 0)
    images = (await cloud.ask("GET", f"{IMAGE}?image_type=backup")).body["images"]
    assert [one["name"] for one in images] == ["evidence"]


def cleanup_of(cloud: Staffed) -> ImageCleanup:
    """Return the loop of schedulers that removes records."""
    return ImageCleanup(
        ledger=cloud.ledger, replica=cloud.replica, clock=cloud.clock, telemetry=cloud.told
    )


async def age(cloud: Staffed, seconds: float) -> None:
    """Let the records of all images be this old."""
    for image in await cloud.ledger.all(ServerImage):
        aged = replace(image, updated_at_s=cloud.clock.now_s() - seconds)
        await cloud.ledger.commit([(Put(aged),)])
    await cloud.follower.catch_up()


async def records(cloud: Staffed) -> set[str]:
    """Return the names of all images that have a record."""
    return {one.name for one in await cloud.ledger.all(ServerImage)}


async def test_records_of_images_whose_data_is_gone_are_removed(cloud: Staffed) -> None:
    """They are kept for 30 days after the host has deleted the data, with any kind of image."""
    uuid = await cloud.built()
    key = await imaged(cloud, uuid, "gone")
    await imaged(cloud, uuid, "kept")
    await cloud.ask("DELETE", f"{IMAGE}/{key}", token=OWNER)
    await cloud.work(LEFTOVER_AGE_S + 700)
    assert len(cloud.network.images) == 1
    assert await cleanup_of(cloud).clean_up() == 0
    await age(cloud, DELETED_KEPT_S + 1)
    assert await cleanup_of(cloud).clean_up() == 1
    assert await records(cloud) == {"kept"}


async def test_data_in_a_storage_that_was_away_is_deleted(cloud: Staffed) -> None:
    """The record of a deleted image outlives the outage, so that its data is no mystery."""
    key = await imaged(cloud, await cloud.built())
    data = cloud.network.images.pop(key)
    await cloud.ask("DELETE", f"{IMAGE}/{key}", token=OWNER)
    await age(cloud, 2 * DELETED_KEPT_S)
    assert await cleanup_of(cloud).clean_up() == 0
    cloud.network.images[key] = data
    await cloud.work(LEFTOVER_AGE_S + 700)
    assert cloud.network.images == {}
    # Data that never comes back does not keep the record forever.
    await age(cloud, UNCLEARED_KEPT_S + 1)
    await cleanup_of(cloud).clean_up()
    assert await records(cloud) == set()


async def test_an_image_that_no_server_makes_any_more_is_deleted(cloud: Staffed) -> None:
    """Its record would cost a look-up for each list of images, and would never be removed."""
    uuid = await cloud.built()
    assert (await cloud.act(uuid, "createImage", {"name": "x"}, token=OWNER)).status == 202
    await cloud.follower.catch_up()
    assert await cleanup_of(cloud).clean_up() == 0
    # No agent is at work here, as when the host is down.
    assert (await cloud.act(uuid, "os-resetState", {"state": "active"})).status == 202
    assert await cleanup_of(cloud).clean_up() == 1
    (image,) = await cloud.ledger.all(ServerImage)
    assert image.status is ImageStatus.DELETED


async def test_schedulers_that_clean_up_at_once_disturb_no_other_record(cloud: Staffed) -> None:
    """The second one finds the records gone, and still removes those that are left."""
    uuid = await cloud.built()
    for name in ("a", "b"):
        key = await imaged(cloud, uuid, name)
        await cloud.ask("DELETE", f"{IMAGE}/{key}", token=OWNER)
    await age(cloud, UNCLEARED_KEPT_S + 1)
    first, *_ = await cloud.ledger.all(ServerImage)
    await cloud.ledger.commit([(Remove(Kind.SERVER_IMAGE, first.image_id),)])
    assert len(cloud.replica.server_images) == 2
    assert await cleanup_of(cloud).clean_up() == 1
    assert await records(cloud) == set()


async def test_data_stays_while_a_server_needs_it(cloud: Staffed) -> None:
    """A server whose image is deleted can still be moved; without the server the data goes."""
    key = await imaged(cloud, await cloud.built())
    copy = await cloud.built(imageRef=key)
    assert (await cloud.ask("DELETE", f"{IMAGE}/{key}", token=OWNER)).status == 204
    assert await names(cloud) == []
    await cloud.work(LEFTOVER_AGE_S + 700)
    assert list(cloud.network.images) == [key]
    assert (await cloud.act(copy, "rebuild", {"imageRef": key}, token=OWNER)).status == 400
    await age(cloud, UNCLEARED_KEPT_S + 1)
    assert await cleanup_of(cloud).clean_up() == 0
    await cloud.ask("DELETE", f"/v2.1/servers/{copy}", token=OWNER)
    await cloud.work(3600.0 + 1300.0)
    assert cloud.network.images == {}


async def test_a_backup_with_rotation_0_has_no_location(cloud: Staffed) -> None:
    """As in Nova, only the header is missing; from 2.45 on the body has the id."""
    uuid = await cloud.built()
    args = {"name": "b", "backup_type": "daily", "rotation": 0}
    answer = await cloud.act(uuid, "createBackup", args, token=OWNER, version="2.44")
    assert (answer.status, "location" in answer.headers) == (202, False)
    assert await cloud.states(uuid) == ("ACTIVE", "active", 1, "image_backup")
    await cloud.work()
    assert set(await backed_up(cloud, uuid, "b", "daily", 0)) == {"image_id"}


def limited(cloud: Staffed, **limits: int) -> None:
    """Limit the images of every project."""
    images = ServerImages(
        ledger=cloud.ledger,
        follower=cloud.follower,
        replica=cloud.replica,
        clock=cloud.clock,
        quota_limits=QuotaLimits(cloud.replica, Limits(**limits)),
    )
    cloud.parts = replace(cloud.parts, server_images=images)
    cloud.app = build_app(cloud.parts)


async def usage(cloud: Staffed) -> dict[str, tuple[int, int]]:
    """Return the limits on images and their usage, as the Image API shows them."""
    shown = (await cloud.ask("GET", "/image/v2/info/usage", token=OWNER)).body["usage"]
    return {
        name.removeprefix("image_"): (one["limit"], one["usage"]) for name, one in shown.items()
    }


async def test_the_number_of_images_is_limited(cloud: Staffed) -> None:
    """Images of the project count, complete or not; a deletion makes room at once."""
    limited(cloud, images=2, image_gb=UNLIMITED)
    one, two = await cloud.built(), await cloud.built()
    key = await imaged(cloud, one)
    backup = {"name": "b", "backup_type": "daily", "rotation": 1}
    assert (await cloud.act(two, "createBackup", backup, token=OWNER)).status == 202
    for action, args in (("createImage", {"name": "x"}), ("createBackup", backup)):
        answer = await cloud.act(one, action, args, token=OWNER)
        text = "Quota exceeded for image_count_total: Requested 1, but already used 2 of 2"
        assert (answer.status, text in answer.body["forbidden"]["message"]) == (403, True)
    found = await usage(cloud)
    assert (found["count_total"], found["count_uploading"]) == ((2, 2), (-1, 1))
    await cloud.ask("DELETE", f"{IMAGE}/{key}", token=OWNER)
    assert (await cloud.act(one, "createImage", {"name": "x"}, token=OWNER)).status == 202
    # The image of an administrator belongs to the administrator's project.
    await cloud.work()
    assert (await cloud.act(one, "createImage", {"name": "x"})).status == 202


async def test_simultaneous_requests_cannot_exceed_the_number_of_images(cloud: Staffed) -> None:
    """The second request that has counted the same images is counted again, and refused."""
    limited(cloud, images=1, image_gb=UNLIMITED)
    one, two = await cloud.built(), await cloud.built()
    images = cloud.parts.server_images
    admit, rivals = images.admit, [one]

    async def overtaken(project_id: str) -> Sequence[Write]:
        guard = await admit(project_id)
        if rivals:
            uuid = rivals.pop()
            assert (await cloud.act(uuid, "createImage", {"name": "x"}, token=OWNER)).status == 202
        return guard

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(images, "admit", overtaken)
        assert (await cloud.act(two, "createImage", {"name": "x"}, token=OWNER)).status == 403


async def test_the_size_of_images_is_limited(cloud: Staffed) -> None:
    """An image in progress counts with its server's root disk, a complete one with its own size."""
    limited(cloud, images=UNLIMITED, image_gb=1)
    uuid, other = await cloud.built(), await cloud.built()
    instance = await cloud.ledger.get(Instance, uuid)
    assert instance is not None
    root_mb = instance.flavor.root_gb * 1024
    assert root_mb > 1024
    assert (await cloud.act(uuid, "createImage", {"name": "x"}, token=OWNER)).status == 202
    assert (await usage(cloud))["size_total"] == (1024, root_mb)
    answer = await cloud.act(other, "createImage", {"name": "y"}, token=OWNER)
    text = f"Quota exceeded for image_size_total: Requested 1, but already used {root_mb} of 1024"
    assert (answer.status, text in answer.body["forbidden"]["message"]) == (403, True)
    await cloud.work()
    assert (await usage(cloud))["size_total"] == (1024, root_mb // 8)


async def test_no_spelling_of_an_id_opens_the_image_of_another_project(cloud: Staffed) -> None:
    """Where no images are configured, any unknown id is accepted, but none of an image."""
    key = await imaged(cloud, await cloud.built())
    spellings = [key.upper(), key.replace("-", ""), f"{{{key}}}", f"urn:uuid:{key}"]
    body = {"flavorRef": "small", "name": "x", "networks": "none"}
    for ref in spellings:
        theirs = {"server": {**body, "imageRef": ref}}
        assert (await cloud.ask("POST", "/v2.1/servers", theirs, token=OTHER)).status == 400
    copy = await cloud.built(imageRef=spellings[0])
    assert (await cloud.show(copy, token=OWNER))["image"]["id"] == key
    assert (await cloud.ask("GET", f"{IMAGE}/{key.upper()}", token=OWNER)).body["id"] == key
    unknown = "ABCDEF00-0000-4000-8000-000000000000"
    other = await cloud.built(imageRef=unknown)
    assert (await cloud.show(other))["image"]["id"] == unknown.lower()


@pytest.mark.parametrize("action", ["createImage", "createBackup"])
async def test_states_and_locks(cloud: Staffed, action: str) -> None:
    """A paused or locked server has images, as in Nova; a rescued one and one in ERROR do not."""
    uuid = await cloud.built()
    args = {"name": "x"} | (
        {"backup_type": "daily", "rotation": 1} if action == "createBackup" else {}
    )
    assert (await cloud.act(uuid, "lock", token=OWNER)).status == 202
    assert (await cloud.act(uuid, action, args, token=OWNER)).status == 202
    await cloud.work()
    await cloud.act(uuid, "unlock", token=OWNER)
    await cloud.done(uuid, "pause")
    assert (await cloud.act(uuid, action, args, token=OWNER)).status == 202
    await cloud.work()
    assert (await cloud.show(uuid))["status"] == "PAUSED"
    await cloud.done(uuid, "os-resetState", {"state": "error"})
    answer = await cloud.act(uuid, action, args, token=OWNER)
    assert answer.status == 409
    assert f"Cannot '{action}' instance" in answer.body["conflictingRequest"]["message"]
    assert (await cloud.act(uuid, action, args, token=OTHER)).status == 404


@pytest.mark.parametrize(
    ("action", "args"),
    [
        ("createImage", None),
        ("createImage", {}),
        ("createImage", {"name": ""}),
        ("createImage", {"name": "x" * 256}),
        ("createImage", {"name": "x", "metadata": {"": "y"}}),
        ("createImage", {"name": "x", "metadata": {"k" * 256: "y"}}),
        ("createImage", {"name": "x", "metadata": {"k": "v" * 256}}),
        ("createImage", {"name": "x", "more": 1}),
        ("createBackup", {"name": "x", "backup_type": "daily"}),
        ("createBackup", {"name": "x", "backup_type": "daily", "rotation": -1}),
        ("createBackup", {"name": "x", "rotation": 1}),
    ],
)
async def test_malformed_arguments_are_400(cloud: Staffed, action: str, args: object) -> None:
    """Names, keys and values have Nova's limits, and unknown arguments are refused."""
    assert (await cloud.act(await cloud.built(), action, args, token=OWNER)).status == 400


async def test_too_much_metadata_is_403(cloud: Staffed) -> None:
    """The quota of metadata items applies to images too, as in Nova."""
    args = {"name": "x", "metadata": {f"key{n}": "v" for n in range(129)}}
    assert (await cloud.act(await cloud.built(), "createImage", args, token=OWNER)).status == 403


async def test_a_failed_image_is_gone_and_the_server_goes_on(
    cloud: Staffed, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The action says that it has failed; the next image succeeds."""
    uuid = await cloud.built()

    async def fail(*_: object) -> None:
        raise DriverError("no space left")

    with monkeypatch.context() as patch:
        patch.setattr(FakeDriver, "store_image", fail)
        key = await imaged(cloud, uuid)
    assert await cloud.states(uuid) == ("ACTIVE", "active", 1, None)
    assert await names(cloud) == []
    assert (await cloud.ask("GET", f"{IMAGE}/{key}", token=OWNER)).status == 404
    path = f"/v2.1/servers/{uuid}/os-instance-actions"
    newest = (await cloud.ask("GET", path, token=OWNER)).body["instanceActions"][0]
    assert (newest["action"], newest["message"]) == ("createImage", "Error")
    await imaged(cloud, uuid, "again")
    assert await names(cloud) == ["again"]


@pytest.fixture
async def slow(make_staffed: MakeStaffed) -> Staffed:
    """Return a deployment where the copy of a disk takes an hour."""
    return await make_staffed(faults=DriverFaults(delay_s={"store_image": 3_600.0}))


async def test_a_deleted_image_ends_the_task(slow: Staffed) -> None:
    """The image is gone immediately, and the server keeps its status."""
    uuid = await slow.built()
    key = await imaged(slow, uuid)
    assert await names(slow) == ["copy"]
    assert (await slow.ask("DELETE", f"{IMAGE}/{key}", token=OWNER)).status == 204
    assert await names(slow) == []
    await slow.work(60)
    assert await slow.states(uuid) == ("ACTIVE", "active", 1, None)
    assert await names(slow) == []
    await slow.work(LEFTOVER_AGE_S + 700)
    assert slow.network.images == {}
    # The agent has said that nothing remains, so the record need not wait for the data.
    (image,) = await slow.ledger.all(ServerImage)
    assert (image.status, image.is_cleared) == (ImageStatus.DELETED, True)


async def test_a_deleted_server_does_not_wait_for_its_image(slow: Staffed) -> None:
    """The copy is cancelled and the image is gone; its record stays for some time only."""
    uuid = await slow.built()
    key = await imaged(slow, uuid)
    assert (await slow.ask("DELETE", f"/v2.1/servers/{uuid}", token=OWNER)).status == 204
    await slow.work(60)
    assert (await slow.ask("GET", f"/v2.1/servers/{uuid}", token=OWNER)).status == 404
    assert (await names(slow), slow.network.images) == ([], {})
    record = await slow.ledger.get(ServerImage, key)
    assert record is not None
    old = replace(record, updated_at_s=record.updated_at_s - DELETED_KEPT_S)
    await slow.ledger.commit([(Put(old),)])
    await slow.follower.catch_up()
    assert await cleanup_of(slow).clean_up() == 1
    assert await slow.ledger.get(ServerImage, key) is None


async def test_a_reset_of_the_state_ends_the_image(slow: Staffed) -> None:
    """An administrator frees the server; the unfinished image is gone."""
    uuid = await slow.built()
    await imaged(slow, uuid)
    await slow.done(uuid, "os-resetState", {"state": "active"})
    assert await slow.states(uuid) == ("ACTIVE", "active", 1, None)
    assert (await names(slow), slow.network.images) == ([], {})
