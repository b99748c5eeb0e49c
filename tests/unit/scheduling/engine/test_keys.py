"""Tests that requests which differ in anything that a rule reads have different keys."""

from collections.abc import Hashable
from dataclasses import replace

import pytest

from berth.domain.compute.flavor import Image
from berth.domain.compute.request import Request
from berth.domain.compute.server_group import GroupPolicy, ServerGroup
from berth.scheduling.engine.keys import frozen, parts_of, paths_of
from berth.scheduling.rules.rule import Filter, Query, Reads
from berth.tables.host.feed import table_of
from berth.testing.fleets import NOW_S, Box, asking, resident, snapshot_of

GROUP = ServerGroup("g", "g", GroupPolicy.AFFINITY)
BOX = Box("a")
HOSTS = table_of(
    snapshot_of([BOX], groups=[GROUP], instances=[resident("here", BOX, group_uuid="g")])
)
PLAIN = asking()


def reading(*paths: str) -> Filter:
    """Return a filter that reads these paths and columns."""
    return Filter("X", lambda *_: None, lambda *_: "", lambda *_: (), Reads(paths, ()))


def key_of(path: str, request: Request, group: ServerGroup | None = None) -> Hashable:
    """Return the part of a key for a path."""
    (part,) = parts_of([path])
    query = Query(request, request.needs, NOW_S, group, request.instance_uuids[0])
    return part(HOSTS, query)


@pytest.mark.parametrize(
    ("path", "other"),
    [
        ("availability_zone", replace(PLAIN, availability_zone="az1")),
        ("project_id", replace(PLAIN, project_id="p2")),
        ("flavor.extra_specs", asking(specs={"a": "b"})),
        ("flavor", asking(specs={"a": "b"})),
        ("needs.amounts", asking(specs={"resources:VCPU": "3"})),
        ("needs.traits_required", asking(specs={"trait:X": "required"})),
        ("image.properties", replace(PLAIN, image=Image("i", properties={"os": "x"}))),
        ("image", replace(PLAIN, image=Image("i"))),
        ("hints.same_host", replace(PLAIN, hints={"same_host": ("u",)})),
        ("retried", replace(PLAIN, retried=(("h", "n"),))),
        ("instance_uuid", replace(PLAIN, instance_uuids=("here",))),
    ],
)
def test_what_differs_in_what_is_read_differs_in_the_key(path: str, other: Request) -> None:
    """Requests that differ in a path have different keys; equal ones have equal keys."""
    assert key_of(path, PLAIN) == key_of(path, replace(PLAIN, request_id="other"))
    assert key_of(path, PLAIN) != key_of(path, other)


def test_a_group_and_the_rows_of_its_members_are_parts_of_the_key() -> None:
    """The key of a group has the group, the rows of its members and two flags."""
    assert key_of("group", PLAIN, GROUP) == GROUP
    assert key_of("group_rows", PLAIN, GROUP) == (frozenset({0}), False, False)
    assert key_of("group_rows", PLAIN) is None


def test_a_new_instance_is_like_any_other() -> None:
    """The keys of two instances without a host are equal."""
    assert key_of("instance_uuid", PLAIN) == key_of(
        "instance_uuid", replace(PLAIN, instance_uuids=("new-7",))
    )


def test_paths_that_others_cover_are_left_out() -> None:
    """Paths that a longer path covers, and the time, are left out of a key."""
    rules = [reading("flavor.extra_specs", "now_s"), reading("flavor", "hints.a", "hints.ab")]
    assert paths_of(rules) == ("flavor", "hints.a", "hints.ab")


@pytest.mark.parametrize(
    ("value", "same", "other"),
    [
        ({"a": 1, "b": [1]}, {"b": [1], "a": 1}, {"a": 1, "b": [2]}),
        ([1, 2], (1, 2), [2, 1]),
        (frozenset("ab"), frozenset("ba"), frozenset("a")),
        (Image("i"), Image("i"), Image("j")),
        (None, None, 0),
    ],
)
def test_equal_values_have_equal_frozen_forms(value: object, same: object, other: object) -> None:
    """The order of values matters in sequences, and not in mappings and sets."""
    assert frozen(value) == frozen(same)
    assert frozen(value) != frozen(other)


def test_values_without_a_hashable_form_are_refused() -> None:
    """A value without a hashable form raises TypeError."""
    with pytest.raises(TypeError):
        frozen({1, 2})
