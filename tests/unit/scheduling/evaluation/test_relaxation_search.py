"""Tests for relaxations that concern several filters, and for those that are not offered."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import cast

import numpy as np
import pytest

from berth.domain.compute.decision import Refusal, Relaxation
from berth.domain.compute.flavor import SIZE_MAX, Flavor
from berth.domain.compute.request import Request
from berth.domain.compute.server_group import GroupPolicy, ServerGroup
from berth.domain.errors import InvalidInputError
from berth.domain.hardware.numa import MemoryPages, NumaCell
from berth.domain.inventory.resources import AMOUNT_MAX, Inventory
from berth.scheduling.evaluation import relaxation_search
from berth.scheduling.evaluation.policy import Plan
from berth.scheduling.evaluation.request_changes import named
from berth.scheduling.filters import (
    aggregate_membership,
    below_host_limits,
    fits_numa,
    has_devices,
    has_exact_amounts,
    within_ratios,
)
from berth.scheduling.rules.rule import Filter, Query, Reads, Relax
from berth.tables.columnar.bitsets import Mask, Rows, Selection, count_of
from berth.tables.host.feed import table_of
from berth.tables.host.hosts import HostTable
from berth.testing.fleets import (
    NOW_S,
    Box,
    all_filters,
    asking,
    policy_of,
    resident,
    sized,
    snapshot_of,
    zone,
)

SHARED = tuple(
    NumaCell(n, frozenset(range(4 * n, 4 * n + 4)), frozenset(), memory_mb=8192) for n in (0, 1)
)
ALDER = Box("alder", inventories=sized(8, 16_384, 100), numa_cells=SHARED)
DEDICATED = {"PCPU": Inventory(8), "MEMORY_MB": Inventory(16_384), "DISK_GB": Inventory(100)}
CEDAR = Box(
    "cedar",
    inventories=DEDICATED,
    numa_cells=(NumaCell(0, frozenset(), frozenset(range(8)), memory_mb=16_384),),
)
GROUPS = [
    ServerGroup("g-together", "pair", GroupPolicy.AFFINITY),
    ServerGroup("g-apart", "pair", GroupPolicy.ANTI_AFFINITY),
]


def refuse(
    boxes: Sequence[Box],
    request: Request,
    *members: tuple[str, str],
    others: Sequence[Filter] = (),
) -> Refusal:
    """Return the refusal of a request; see `planned`."""
    refusal = planned(boxes, request, *members, others=others).refusal
    assert refusal is not None
    return refusal


def planned(
    boxes: Sequence[Box],
    request: Request,
    *members: tuple[str, str],
    others: Sequence[Filter] = (),
) -> Plan:
    """Return the plan of a request; `members` are pairs of a group and the box of its member.

    `others` are filters that the policy has in addition.
    """
    filters = [*all_filters(), fits_numa.build(), has_devices.build()]
    policy = policy_of(
        filters=[*filters, within_ratios.build_core(), aggregate_membership.build_zone(), *others]
    )
    instances = [
        replace(resident(f"old-{group}", Box(name)), group_uuid=group) for group, name in members
    ]
    aggregates = [zone("az1"), zone("az2", *(box.name for box in boxes))]
    snapshot = snapshot_of(boxes, groups=GROUPS, instances=instances, aggregates=aggregates)
    return policy.driver.plan(table_of(snapshot), request, policy, now_s=NOW_S, seed=0)


def wanting(specs: Mapping[str, str], **changes: object) -> Request:
    """Return a request for four CPUs and 4 GiB of memory with extra specs."""
    flavor = Flavor("1", "f", 4, 4096, 10, extra_specs=specs)
    return replace(asking(flavor), **changes)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("box", "specs", "text"),
    [
        (ALDER, {"hw:cpu_policy": "dedicated"}, "without the CPU policy dedicated"),
        (
            ALDER,
            {"hw:cpu_policy": "dedicated", "hw:cpu_thread_policy": "isolate"},
            "without the CPU policy dedicated",
        ),
        (ALDER, {"hw:numa_nodes": "4"}, "hw:numa_nodes=2 instead of 4"),
        (Box("beech"), {"hw:mem_page_size": "large"}, "without a page size"),
        (
            CEDAR,
            {"hw:cpu_policy": "dedicated", "hw:cpu_thread_policy": "require"},
            "without the thread policy require",
        ),
        (Box("oak"), {"resources:PCPU": "4"}, "without the extra spec resources:PCPU"),
        (Box("oak"), {"resources1:CUSTOM_X": "4"}, "without group 1"),
    ],
)
def test_one_change_that_several_filters_require_is_one_relaxation(
    box: Box, specs: Mapping[str, str], text: str
) -> None:
    """A change is offered as one relaxation, although several filters remove the host."""
    refusal = refuse([box], wanting(specs))
    assert [one.text for one in refusal.relaxations] == [f"{text}: 1 host"]
    assert f"It would fit with: {text}: 1 host." in refusal.message


def test_a_size_that_two_filters_limit_is_reduced_once() -> None:
    """If two filters limit the same size, the reduction that satisfies both is named."""
    refusal = refuse([Box("a", used={"VCPU": 6})], wanting({}))
    assert [one.text for one in refusal.relaxations] == ["2 VCPU less: 1 host"]


EXACT = (has_exact_amounts.build_core(), has_exact_amounts.build_ram())


@pytest.mark.parametrize(
    ("specs", "text"),
    [
        ({}, "2 VCPU less: 1 host"),
        ({"trait:X": "required"}, "without trait X and 2 VCPU less: 1 host"),
        ({"hw:mem_page_size": "4"}, "without a page size and 2 VCPU less: 1 host"),
    ],
)
def test_an_exact_amount_is_found_that_no_smaller_flavor_has(
    specs: Mapping[str, str], text: str
) -> None:
    """If a filter requires an exact amount, the smallest flavor does not show what would fit."""
    box = Box("a", used={"VCPU": 6})
    refusal = refuse([box], wanting(specs), others=EXACT[:1])
    assert [one.text for one in refusal.relaxations] == [text]


def test_two_sizes_are_reduced_together() -> None:
    """If neither of two sizes helps alone, the smallest reductions of both are a pair."""
    box = Box("a", used={"VCPU": 6, "MEMORY_MB": 14_384}, inventories=sized(8, 16_384, 100))
    refusal = refuse([box], wanting({}), others=EXACT)
    assert [one.text for one in refusal.relaxations] == [
        "2 VCPU less and 2,096 MB less memory: 1 host"
    ]


def test_one_amount_that_two_filters_limit_is_in_a_pair_once() -> None:
    """If two filters require less memory, a pair names the reduction once."""
    box = Box("a", inventories=sized(8, 4096, 100), used={"MEMORY_MB": 1024})
    flavor = Flavor("1", "f", 4, 4096, 10, extra_specs={"resources:CUSTOM_GPU": "1"})
    (pair,) = refuse([box], asking(flavor), others=EXACT[1:]).relaxations
    assert pair.text == "1,024 MB less memory and without CUSTOM_GPU: 1 host"
    assert [part.text for part in pair.parts] == [
        "1,024 MB less memory: 1 host",
        "without CUSTOM_GPU: 1 host",
    ]


def test_the_hosts_of_a_pair_are_counted() -> None:
    """A pair names the number of all hosts that fit after both changes."""
    boxes = [Box("a"), Box("b"), Box("c", used={"VCPU": 6})]
    wanted = wanting({"trait:X": "required"}, availability_zone="az1")
    (pair,) = refuse(boxes, wanted).relaxations
    assert (pair.hosts, pair.examples) == (2, ("a", "b"))
    assert pair.text == "without the availability zone az1 and without trait X: 2 hosts"


def test_a_larger_flavor_is_a_change_if_a_filter_requires_an_exact_amount() -> None:
    """An increase counts like any other change, and is checked by all filters."""
    specs = {"trait:X": "required", "trait:Y": "forbidden"}
    box = Box("a", used={"VCPU": 2}, traits=frozenset({"Y"}))
    refusal = refuse([box], wanting({"trait:X": "required"}), others=EXACT[:1])
    assert [one.text for one in refusal.relaxations] == ["without trait X and 2 VCPU more: 1 host"]
    assert refuse([box], wanting(specs), others=EXACT[:1]).relaxations == ()


@pytest.mark.parametrize(
    "specs",
    [
        {"hw:cpu_policy": "dedicated", "trait:HW_CPU_HYPERTHREADING": "required"},
        {"resources1:CUSTOM_X": "1", "trait1:CUSTOM_Y": "required", "resources:CUSTOM_Z": "1"},
    ],
)
def test_a_pair_may_contain_a_change_that_is_invalid_alone(specs: Mapping[str, str]) -> None:
    """Two changes of which one alone makes the request invalid are found."""
    refusal = refuse([Box("a")], wanting(specs))
    assert any(one.hosts == 1 and len(one.parts) == 2 for one in refusal.relaxations)


def test_a_limit_of_the_policy_is_raised_with_a_change_to_the_request() -> None:
    """A pair may consist of a change to the request and one that concerns the policy."""
    full = below_host_limits.build_num_instances(max_instances_per_host=1)
    box = Box("a", used={"VCPU": 6})
    refusal = refuse([box], wanting({}), ("g-apart", "a"), others=[full])
    assert [one.text for one in refusal.relaxations] == [
        "2 VCPU less and max_instances_per_host raised by 1: 1 host"
    ]


@pytest.mark.parametrize(
    ("specs", "text"),
    [
        (
            {"hw:numa_nodes": "1", "hw:numa_cpus.0": "0-3", "hw:numa_mem.0": "4096"},
            "2 VCPU less in each hw:numa_cpus.N and as many in the flavor: 1 host",
        ),
        ({"resources:VCPU": "4"}, "2 less in the extra spec resources:VCPU: 1 host"),
        ({"resources:VCPU": "4"}, "without the extra spec resources:VCPU: 1 host"),
    ],
)
def test_amounts_that_extra_specs_set_are_reduced_there(
    specs: Mapping[str, str], text: str
) -> None:
    """A reduction names the extra specs that contain the amount, and can be followed."""
    cell = NumaCell(0, frozenset(range(8)), frozenset(), memory_mb=16_384)
    box = Box("a", used={"VCPU": 6}, numa_cells=(cell,))
    flavor = Flavor("1", "f", 2 if "resources:VCPU" in specs else 4, 4096, 10, extra_specs=specs)
    assert text in [one.text for one in refuse([box], asking(flavor)).relaxations]


def test_memory_in_large_pages_is_reduced_by_whole_pages() -> None:
    """The smallest flavor is no multiple of the page size, so it does not show what would fit."""
    pages = (MemoryPages(2048, 8192),)
    cell = NumaCell(0, frozenset(range(8)), frozenset(), memory_mb=16_384, mempages=pages)
    box = Box(
        "a", inventories=sized(8, 16_384, 100), used={"MEMORY_MB": 14_336}, numa_cells=(cell,)
    )
    refusal = refuse([box], wanting({"hw:mem_page_size": "2048"}))
    assert "2,048 MB less memory: 1 host" in [one.text for one in refusal.relaxations]


def test_an_availability_zone_that_two_filters_check_is_dropped_once() -> None:
    """Both filters for the availability zone stop removing the host after one change."""
    refusal = refuse([Box("a")], wanting({}, availability_zone="az1"))
    (relaxation,) = refusal.relaxations
    assert relaxation.text == "without the availability zone az1: 1 host"
    assert relaxation.filter == "AvailabilityZoneFilter"


def test_what_cannot_be_followed_is_not_offered() -> None:
    """Flavors have VCPUs and memory, and a trait that an option implies cannot be dropped."""
    assert refuse([Box("a", used={"VCPU": 8})], wanting({})).relaxations == ()
    specs = {"hw:cpu_policy": "dedicated", "hw:cpu_thread_policy": "require"}
    texts = [one.text for one in refuse([CEDAR], wanting(specs)).relaxations]
    assert not any("HYPERTHREADING" in text for text in texts)


@pytest.mark.parametrize("group", ["g-together", "g-apart"])
def test_forced_hosts_must_still_satisfy_the_group(group: str) -> None:
    """A forced host that would violate the group's policy is not offered after any change."""
    boxes = [Box("nyssa", used={"VCPU": 6}), Box("oak")]
    member = "oak" if group == "g-together" else "nyssa"
    request = wanting({}, group_uuid=group, force_hosts=("nyssa",))
    refusal = refuse(boxes, request, (group, member))
    assert [one.text for one in refusal.relaxations] == ["without the forced hosts: 1 host"]


def test_two_changes_to_the_request_are_found_within_one_filter() -> None:
    """A host that one filter removes for two reasons is won by a pair of changes."""
    refusal = refuse([Box("a")], wanting({"trait:X": "required", "trait:Y": "required"}))
    (pair,) = refusal.relaxations
    assert pair.text == "without trait X and without trait Y: 1 host"
    assert len(pair.parts) == 2


def test_a_search_that_is_cut_short_claims_nothing_about_pairs(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """If not every pair was tried, the message does not say that no pair helps."""
    monkeypatch.setattr(relaxation_search, "_COST_MAX", 0)
    specs = {f"trait:{name}": "required" for name in "XYZ"}
    refusal = refuse([Box("a")], wanting(specs))
    assert refusal.message.endswith(
        "No single change to the request would make it fit; not every pair of changes was tried."
    )


@pytest.mark.parametrize(
    ("more_mb", "is_change"),
    [(1, True), (SIZE_MAX - 4096, True), (SIZE_MAX - 4095, False), (AMOUNT_MAX, False)],
)
def test_an_amount_beyond_the_limit_of_flavors_is_no_change(more_mb: int, is_change: bool) -> None:
    """A filter may propose more than a flavor can have; this is no error, but not suggested."""
    text = f"{more_mb:,} MB more memory: 1 host"
    hint = Relaxation("ExactRamFilter", "MEMORY_MB", text, 1, change=more_mb)
    change = named(wanting({}), None, (), hint)
    assert (change is not None) is is_change


@pytest.mark.parametrize(
    ("exact_mb", "text"),
    [
        (8_192, "without trait X and 4,096 MB more memory: 1 host"),
        (SIZE_MAX, f"without trait X and {SIZE_MAX - 4096:,} MB more memory: 1 host"),
        (SIZE_MAX + 1, None),
        (AMOUNT_MAX + 1, None),
    ],
)
def test_an_exact_amount_beyond_the_limit_of_flavors_is_not_suggested(
    exact_mb: int, text: str | None
) -> None:
    """A filter may require more than a flavor can have; the search leaves it out without error."""
    box = Box("a", inventories=sized(8, AMOUNT_MAX, 100))
    plan = planned([box], wanting({"trait:X": "required"}), others=[exactly(exact_mb)])
    assert plan.refusal is not None
    assert plan.failures == ()
    assert [one.text for one in plan.refusal.relaxations] == ([] if text is None else [text])


def exactly(memory_mb: int) -> Filter:
    """Return a filter that requires a flavor with exactly so much memory on every host."""

    def keep(_hosts: HostTable, query: Query, rows: Selection) -> Mask:
        return np.full(count_of(rows), query.request.flavor.memory_mb == memory_mb)

    def relax(hosts: HostTable, query: Query, rows: Rows) -> list[Relaxation]:
        more = memory_mb - query.request.flavor.memory_mb
        text = f"{abs(more):,} MB {'more' if more > 0 else 'less'} memory"
        names = hosts.names(rows)
        return [Relaxation("Exactly", "MEMORY_MB", f"{text}: 1 host", 1, more, names)]

    reads = Reads(("flavor.memory_mb",), ())
    return Filter("Exactly", keep, lambda *_: "it is another amount", relax, reads)


# ---- filters that fail --------------------------------------------------------------------------


def failing(
    part: str, *, refuses: Callable[[Query], bool] = lambda _: True, error: type[Exception]
) -> Filter:
    """Return a filter that removes every host, and of which one part raises an error.

    `refuses` tells for which queries. `keep` fails only for those that it does not refuse.
    """

    def keep(_hosts: HostTable, query: Query, rows: Selection) -> Mask:
        if part == "keep" and not refuses(query):
            raise error("keep")
        return np.full(count_of(rows), not refuses(query))

    def why(_hosts: HostTable, _query: Query, _row: int) -> str:
        if part == "why":
            raise error("why")
        return "it is closed"

    def relax(_hosts: HostTable, query: Query, _rows: Rows) -> Iterator[Relaxation]:
        if part == "relax":
            raise error("relax")
        if has_rack(query):
            yield Relaxation("Failing", "rack", "without the extra spec rack: 1 host", 1)
        if part == "late":
            raise error("late")

    reads = Reads(("flavor.extra_specs",), ())
    return Filter("Failing", keep, why, cast("Relax", relax), reads)


def has_rack(query: Query) -> bool:
    """Return whether the flavor has the extra spec `rack`."""
    return "rack" in query.request.flavor.extra_specs


@pytest.mark.parametrize("error", [ValueError, InvalidInputError, OverflowError])
@pytest.mark.parametrize("part", ["relax", "late"])
def test_a_filter_that_fails_loses_only_its_own_changes(part: str, error: type[Exception]) -> None:
    """The changes that the search finds itself are offered, and the error is returned."""
    if error is InvalidInputError:
        error = cast("type[Exception]", lambda text: InvalidInputError("flavor", text))
    rule = failing(part, refuses=has_rack, error=error)
    plan = planned([Box("a")], wanting({"rack": "r1"}), others=[rule])
    assert plan.refusal is not None
    assert [one.text for one in plan.refusal.relaxations] == ["without the extra spec rack: 1 host"]
    assert [one.rule for one in plan.failures] == ["Failing"]
    assert part in str(plan.failures[0].error)


@pytest.mark.parametrize("part", ["relax", "late", "keep"])
def test_a_refusal_does_not_deny_the_changes_that_an_error_has_lost(part: str) -> None:
    """If a filter fails, the message does not say that no change helps."""
    refuses = has_rack if part == "keep" else lambda _: True
    rule = failing(part, refuses=refuses, error=ValueError)
    plan = planned([Box("a")], wanting({"rack": "r1"}), others=[rule])
    assert plan.refusal is not None
    assert plan.refusal.relaxations == ()
    assert plan.refusal.message.endswith("Not every change was tried, because a rule failed.")
    assert [(one.rule, type(one.error)) for one in plan.failures] == [("Failing", ValueError)]


@pytest.mark.parametrize("part", ["relax", "late"])
def test_a_filter_that_fails_for_one_host_of_a_pair_loses_only_that_pair(part: str) -> None:
    """Two filters remove the host; the one that works still takes part in other pairs."""
    rule = failing(part, refuses=has_rack, error=ValueError)
    specs = {"rack": "r1", "trait:X": "required"}
    plan = planned([Box("a")], wanting(specs), others=[rule])
    assert plan.refusal is not None
    assert [one.text for one in plan.refusal.relaxations] == [
        "without trait X and without the extra spec rack: 1 host"
    ]


def test_a_filter_that_cannot_say_why_it_removes_a_host_is_named_all_the_same() -> None:
    """The count of removed hosts and the changes do not depend on the reason."""
    rule = failing("why", refuses=has_rack, error=KeyError)
    plan = planned([Box("a")], wanting({"rack": "r1"}), others=[rule])
    assert plan.refusal is not None
    (count,) = [one for one in plan.refusal.filters if one.before > one.after]
    assert count.removed_examples == (
        "a: the reason is unknown, because the filter failed: KeyError",
    )
    assert [one.hosts for one in plan.refusal.relaxations] == [1]


@pytest.mark.parametrize("name", ["sizes_of", "changes_of", "proposals_in_pairs"])
def test_an_error_of_the_search_loses_hints_but_not_the_refusal(
    monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    """A fault of the search itself costs hints, and is returned like that of a filter."""

    def fail(*_: object) -> None:
        raise ZeroDivisionError

    monkeypatch.setattr(relaxation_search, name, fail)
    specs = {"trait:X": "required", "trait:Y": "required"}
    plan = planned([Box("a")], wanting(specs))
    assert plan.refusal is not None
    assert plan.refusal.filters
    assert [one.rule for one in plan.failures] == ["relaxations"]
    assert plan.refusal.message.endswith("Not every change was tried, because a rule failed.")
