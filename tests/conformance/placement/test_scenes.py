"""The scenes are consistent, and are created over HTTP in an order that a server accepts."""

import pytest

from tests.conformance.placement.fixtures import (
    FIXTURES,
    FixtureError,
    environment,
    group_of,
    scene_of,
)
from tests.conformance.placement.furnishing import Client, furnish
from tests.conformance.placement.scenes import Node, Scene, Stock, node, uuid_of


class Recorder(Client):
    """A client that records requests and sends nothing."""

    def __init__(self) -> None:
        super().__init__(0)
        self.sent: list[tuple[str, str, object, str]] = []

    def send(self, method: str, path: str, body: object = None, version: str = "1.39") -> object:
        """Record a request and return None."""
        self.sent.append((method, path, body, version))
        return None


@pytest.mark.parametrize("scene", FIXTURES.values(), ids=FIXTURES)
def test_a_scene_is_whole(scene: Scene) -> None:
    """Parents come first, names and uuids are unique, and aggregates and holders are known."""
    names: set[str] = set()
    for one in scene.nodes:
        assert one.parent is None or one.parent in names
        assert one.name not in names
        assert set(one.aggregates) <= set(scene.variables)
        names.add(one.name)
    assert len({one.uuid for one in scene.nodes}) == len(scene.nodes)
    for holder in scene.holders:
        (of,) = [one for one in scene.nodes if one.name == holder.provider]
        assert all(amount <= of.stocks[name].total for name, amount in holder.amounts.items())


@pytest.mark.parametrize("scene", FIXTURES.values(), ids=FIXTURES)
def test_tests_find_their_names_in_the_environment(scene: Scene) -> None:
    """The environment has the variables of the scene's providers and of every scene."""
    names = environment(scene)
    assert all(names.values())
    assert {one.variable for one in scene.nodes if one.variable} <= set(names)
    assert names["CUSTOM_RES_CLASS"] == "CUSTOM_IRON_NFV"


def test_the_same_scene_has_the_same_uuids_in_every_run() -> None:
    """The uuid of a label is fixed, and differs between labels."""
    assert uuid_of("cn1") == "46ecbf0d-d1ac-56a9-941a-75948fee196c"
    assert uuid_of("cn1") != uuid_of("cn2")


def test_an_unknown_fixture_is_an_error() -> None:
    """A fixture without a scene raises FixtureError."""
    with pytest.raises(FixtureError, match="no scene for OtherFixture"):
        scene_of("OtherFixture")


def test_files_are_counted_by_what_their_server_needs() -> None:
    """Files with policy fixtures and with CORS are in groups of their own."""
    groups = {name: group_of(name) for name in FIXTURES}
    assert groups.pop("CORSFixture") == "cors"
    assert {name for name, group in groups.items() if group != "core"} == {
        "LegacyRBACPolicyFixture",
        "SecureRBACPolicyFixture",
        "OpenPolicyFixture",
    }


def test_a_provider_is_made_step_by_step() -> None:
    """Custom names come first, then the provider, aggregates, inventories and traits."""
    client = Recorder()
    disk = Stock(10, reserved=1)
    one = node("host", aggregates="A", traits="CUSTOM_T", VCPU=4, CUSTOM_C=disk)
    furnish(client, Scene(nodes=(one,), variables={"A": "the-aggregate"}))
    path = f"/resource_providers/{one.uuid}"
    assert [sent[:2] for sent in client.sent] == [
        ("PUT", "/resource_classes/CUSTOM_C"),
        ("PUT", "/traits/CUSTOM_T"),
        ("POST", "/resource_providers"),
        ("PUT", f"{path}/aggregates"),
        ("POST", f"{path}/inventories"),
        ("POST", f"{path}/inventories"),
        ("PUT", f"{path}/traits"),
    ]
    assert client.sent[3][2:] == (["the-aggregate"], "1.1")
    assert client.sent[5][2] == {
        "resource_class": "CUSTOM_C",
        "total": 10,
        "reserved": 1,
        "min_unit": 1,
        "max_unit": 10,
        "step_size": 1,
        "allocation_ratio": 1.0,
    }
    assert client.sent[6][2] == {"resource_provider_generation": 2, "traits": ("CUSTOM_T",)}


def test_holders_come_last_and_have_no_type() -> None:
    """Allocations are sent last, with version 1.12, which has no consumer types."""
    client = Recorder()
    furnish(client, FIXTURES["AllocationFixture"])
    assert [sent[0::3] for sent in client.sent[-3:]] == [("PUT", "1.12")] * 3
    uuid = uuid_of("RP_UUID")
    assert client.sent[-1][2] == {
        "allocations": {uuid: {"resources": {"DISK_GB": 20, "VCPU": 1}}},
        "project_id": uuid_of("PROJECT_ID"),
        "user_id": uuid_of("ALT_USER_ID"),
    }


def test_a_provider_without_more_is_only_created() -> None:
    """A provider without inventories, traits and aggregates takes one request."""
    client = Recorder()
    furnish(client, Scene(nodes=(Node("bare", uuid="u"),)))
    assert client.sent == [("POST", "/resource_providers", {"name": "bare", "uuid": "u"}, "1.39")]
