"""Tests for refusals: counts by filter, reasons and relaxations."""

from dataclasses import replace
from typing import Any

import pytest

from berth.domain.compute.decision import Refusal, RefusalCode
from berth.domain.compute.flavor import Flavor
from berth.domain.compute.request import Destination, Request
from berth.domain.ledger.change import Snapshot
from berth.tables.host.feed import table_of
from berth.testing.fleets import NOW_S, Box, asking, policy_of, sized, snapshot_of, zone


def refuse(snapshot: Snapshot, request: Request) -> Refusal:
    """Return the refusal of a request."""
    policy = policy_of()
    plan = policy.driver.plan(table_of(snapshot), request, policy, now_s=NOW_S, seed=0)
    assert plan.refusal is not None
    return plan.refusal


def texts(refusal: Refusal) -> list[str]:
    """Return the texts of the relaxations."""
    return [relaxation.text for relaxation in refusal.relaxations]


MANY = snapshot_of([Box(f"h{number:02}", traits=frozenset({"T"})) for number in range(40)])


@pytest.mark.parametrize(
    ("request_", "text"),
    [
        (asking(Flavor("1", "f", 1, 14_336)), "6,144 MB less memory: 40 hosts"),
        (asking(Flavor("1", "f", 10, 1)), "2 VCPU less: 40 hosts"),
        (asking(Flavor("1", "f", 1, 1, 101)), "1 GB less disk: 40 hosts"),
        (asking(specs={"trait:X": "required"}), "without trait X: 40 hosts"),
        (asking(specs={"trait:T": "forbidden"}), "without the ban on trait T: 40 hosts"),
        (
            replace(asking(), availability_zone="az1"),
            "without the availability zone az1: 40 hosts",
        ),
        (
            asking(specs={"capabilities:x": "1"}),
            "without the extra spec capabilities:x: 40 hosts",
        ),
        (replace(asking(), hints={"same_host": ("i",)}), "without the hint same_host: 40 hosts"),
        (replace(asking(), force_hosts=("x",)), "without the forced hosts: 40 hosts"),
        (
            asking(Flavor("1", "f", 9, 9000)),
            "1 VCPU less and 808 MB less memory: 40 hosts",
        ),
    ],
)
def test_the_one_change_that_would_help_is_told(request_: Request, text: str) -> None:
    """A refusal names the one change that would help, the number of hosts and three examples."""
    refusal = refuse(MANY, request_)
    assert texts(refusal) == [text]
    assert refusal.relaxations[0].hosts == 40
    assert refusal.relaxations[0].examples == ("h00", "h01", "h02")
    assert text in refusal.message


def test_a_refusal_tells_the_whole_story() -> None:
    """A refusal lists the filters in chain order and the relaxations with most hosts first."""
    boxes = [
        Box("down", disabled=True),
        Box("small-1", inventories=sized(memory_mb=512)),
        Box("small-2", inventories=sized(memory_mb=512)),
        Box("small-3", inventories=sized(memory_mb=512)),
        Box("small-4", inventories=sized(memory_mb=256)),
        Box("elsewhere"),
    ]
    names = [box.name for box in boxes if box.name != "elsewhere"]
    snapshot = snapshot_of(boxes, aggregates=[zone("az1", *names)])
    refusal = refuse(snapshot, replace(asking(), availability_zone="az1"))
    assert refusal.code is RefusalCode.ALL_FILTERED
    removed = {c.name: (c.before, c.after) for c in refusal.filters if c.before != c.after}
    assert removed == {
        "ComputeFilter": (6, 5),
        "AvailabilityZoneFilter": (5, 4),
        "ResourcesFilter": (4, 0),
    }
    assert [count.name for count in refusal.filters][:4] == [
        "ComputeFilter",
        "AvailabilityZoneFilter",
        "TraitsFilter",
        "ResourcesFilter",
    ]
    assert refusal.filters[3].removed_examples == (
        "small-1: MEMORY_MB: 1,024 requested, at most 512 per instance",
        "small-2: MEMORY_MB: 1,024 requested, at most 512 per instance",
        "small-3: MEMORY_MB: 1,024 requested, at most 512 per instance",
    )
    assert texts(refusal) == [
        "512 MB less memory: 3 hosts",
        "1 more compute service enabled",
        "without the availability zone az1: 1 host",
    ]
    assert refusal.relaxations[0].change == -512
    assert refusal.message == (
        "No valid host was found for 1 instance. Of 6 hosts, ComputeFilter removed 1, "
        "AvailabilityZoneFilter removed 1, ResourcesFilter removed 4. It would fit with: "
        "512 MB less memory: 3 hosts; 1 more compute service enabled; "
        "without the availability zone az1: 1 host."
    )


def test_a_host_that_two_rules_remove_is_won_by_two_changes() -> None:
    """If no single change helps, two changes are named as one relaxation."""
    refusal = refuse(
        snapshot_of([Box("a")]),
        replace(asking(specs={"trait:X": "required"}), availability_zone="az1"),
    )
    both = "without the availability zone az1 and without trait X: 1 host"
    assert texts(refusal) == [both]
    assert refusal.message.endswith(f"It would fit with: {both}.")
    (pair,) = refusal.relaxations
    assert pair.filter == "AvailabilityZoneFilter + TraitsFilter"
    assert [part.filter for part in pair.parts] == pair.filter.split(" + ")


def test_of_pairs_of_changes_the_smallest_is_told() -> None:
    """Of several pairs of changes the smallest one is named."""
    boxes = [Box(name, inventories=sized(memory_mb=mb)) for name, mb in [("a", 10), ("b", 1_000)]]
    wanted = replace(asking(), availability_zone="az1")
    first = "without the availability zone az1 and 24 MB less memory: 1 host"
    assert texts(refuse(snapshot_of(boxes), wanted)) == [first]
    last = "24 MB less memory and without the hint same_host: 1 host"
    wanted = replace(asking(), hints={"same_host": ("i",)})
    assert texts(refuse(snapshot_of(boxes), wanted)) == [last]


def test_the_smallest_pair_may_be_among_many_hosts() -> None:
    """The smallest pair is found among many hosts."""
    boxes = [Box(f"h{n:03}", inventories=sized(memory_mb=10 + n % 50)) for n in range(200)]
    wanted = replace(asking(Flavor("1", "f", 1, 100, 1)), availability_zone="az1")
    pair = "without the availability zone az1 and 41 MB less memory: 4 hosts"
    refusal = refuse(snapshot_of(boxes), wanted)
    assert texts(refusal) == [pair]
    assert refusal.relaxations[0].examples == ("h049", "h099", "h149")


def test_the_smallest_of_several_amounts_is_for_their_filter_to_say() -> None:
    """A filter that lacks several amounts names its own smallest change within a pair."""
    boxes = [Box(f"h{n:03}", inventories=sized(vcpus=1, memory_mb=10 + n)) for n in range(20)]
    wanted = replace(asking(Flavor("1", "f", 4, 100, 1)), availability_zone="az1")
    (text,) = texts(refuse(snapshot_of(boxes), wanted))
    assert "3 VCPU less and 71 MB less memory: 1 host" in text


def test_amounts_of_different_things_count_by_what_is_asked() -> None:
    """The size of a change is its share of the amount that is requested."""
    boxes = [
        Box("a", inventories=sized(vcpus=10, memory_mb=500)),
        Box("b", inventories=sized(vcpus=9, memory_mb=1_000)),
    ]
    wanted = replace(asking(Flavor("1", "f", 10, 1_000, 1)), availability_zone="az1")
    pair = "without the availability zone az1 and 1 VCPU less: 1 host"
    assert texts(refuse(snapshot_of(boxes), wanted)) == [pair]


def test_a_host_that_three_rules_remove_is_no_relaxation() -> None:
    """A host that needs three changes gives no relaxation, and the message says so."""
    refusal = refuse(
        snapshot_of([Box("a", disabled=True)]),
        replace(asking(specs={"trait:X": "required"}), availability_zone="az1"),
    )
    assert texts(refusal) == []
    assert refusal.message.endswith(
        "No single change to the request, and no two together, would make it fit."
    )


def test_too_few_hosts_for_all_say_how_many_fit() -> None:
    """A refusal for too few hosts says how many instances fit and what gives room for one more."""
    boxes = [Box("a", inventories=sized(vcpus=2)), Box("b", disabled=True)]
    refusal = refuse(snapshot_of(boxes), asking(count=5))
    assert refusal.code is RefusalCode.NOT_ENOUGH
    assert (refusal.placed, refusal.asked) == (2, 5)
    first, *others = refusal.relaxations
    assert (first.text, first.change) == ("3 fewer instances: 2 of 5 fit", -3)
    assert [one.text for one in others] == [
        "1 more compute service enabled",
    ]
    assert refusal.message == (
        "No valid host was found for 5 instances. Only 2 found room. Of 2 hosts, ComputeFilter "
        "removed 1, ResourcesFilter removed 1. It would fit with 3 fewer instances: 2 of 5 fit. "
        "One more would fit with: 1 more compute service enabled."
    )


def test_one_instance_too_many_is_said_in_the_singular() -> None:
    """The text about one instance too many is in the singular."""
    refusal = refuse(snapshot_of([Box("a", inventories=sized(vcpus=2))]), asking(count=3))
    assert texts(refusal)[0] == "1 fewer instance: 2 of 3 fit"


def test_an_empty_fleet_says_so() -> None:
    """A refusal on an empty fleet says that no host is registered."""
    refusal = refuse(snapshot_of([]), asking(count=2))
    assert (refusal.code, refusal.hosts_total) == (RefusalCode.NO_HOSTS, 0)
    assert refusal.message == "No valid host was found for 2 instances. No host is registered."
    assert refusal.relaxations == ()


@pytest.mark.parametrize(
    ("changes", "first", "relaxation"),
    [
        ({"destination": Destination("x")}, "requested destination", "2 hosts"),
        ({"ignore_hosts": ("A", "b")}, "ignored hosts", "2 hosts"),
        ({"force_hosts": ("x",)}, "forced hosts", "2 hosts"),
        ({"force_nodes": ("x",)}, "forced nodes", "2 hosts"),
    ],
)
def test_a_request_that_names_no_host_of_the_fleet_says_so(
    changes: dict[str, Any], first: str, relaxation: str
) -> None:
    """A request that names no usable host is refused by its names, which can be dropped."""
    refusal = refuse(snapshot_of([Box("a"), Box("b")]), replace(asking(), **changes))
    assert refusal.code is RefusalCode.NO_HOSTS
    assert (refusal.filters[0].name, refusal.filters[0].before, refusal.filters[0].after) == (
        first,
        2,
        0,
    )
    assert texts(refusal) == [f"without the {first}: {relaxation}"]


def test_no_longer_forced_means_that_all_filters_hold() -> None:
    """Dropping the forced hosts promises only hosts that pass all filters."""
    boxes = [
        Box("full", used={"VCPU": 8}),
        Box("disabled", disabled=True),
        Box("good"),
    ]
    refusal = refuse(snapshot_of(boxes), replace(asking(), force_hosts=("full",)))
    assert [count.name for count in refusal.filters] == [
        "forced hosts",
        "TraitsFilter",
        "ResourcesFilter",
        "GranularGroupsFilter",
    ]
    assert texts(refusal) == ["without the forced hosts: 1 host"]
    assert refusal.relaxations[0].examples == ("good",)


def test_each_list_of_names_is_a_change_of_its_own() -> None:
    """Dropping each list of names is a relaxation of its own, and all of them only together."""
    snapshot = snapshot_of([Box("a"), Box("b"), Box("c", disabled=True)])
    one = replace(asking(), ignore_hosts=("a",), destination=Destination("a"))
    assert texts(refuse(snapshot, one)) == [
        "without the requested destination: 1 host",
        "without the ignored hosts: 1 host",
    ]
    both = replace(asking(), force_hosts=("a",), force_nodes=("b",), ignore_hosts=("a", "b"))
    assert texts(refuse(snapshot, both)) == [
        "without the ignored hosts and forced hosts and forced nodes: 2 hosts"
    ]
