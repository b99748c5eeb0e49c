"""Actions on servers in child zones that name a flavor or an image of this zone."""

import json

import pytest

from berth.domain.compute.instance import Instance, Task
from berth.domain.compute.rescue import rescue_image_of
from berth.domain.ledger.record import PendingRequest
from tests.unit.api.cloud import Json
from tests.unit.api.zones.tree import Net, ZoneStack

IMAGE = "11111111-2222-4333-8444-555555555555"
# About 3 MB, within the limit of a body from a parent.
HUGE = {f"k{number}": "v" * 60_000 for number in range(50)}
KEY = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIJJSzOmi6xAM4Hjj0uS9AKo6V2WxyIHpyOhL4GJ0EpH1"


@pytest.fixture
async def far(net: Net, root: ZoneStack, deep: ZoneStack) -> str:
    """Create a server two zones below the root, with a different flavor `big` in each zone."""
    for zone, vcpus in ((root, 4), (net.zones["east"], 5), (deep, 6)):
        await zone.flavor("big", vcpus=vcpus)
    await deep.flavor("theirs", vcpus=7)
    net.away.add("west")
    uuid = await root.server(token="u:p")
    net.away.clear()
    await deep.activate(uuid)
    net.seen.clear()
    return uuid


async def act(zone: ZoneStack, uuid: str, action: Json, *, version: str = "2.26") -> int:
    """Request an action and return the status."""
    path = f"/v2.1/servers/{uuid}/action"
    return (await zone.ask("POST", path, action, token="u:p", version=version)).status


async def test_a_resize_is_to_the_flavor_of_the_zone_that_was_asked(
    net: Net, root: ZoneStack, deep: ZoneStack, far: str
) -> None:
    """The flavor is that of the root, not one of the same name in the children."""
    assert await act(root, far, {"resize": {"flavorRef": "big"}}) == 202
    (pending,) = await deep.ledger.all(PendingRequest)
    assert (pending.request.flavor.flavor_id, pending.request.flavor.vcpus) == ("big", 4)
    assert [one.zone for one in net.seen] == ["east", "deep"]


async def test_a_flavor_that_only_a_child_has(net: Net, root: ZoneStack, far: str) -> None:
    """An unknown flavor gets 400, and no child is asked."""
    assert await act(root, far, {"resize": {"flavorRef": "theirs"}}) == 400
    assert await act(root, far, {"resize": {"flavorRef": "big", "flavor": {}}}) == 400
    assert not net.seen


async def test_a_private_flavor(net: Net, root: ZoneStack, far: str) -> None:
    """A private flavor gets 400 for a tenant, and no child is asked."""
    await root.flavor("private", vcpus=3, **{"os-flavor-access:is_public": False})
    assert await act(root, far, {"resize": {"flavorRef": "private"}}) == 400
    assert not net.seen


async def test_a_flavor_that_names_hosts_goes_nowhere(net: Net, root: ZoneStack, far: str) -> None:
    """A flavor that selects hosts by name gets 400, and no child is asked."""
    await root.flavor("spy", vcpus=4)
    specs = {"extra_specs": {"capabilities:host": "host-1"}}
    answer = await root.ask("POST", "/v2.1/flavors/spy/os-extra_specs", specs)
    assert answer.status == 200
    assert await act(root, far, {"resize": {"flavorRef": "spy"}}) == 400
    assert not net.seen


async def test_a_rebuild_is_of_the_image_of_the_zone_that_was_asked(
    root: ZoneStack, deep: ZoneStack, far: str
) -> None:
    """The child gets the image, the name and the metadata of the rebuild."""
    rebuild = {"imageRef": IMAGE, "name": "new", "metadata": {"a": "b"}}
    assert await act(root, far, {"rebuild": rebuild}) == 202
    stored = await deep.ledger.get(Instance, far)
    assert stored is not None
    assert stored.image is not None
    assert (stored.image.image_id, stored.name, stored.task) == (IMAGE, "new", Task.REBUILDING)
    assert stored.metadata == {"a": "b"}


KEY_PAIR = {"name": "mine", "type": "ssh", "public_key": "ssh-ed25519 AAAA"}
FLAVOR = {"flavor_id": "big", "name": "big", "vcpus": 3, "memory_mb": 4096, "root_gb": 20}


async def test_a_key_pair_is_that_of_the_zone_that_was_asked(
    net: Net, root: ZoneStack, deep: ZoneStack
) -> None:
    """Creates and rebuilds bring the key itself to the child, which does not know the key pair."""
    for name, key in (("one", KEY), ("two", f"{KEY} other")):
        body = {"keypair": {"name": name, "public_key": key}}
        answer = await root.ask("POST", "/v2.1/os-keypairs", body, token="u:p")
        assert answer.status == 200
    net.away.add("west")
    uuid = await root.server(token="u:p", key_name="one")
    net.away.clear()
    await deep.activate(uuid)
    stored = await deep.ledger.get(Instance, uuid)
    assert stored is not None
    assert stored.extra == {
        "key_name": "one",
        "key_type": "ssh",
        "key_data": KEY,
        "has_config_drive": True,
        "networks": "none",
    }
    missing = {"rebuild": {"imageRef": IMAGE, "key_name": "three"}}
    assert await act(root, uuid, missing, version="2.54") == 400
    rebuild = {"rebuild": {"imageRef": IMAGE, "key_name": "two"}}
    assert await act(root, uuid, rebuild, version="2.54") == 202
    stored = await deep.ledger.get(Instance, uuid)
    assert stored is not None
    assert (stored.extra["key_name"], stored.extra["key_data"]) == ("two", f"{KEY} other")
    # A tenant of the child must name a key pair and cannot send its own.
    own = {"rebuild": {"imageRef": IMAGE, "key_pair": KEY_PAIR}}
    assert await act(deep, uuid, own, version="2.54") == 400


async def test_files_reach_servers_in_child_zones(
    net: Net, root: ZoneStack, deep: ZoneStack
) -> None:
    """Creates and rebuilds pass the files on to the child."""
    first, second = ([{"path": path, "contents": "YQ=="}] for path in ("/a", "/b"))
    net.away.add("west")
    body = {"server": {"name": "vm", "flavorRef": "small", "personality": first}}
    answer = await root.ask("POST", "/v2.1/servers", body, version="2.36", token="u:p")
    assert answer.status == 202, answer.body
    uuid = str(answer.body["server"]["id"])
    net.away.clear()
    await deep.activate(uuid)
    stored = await deep.ledger.get(Instance, uuid)
    assert stored is not None
    assert stored.extra == {"files": first, "has_config_drive": True}
    rebuild = {"rebuild": {"imageRef": IMAGE, "personality": second}}
    assert await act(root, uuid, rebuild, version="2.54") == 202
    stored = await deep.ledger.get(Instance, uuid)
    assert stored is not None
    assert stored.extra["files"] == second


@pytest.mark.parametrize(
    "action",
    [
        {"resize": {"flavorRef": "big"}},
        {"resize": None},
        {"resize": {"flavor": "big"}},
        {"resize": {"flavor": {**FLAVOR, "vcpus": -1}}},
        {"resize": {"flavor": {**FLAVOR, "flavor_id": "b\ng"}}},
        {"resize": {"flavor": {**FLAVOR, "extra_specs": {"capabilities:host": "h"}}}},
        {"resize": {"flavor": FLAVOR, "force": True}},
        {"resize": {"flavor": {**FLAVOR, "extra_specs": HUGE}}},
        {"resize": {"flavor": {**FLAVOR, "name": "n" * 256}}},
        {"rebuild": {"image": {"image_id": IMAGE, "properties": HUGE}}},
        {"rescue": {"image": {"image_id": IMAGE, "properties": HUGE}}},
        {"rebuild": {"imageRef": IMAGE}},
        {"rebuild": {"image": IMAGE}},
        {"rebuild": {"image": {"image_id": "a\nb"}}},
        {"rebuild": {"image": {"image_id": IMAGE}, "key_pair": "mine"}},
        {"rebuild": {"image": {"image_id": IMAGE}, "key_pair": {"name": "mine"}}},
        {"rebuild": {"image": {"image_id": IMAGE}, "key_pair": {**KEY_PAIR, "type": "gpg"}}},
    ],
)
@pytest.mark.parametrize("name", ["east", "deep"])
async def test_a_parent_says_what_it_means(net: Net, far: str, name: str, action: Json) -> None:
    """A parent must send complete, valid flavors and images; names get 400."""
    body = json.dumps(action).encode()
    path = f"/v2.1/servers/{far}/action"
    parent = "root" if name == "east" else "east"
    answer = await net.zones[name].stated("POST", path, body, parent=parent)
    assert answer.status == 400, answer.body
    assert not net.seen
    assert await net.zones["deep"].ledger.all(PendingRequest) == []


async def test_nobody_but_a_parent_says_what_a_flavor_is(deep: ZoneStack, far: str) -> None:
    """A tenant of the zone must name a flavor or an image and cannot send its own."""
    assert await act(deep, far, {"resize": {"flavor": FLAVOR}}) == 400
    assert await act(deep, far, {"rebuild": {"image": {"image_id": IMAGE}}}) == 400
    assert await act(deep, far, {"resize": {"flavorRef": "big"}}) == 202
    (pending,) = await deep.ledger.all(PendingRequest)
    assert pending.request.flavor.vcpus == 6


async def test_a_rescue_is_from_the_image_of_the_zone_that_was_asked(
    net: Net, root: ZoneStack, deep: ZoneStack, far: str
) -> None:
    """The child gets the image itself; without one, it uses the image of the server."""
    answer = await root.ask(
        "POST", f"/v2.1/servers/{far}/action", {"rescue": {"rescue_image_ref": IMAGE}}, token="u:p"
    )
    assert answer.status == 200, answer.body
    stored = await deep.ledger.get(Instance, far)
    assert stored is not None
    assert (stored.task, rescue_image_of(stored)) == (Task.RESCUING, IMAGE)
    body = {"rescue": {"rescue_image_ref": "x", "image": {}}}
    net.seen.clear()
    assert await act(root, far, body) == 400
    assert not net.seen
