"""State files and request files, and the errors that name the invalid place."""

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec
import pytest

from berth.cli.request_file import read_request
from berth.cli.state_file import read_state
from berth.domain.compute.flavor import Flavor
from berth.domain.compute.request import Request, instance_uuid_of
from berth.domain.compute.server_group import GroupPolicy, ServerGroup
from berth.domain.errors import InvalidInputError
from berth.domain.inventory.resources import AMOUNT_MAX
from berth.domain.ledger.change import Snapshot
from berth.scheduling.plan.planning import seed_of
from berth.testing.builders import make_migration
from berth.testing.fleets import Box, resident, snapshot_of, zone

GROUP = ServerGroup("g1", "group", GroupPolicy.AFFINITY)
STATE = replace(
    snapshot_of(
        [Box("h1", cpu_info={"features": ["avx"], "topology": {"cores": 4}}), Box("h2")],
        aggregates=[zone("az1", "h1")],
        groups=[GROUP],
        instances=[resident("i1", Box("h1"), group_uuid="g1")],
    ),
    migrations=(make_migration(1),),
    flavors=(Flavor("f1", "small", 1, 512, 1), Flavor("small", "other", 9, 9)),
)
INLINE = {"vcpus": 2, "memory_mb": 1024}

Change = Callable[[dict[str, Any]], object]


def write(folder: Path, document: object) -> Path:
    """Write a document, or text and bytes as they are, and return the path."""
    path = folder / "file.json"
    match document:
        case bytes():
            path.write_bytes(document)
        case str():
            path.write_text(document)
        case _:
            path.write_bytes(msgspec.json.encode(document))
    return path


def state_refusal(folder: Path, document: object) -> tuple[str, str]:
    """Return the place and the reason of the error for an invalid state."""
    path = write(folder, document)
    with pytest.raises(InvalidInputError) as caught:
        read_state(path)
    return caught.value.field.removeprefix(str(path)).removeprefix(": "), caught.value.reason


def request_of(folder: Path, document: object) -> Request:
    """Return the request that is read for the state above."""
    return read_request(write(folder, document), STATE)


def request_refusal(folder: Path, document: object) -> tuple[str, str]:
    """Return the place and the reason of the error for an invalid request."""
    path = write(folder, document)
    with pytest.raises(InvalidInputError) as caught:
        read_request(path, STATE)
    return caught.value.field.removeprefix(str(path)).removeprefix(": "), caught.value.reason


def test_a_state_is_read_as_it_was_written(tmp_path: Path) -> None:
    """An exported state is read back unchanged."""
    assert read_state(write(tmp_path, STATE)) == STATE


def test_the_smallest_state(tmp_path: Path) -> None:
    """All fields except `version` and `now_s` are optional."""
    assert read_state(write(tmp_path, {"version": 0, "now_s": 1})) == Snapshot(0, 1.0)


def twice(items: list[Any]) -> None:
    """Repeat the first item of a list."""
    items.append(items[0])


@pytest.mark.parametrize(
    ("change", "where", "reason"),
    [
        (lambda s: s.pop("version"), "", "missing required field `version`"),
        (lambda s: s.update(hots=[]), "hots", "did you mean 'hosts'?"),
        (lambda s: s.update(format="berth-state/2"), "format", "reads 'berth-state/1'"),
        (lambda s: s.update(now_s="now"), "now_s", "Expected `float`"),
        (lambda s: s["hosts"][1].update(nam=1), "hosts[1].nam", "did you mean 'name'?"),
        (lambda s: s["hosts"][0].update(name=1), "hosts[0].name", "Expected `str`"),
        (lambda s: twice(s["hosts"]), "hosts[].uuid", "h1/h1 occurs 2 times"),
        (
            lambda s: s["hosts"].append({**s["hosts"][0], "uuid": "x"}),
            "hosts[].(name, node)",
            "occurs 2 times",
        ),
        (lambda s: twice(s["providers"]), "providers[].uuid", "2 times"),
        (lambda s: twice(s["services"]), "services[].host", "2 times"),
        (lambda s: twice(s["aggregates"]), "aggregates[].aggregate_id", "2 times"),
        (lambda s: twice(s["server_groups"]), "server_groups[].uuid", "2 times"),
        (lambda s: twice(s["flavors"]), "flavors[].flavor_id", "2 times"),
        (lambda s: twice(s["instances"]), "instances[].uuid", "2 times"),
        (lambda s: twice(s["migrations"]), "migrations[].uuid", "2 times"),
        (
            lambda s: s["providers"][1]["inventories"]["VCPU"].update(reserved=-1),
            "providers[1].inventories.VCPU.reserved",
            "-1 must be between 0 and",
        ),
        (
            lambda s: s["providers"][0]["inventories"]["VCPU"].update(allocation_ratio=1e39),
            "providers[0].inventories.VCPU.allocation_ratio",
            "must be between",
        ),
        (
            lambda s: s["providers"][0].update(used={"VCPU": -1}),
            "providers[0].used.VCPU",
            "must be between 0 and 9007199254740991, not -1",
        ),
        (
            lambda s: s["providers"][0].update(used={"VCPU": AMOUNT_MAX + 1}),
            "providers[0].used.VCPU",
            "must be between",
        ),
        (
            lambda s: s["instances"][0]["flavor"].update(vcpus=-1),
            "instances[0].flavor.vcpus",
            "-1 must be between",
        ),
        (
            lambda s: s["instances"][0]["flavor"].update(size=1),
            "instances[0].flavor.size",
            "there is no such field",
        ),
        (
            lambda s: s["server_groups"][0].update(policy="near"),
            "server_groups[0].policy",
            "Invalid enum value 'near'",
        ),
    ],
)
def test_a_wrong_state_is_refused_with_the_path(
    tmp_path: Path, change: Change, where: str, reason: str
) -> None:
    """The error names the path of the first invalid field."""
    document = msgspec.to_builtins(STATE)
    document = json.loads(msgspec.json.encode(document))
    change(document)
    found_where, found_reason = state_refusal(tmp_path, document)
    assert found_where == where
    assert reason in found_reason


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        ("", "is not valid JSON"),
        ('{"version": 1,', "is not valid JSON"),
        (b'{"version": "\xff"}', "is not valid JSON"),
        ("[" * 100_000, "is not valid JSON"),
        ("[]", "Expected `object`, got `array`"),
        ('{"version": 1, "now_s": 1e999}', "is not valid JSON"),
        ('{"version": 1, "now_s": NaN}', "is not valid JSON"),
    ],
)
def test_what_is_no_document_is_refused(tmp_path: Path, content: str | bytes, reason: str) -> None:
    """Invalid JSON, extreme nesting and non-finite numbers raise an error."""
    assert reason in state_refusal(tmp_path, content)[1]


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    """The error has the path of the missing file."""
    with pytest.raises(InvalidInputError, match=r"nowhere\.json: cannot be read"):
        read_state(tmp_path / "nowhere.json")


def test_a_whole_request_is_read_as_it_was_written(tmp_path: Path) -> None:
    """A complete request of the domain is read back unchanged."""
    request = Request(
        request_id="req-1",
        instance_uuids=("a", "b"),
        flavor=STATE.flavors[0],
        project_id="p",
        availability_zone="az1",
        hints={"same_host": ("i1",)},
        group_uuid="g1",
        ignore_hosts=("h2",),
        retried=(("h2", "h2"),),
    )
    assert request_of(tmp_path, request) == request


def test_ids_are_made_from_what_is_there(tmp_path: Path) -> None:
    """Equal documents have equal ids, whatever their layout, and others differ."""
    first = request_of(tmp_path, {"flavor": INLINE, "count": 3})
    again = request_of(tmp_path, json.dumps({"count": 3, "flavor": INLINE}, indent=4))
    other = request_of(tmp_path, {"flavor": INLINE, "count": 2})
    assert first == again
    assert len(first.instance_uuids) == 3
    assert seed_of(first.request_id) != seed_of(other.request_id)


def test_a_named_request_has_the_uuids_that_the_service_gives(tmp_path: Path) -> None:
    """The instance uuids follow from the request id, as in the service."""
    request = request_of(tmp_path, {"flavor": INLINE, "request_id": "req-1", "count": 2})
    assert request.instance_uuids == tuple(instance_uuid_of("req-1", n) for n in range(2))


@pytest.mark.parametrize(("flavor", "vcpus"), [("f1", 1), ("small", 9), ("other", 9), (INLINE, 2)])
def test_a_flavor_is_named_or_written_out(tmp_path: Path, flavor: object, vcpus: int) -> None:
    """A flavor is an id, a name or an object; an id is preferred to a name."""
    assert request_of(tmp_path, {"flavor": flavor}).flavor.vcpus == vcpus


def test_a_hint_may_be_one_word_and_leads_to_the_group(tmp_path: Path) -> None:
    """A hint may be a string or a list, and the hint `group` sets the group."""
    request = request_of(tmp_path, {"flavor": "f1", "hints": {"group": "g1", "x": ["a", "b"]}})
    assert request.hints == {"group": ("g1",), "x": ("a", "b")}
    assert request.group_uuid == "g1"


@pytest.mark.parametrize(
    ("document", "where", "reason"),
    [
        ({}, "", "missing required field `flavor`"),
        ({"flavr": 1}, "flavr", "did you mean 'flavor'?"),
        ({"flavor": "smal"}, "flavor", "did you mean 'small'?"),
        ({"flavor": {"vcpus": 1}}, "flavor", "missing required field `memory_mb`"),
        ({"flavor": {**INLINE, "ram": 1}}, "flavor.ram", "no such field"),
        ({"flavor": {**INLINE, "vcpus": True}}, "flavor.vcpus", "got `bool`"),
        ({"flavor": {**INLINE, "vcpus": -1}}, "flavor.vcpus", "must be between"),
        (
            {"flavor": {**INLINE, "extra_specs": {"trait:X": "maybe"}}},
            "trait:X",
            "must be 'required' or 'forbidden'",
        ),
        ({"flavor": "f1", "count": 0}, "count", "must be between 1 and 10000"),
        ({"flavor": "f1", "count": 10_001}, "count", "must be between 1 and 10000"),
        ({"flavor": "f1", "count": "1"}, "count", "got `str`"),
        ({"flavor": "f1", "count": 2, "instance_uuids": ["a"]}, "count", "omit count"),
        ({"flavor": "f1", "instance_uuids": []}, "instance_uuids", "must have between 1 and"),
        ({"flavor": "f1", "instance_uuids": ["a", "a"]}, "instance_uuids", "more than once"),
        ({"flavor": "f1", "group_uuid": "g2"}, "group_uuid", "no server group"),
        ({"flavor": "f1", "hints": {"group": "g2"}}, "hints.group", "no server group"),
        ({"flavor": "f1", "destination": {"hst": "h1"}}, "destination.hst", "'host'"),
        ({"flavor": "f1", "image": {"image_id": "i", "os": 1}}, "image.os", "no such field"),
        ({"flavor": "f1", "retried": [["h1"]]}, "retried[0]", "length 2"),
        ([], "", "Expected `object`"),
    ],
)
def test_a_wrong_request_is_refused_with_the_path(
    tmp_path: Path, document: object, where: str, reason: str
) -> None:
    """The error names the path of the first invalid field."""
    found_where, found_reason = request_refusal(tmp_path, document)
    assert found_where == where
    assert reason in found_reason
