"""Tests for hosts that aggregates reserve for projects, flavors and images."""

from dataclasses import replace

import pytest

from berth.domain.compute.aggregate import Aggregate
from berth.domain.compute.flavor import Flavor, Image
from berth.domain.compute.request import Request
from berth.scheduling.filters import aggregate_isolation
from berth.testing.fleets import Box, asking, snapshot_of
from tests.unit.scheduling.conftest import Ask

PROJECTS = aggregate_isolation.build_project()


def aggregate(number: int, hosts: str, **metadata: str) -> Aggregate:
    """Return an aggregate of hosts with names of one letter."""
    return Aggregate(number, f"u{number}", f"n{number}", frozenset(hosts), metadata)


PROJECT_FLEET = snapshot_of(
    [Box("a"), Box("b"), Box("c"), Box("d")],
    aggregates=[
        aggregate(1, "ab", filter_tenant_id="p1"),
        aggregate(2, "b", filter_tenant_id=" p2 ,p3,", filter_tenant_id_more="p4"),
        aggregate(3, "ac", ssd="p9", my_filter_tenant_id="p9"),
        aggregate(4, "d", filter_tenant_id_x=""),
    ],
)


@pytest.mark.parametrize(
    ("project", "kept"),
    [
        ("p1", ["a", "b", "c"]),
        ("p2", ["b", "c"]),
        ("p3", ["b", "c"]),
        ("p4", ["b", "c"]),
        ("p9", ["c"]),
        ("P1", ["c"]),
        ("", ["c"]),
    ],
)
def test_hosts_that_list_projects_are_for_those_alone(
    ask: Ask, project: str, kept: list[str]
) -> None:
    """Hosts that list projects accept only those.

    Any key with the prefix counts, the lists of several aggregates are joined, and an empty
    list excludes every project.
    """
    assert ask(PROJECT_FLEET, replace(asking(), project_id=project)).kept(PROJECTS) == kept


def test_without_such_keys_all_hosts_are_open(ask: Ask) -> None:
    """Hosts without such keys accept every project."""
    asked = ask(snapshot_of([Box("a")]), replace(asking(), project_id="p1"))
    assert asked.kept(PROJECTS) == ["a"]


def test_the_reason_names_the_projects_and_the_relaxation_does_not(ask: Ask) -> None:
    """The reason for operators names the projects, the relaxation for users does not."""
    asked = ask(PROJECT_FLEET, replace(asking(), project_id="p9"))
    assert asked.why(PROJECTS, 1) == "it is reserved for the projects p1, p2, p3, p4, not for p9"
    assert asked.why(PROJECTS, 3) == "it is reserved for the projects nothing, not for p9"
    assert asked.relaxed(PROJECTS, [0, 1]) == [
        ("without the reservation for other projects: 2 hosts", ("a", "b"))
    ]
    nobody = ask(PROJECT_FLEET, asking())
    assert (
        nobody.why(PROJECTS, 0)
        == "it is reserved for the projects p1, not for a request without a project"
    )


def test_the_filter_of_projects_is_asked_once_a_request() -> None:
    """The filter runs once per request and not for forced hosts."""
    assert PROJECTS.once_per_request
    assert not PROJECTS.on_forced


FLAVORS = aggregate_isolation.build_flavor()
MANY = ",".join(f"f{number}" for number in range(9))
FLAVOR_FLEET = snapshot_of(
    [Box("a"), Box("b"), Box("c"), Box("d")],
    aggregates=[
        Aggregate(1, "u1", "n1", frozenset("ab"), {"instance_type": "m1.small"}),
        Aggregate(2, "u2", "n2", frozenset("b"), {"instance_type": "m1.tiny , m1.large"}),
        Aggregate(3, "u3", "n3", frozenset("c"), {"instance_types": "m1.small"}),
        Aggregate(4, "u4", "n4", frozenset("d"), {"instance_type": MANY}),
    ],
)


@pytest.mark.parametrize(
    ("name", "kept"),
    [
        ("m1.small", ["a", "b", "c"]),
        ("m1.large", ["b", "c"]),
        ("m1.tiny", ["b", "c"]),
        ("m1", ["c"]),
        ("f8", ["c", "d"]),
    ],
)
def test_hosts_that_list_flavors_are_for_those_alone(ask: Ask, name: str, kept: list[str]) -> None:
    """Hosts that list flavors by name accept only those; other hosts accept all."""
    assert ask(FLAVOR_FLEET, asking(Flavor("1", name, 1, 512))).kept(FLAVORS) == kept


def test_the_reason_names_the_flavors_and_the_relaxation_does_not(ask: Ask) -> None:
    """The reason names the flavors; the relaxation does not, as flavors may be private."""
    asked = ask(FLAVOR_FLEET, asking(Flavor("1", "m1.huge", 1, 512)))
    assert asked.why(FLAVORS, 1) == (
        "it is reserved for the flavors m1.large, m1.small, m1.tiny, not for m1.huge"
    )
    assert asked.why(FLAVORS, 3) == (
        "it is reserved for the flavors f0, f1, f2, f3, f4 and 4 more, not for m1.huge"
    )
    assert asked.relaxed(FLAVORS, [3, 0]) == [
        ("a flavor that hosts are reserved for: 2 hosts", ("a", "d"))
    ]


def test_the_filter_of_flavors_is_asked_once_a_request() -> None:
    """The filter runs once per request."""
    assert FLAVORS.once_per_request


IMAGES = aggregate_isolation.build_image()
IMAGE_FLEET = snapshot_of(
    [Box("a"), Box("b"), Box("c")],
    aggregates=[
        Aggregate(1, "u1", "n1", frozenset("ab"), {"os_type": "linux", "hw.arch": "arm"}),
        Aggregate(2, "u2", "n2", frozenset("b"), {"os_type": "windows, bsd", "empty": ""}),
    ],
)


def booting(**properties: str) -> Request:
    """Return a request with an image."""
    return replace(asking(), image=Image("i", properties=properties))


@pytest.mark.parametrize(
    ("request_", "kept"),
    [
        (asking(), None),
        (booting(), None),
        (booting(os_type=""), None),
        (booting(os_type="linux"), ["a", "b", "c"]),
        (booting(os_type="windows"), ["b", "c"]),
        (booting(os_type="Linux"), ["c"]),
        (booting(os_distro="any"), ["a", "b", "c"]),
        (booting(empty="x"), ["a", "c"]),
        (booting(os_type="linux", **{"hw.arch": "x86"}), ["c"]),
    ],
)
def test_what_a_key_lists_is_what_images_may_have(
    ask: Ask, request_: Request, kept: list[str] | None
) -> None:
    """Images need a listed value; those without the property pass, as do hosts without the key."""
    assert ask(IMAGE_FLEET, request_).kept(IMAGES) == kept


@pytest.mark.parametrize(
    ("namespace", "separator", "kept"),
    [("hw", ".", ["c"]), ("hw", "_", None), ("os", "_", ["a", "b", "c"]), ("", ".", ["c"])],
)
def test_a_namespace_leaves_other_keys_out(
    ask: Ask, namespace: str, separator: str, kept: list[str] | None
) -> None:
    """Only properties in the namespace are compared, under their full names."""
    rule = aggregate_isolation.build_image(
        aggregate_image_properties_isolation_namespace=namespace,
        aggregate_image_properties_isolation_separator=separator,
    )
    asked = ask(IMAGE_FLEET, booting(os_type="linux", **{"hw.arch": "x86"}))
    assert asked.kept(rule) == kept


def test_the_reason_names_the_listed_and_the_image_value(ask: Ask) -> None:
    """A host that one image property excludes is a relaxation."""
    asked = ask(IMAGE_FLEET, booting(os_type="plan9", **{"hw.arch": "x86"}))
    assert asked.why(IMAGES, 1) == (
        "it is reserved for images with os_type bsd, linux, windows, and the image has plan9; "
        "hw.arch arm, and the image has x86"
    )
    assert asked.relaxed(IMAGES, [0, 1]) == []
    asked = ask(IMAGE_FLEET, booting(os_type="plan9"))
    assert asked.relaxed(IMAGES, [0, 1]) == [
        ("without the image property os_type: 2 hosts", ("a", "b"))
    ]


def test_the_filter_of_images_runs_once_a_request_and_on_rebuild() -> None:
    """The filter runs once per request and on rebuilds."""
    assert IMAGES.once_per_request
    assert IMAGES.run_on_rebuild
