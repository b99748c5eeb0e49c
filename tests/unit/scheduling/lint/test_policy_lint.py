"""Tests for linting policies, alone and on a fleet."""

from collections.abc import Sequence
from dataclasses import replace

import pytest

from berth.config.policy_file import parse_policy
from berth.domain.compute.aggregate import Aggregate
from berth.domain.compute.flavor import Flavor
from berth.domain.compute.server_group import GroupPolicy, ServerGroup
from berth.scheduling.evaluation.policy import Policy
from berth.scheduling.lint.lint_warning import LintWarning
from berth.scheduling.lint.policy_lint import lint_fleet, lint_policy
from berth.tables.host.feed import table_of
from berth.testing.fleets import NOW_S, Box, resident, snapshot_of

GROUPS = ("ComputeFilter", "ServerGroupAntiAffinityFilter", "ServerGroupAffinityFilter")
SOFT = (("ServerGroupSoftAffinityWeigher", 5.0), ("ServerGroupSoftAntiAffinityWeigher", 5.0))


def policy(
    *weighers: tuple[str, float],
    filters: Sequence[str] = (),
    soft: Sequence[tuple[str, float]] = SOFT,
    driver: str = "filter",
    groups: Sequence[str] = GROUPS,
    head: str = "",
    tail: str = "",
) -> Policy:
    """Return a policy with these rules in addition to the usual ones."""
    rules = "".join(f'[[filters]]\nname = "{n}"\n' for n in ("ResourcesFilter", *groups, *filters))
    weights = "".join(
        f'[[weighers]]\nname = "{name}"\nmultiplier = {by}\n' for name, by in (*weighers, *soft)
    )
    text = f'name = "p"\ndriver = "{driver}"\n{head}{rules}{weights}{tail}'
    return parse_policy(text, "p.toml")


def said(found: Sequence[LintWarning]) -> str:
    """Return all warnings as one text."""
    return "\n".join(f"{one.where}: {one.text}" for one in found)


def test_a_sound_policy_has_no_findings() -> None:
    """A sound policy has no warnings."""
    assert lint_policy(policy(("RAMWeigher", 1.0), ("CPUWeigher", 1.0))) == []


@pytest.mark.parametrize(
    ("linted", "text"),
    [
        (
            policy(("BuildFailureWeigher", 1e6), ("RAMWeigher", 1.0)),
            "has the weight 1e+06, and all lesser ones have 1 together (RAMWeigher)",
        ),
        (
            policy(("BuildFailureWeigher", 1e6), ("CrossCellWeigher", 1e6), ("CPUWeigher", 1.0)),
            "has the weight 1e+06, and all lesser ones have 1 together (CPUWeigher)",
        ),
        (
            policy(("RAMWeigher", 2.0), ("CPUWeigher", 2.0), soft=[(n, 1.0) for n, _ in SOFT]),
            "has the weight 1, and the others have 4 together, so they often overrule soft groups",
        ),
        (
            policy(("RAMWeigher", -1.0), ("CPUWeigher", 1.0)),
            "weighers: packing by RAMWeigher and spreading by CPUWeigher conflict",
        ),
        (policy(filters=["AllHostsFilter"]), "AllHostsFilter: hardly ever removes"),
        (policy(filters=["RamFilter"]), "RamFilter: hardly ever removes"),
        (
            policy(filters=["AggregateCoreFilter"]),
            "AggregateCoreFilter: hardly ever removes a host: a host's own ratio is the lowest of",
        ),
        (
            policy(filters=["MetricsFilter"]),
            "MetricsFilter: never removes a host unless weight_setting is set;",
        ),
        (
            policy(filters=["IsolatedHostsFilter"]),
            "IsolatedHostsFilter: never removes a host unless isolated_images or isolated_",
        ),
        (
            policy(("MetricsWeigher", 1.0)),
            "weigher MetricsWeigher: has no weight_setting, so it has no effect",
        ),
        (
            policy(("RAMWeigher", 1.0), ("HypervisorVersionWeigher", 1.0)),
            "HypervisorVersionWeigher: has the weight 1, so a slightly newer version outweighs",
        ),
        (
            policy(
                ("RAMWeigher", 1.0),
                ("CPUWeigher", 1.0),
                ("DiskWeigher", 1.0),
                soft=[(n, 1.0) for n, _ in SOFT],
                head='normalisation = "share"\n',
            ),
            "ServerGroupSoftAffinityWeigher: has the weight 1, and the others have 3 together",
        ),
        (
            policy(filters=["AvailabilityZoneAggregateFilter"]),
            "AvailabilityZoneAggregateFilter: lets a request for a zone without an aggregate",
        ),
        (
            policy(driver="chance"),
            "driver: weighers have no effect, because chance does not weigh hosts; remove them",
        ),
        (
            policy(driver="multi", tail='[driver_options]\ndefault = "chance"\n'),
            "driver: weighers have no effect, because chance does not weigh hosts; remove them",
        ),
        (policy(groups=GROUPS[:1]), "without ServerGroupAntiAffinityFilter, servers of anti-"),
        (policy(groups=GROUPS[1:]), "filters: without ComputeFilter, hosts that are down or"),
        (policy(soft=SOFT[:1]), "without ServerGroupSoftAntiAffinityWeigher, soft-anti-affinity"),
    ],
)
def test_traps_are_told_of(linted: Policy, text: str) -> None:
    """Each questionable setting is reported with its place."""
    assert text in said(lint_policy(linted))


@pytest.mark.parametrize(
    "head",
    [
        ("MetricsFilter", "weight_setting = {load = 1.0}"),
        ("IsolatedHostsFilter", 'isolated_images = ["i"]'),
        ("TenantAggregateFilter", ""),
        ("IsolatedAggregatesFilter", ""),
        ("ImageTypeSupportFilter", ""),
        ("ImageMetadataFilter", ""),
    ],
)
def test_a_filter_that_is_switched_on_may_exclude(head: tuple[str, str]) -> None:
    """A filter is reported only if its option is switched off."""
    name, option = head
    on = policy(groups=(), tail=f'[[filters]]\nname = "{name}"\n{option}\n')
    assert f"filter {name}" not in said(lint_policy(on))
    switch = next(iter(on.filters[-1].options))
    assert on.filters[-1].options[switch]
    off = replace(on, filters=(replace(on.filters[-1], options={switch: False}),))
    assert f"filter {name}: never removes a host unless {switch}" in said(lint_policy(off))


def test_a_multiplier_that_aggregates_may_raise_can_matter() -> None:
    """A multiplier of 0 is reported only if aggregates cannot raise it."""
    off = policy(("RAMWeigher", 0.0), ("CPUWeigher", 1.0))
    assert lint_policy(off) == []
    alone = replace(off.weighers[0], multiplier_key="")
    found = lint_policy(replace(off, weighers=(alone, *off.weighers[1:])))
    assert said(found) == (
        "weigher RAMWeigher: has the multiplier 0, so it has no effect; raise it, or remove the "
        "weigher"
    )


def test_a_fleet_shows_what_cannot_be_placed() -> None:
    """Impossible flavors, filters without effect and full groups are reported."""
    boxes = [Box("a"), Box("b", disabled=True)]
    group = ServerGroup("g", "web", GroupPolicy.ANTI_AFFINITY)
    hosts = table_of(
        snapshot_of(boxes, groups=[group], instances=[resident("i", boxes[0], group_uuid="g")])
    )
    flavors = [
        Flavor("1", "small", 1, 512),
        Flavor("2", "huge", 99, 512),
        Flavor("3", "odd", 1, 512, extra_specs={"trait:A": "maybe"}),
    ]
    linted = policy(filters=["TraitsFilter"])
    found = lint_fleet(linted, hosts, flavors, now_s=NOW_S)
    assert said(found) == (
        "flavor huge: currently no host passes ResourcesFilter\n"
        "flavor odd: can never be placed (trait:A: 'maybe' must be 'required' or 'forbidden'); "
        "correct its extra specs\n"
        "filter TraitsFilter: currently removes no host for any of the flavors; remove it unless "
        "future flavors or hosts need it\n"
        "server group web: has 1 members, and the fleet has room for 1: "
        "no further member can be placed; add hosts, or create another group"
    )


def test_what_flavors_do_not_say_is_not_held_against_filters() -> None:
    """Filters that flavors alone cannot trigger are not reported."""
    linted = policy(
        filters=["SameHostFilter", "ImagePropertiesFilter", "AvailabilityZoneFilter", "IoOpsFilter"]
    )
    hosts = table_of(snapshot_of([Box("a"), Box("b")]))
    assert lint_fleet(linted, hosts, [Flavor("1", "s", 1, 512)], now_s=NOW_S) == []


def test_a_flavor_that_no_host_takes_for_several_reasons_is_told_of() -> None:
    """A flavor that only all filters together exclude is reported."""
    boxes = [Box("a", traits=frozenset({"T"}), used={"VCPU": 8}), Box("b")]
    flavor = Flavor("1", "f", 1, 512, extra_specs={"trait:T": "required"})
    linted = policy(filters=["TraitsFilter"])
    found = lint_fleet(linted, table_of(snapshot_of(boxes)), [flavor], now_s=NOW_S)
    text = "flavor f: currently no host passes all of ResourcesFilter, TraitsFilter"
    assert said(found).split("\n")[0] == text
    free = table_of(snapshot_of([boxes[1], replace(boxes[0], used={})]))
    assert "no host passes" not in said(lint_fleet(linted, free, [flavor], now_s=NOW_S))


def test_weights_that_cannot_matter_on_a_fleet_are_told_of() -> None:
    """Weights without effect on the fleet are reported."""
    linted = policy(("NumInstancesWeigher", 0.0), head="host_subset_size = 2\n")
    snapshot = snapshot_of([Box("a"), Box("b")])
    assert said(lint_fleet(linted, table_of(snapshot), [], now_s=NOW_S)) == (
        "host_subset_size: 2 covers the whole fleet (2 hosts), so hosts are chosen at random and "
        "weights have no effect; lower it\n"
        "weigher NumInstancesWeigher: has the multiplier 0, and no aggregate sets "
        "num_instances_weight_multiplier, so it has no effect at present; raise it, "
        "or remove the weigher"
    )
    raised = Aggregate(1, "u", "agg", frozenset("a"), {"num_instances_weight_multiplier": "2"})
    hosts = table_of(replace(snapshot, aggregates=(raised,)))
    alone = replace(linted, host_subset_size=1)
    assert lint_fleet(alone, hosts, [], now_s=NOW_S) == []


WEIGHS_TOO_MUCH = (
    "outweighs all other weighers, which have the weight 2.5 together: values are scaled to "
    "between 0 and 1, so on its hosts the others decide only ties; lower it"
)


def test_numbers_of_aggregates_that_are_none_are_told_of() -> None:
    """Invalid or excessive numbers in aggregate metadata are reported, except a ratio of 0."""
    odd = {
        "cpu_allocation_ratio": "-1",
        "ram_allocation_ratio": "0",
        "disk_allocation_ratio": "much",
        "max_io_ops_per_host": "few",
        "ram_weight_multiplier": "high",
        "cpu_weight_multiplier": "1e6",
        "disk_weight_multiplier": "high",
        "rack": "r1",
        "": "x",
    }
    aggregates = [Aggregate(1, "u", "gold", frozenset("a"), odd)]
    linted = policy(("RAMWeigher", 2.0), ("CPUWeigher", 1.0), ("HostLotWeigher", 0.5), soft=())
    hosts = table_of(snapshot_of([Box("a")], aggregates=aggregates))
    found = lint_fleet(linted, hosts, [], now_s=NOW_S)
    odd_ratio = "is not a number above 0 and is ignored; correct it, or write 0 for the host's own"
    no_number = "is not a number and is ignored; correct it"
    assert said([one for one in found if one.where == "aggregate gold"]).split("\n") == [
        f"aggregate gold: cpu_allocation_ratio = '-1' {odd_ratio}",
        "aggregate gold: cpu_weight_multiplier = '1e6' " + WEIGHS_TOO_MUCH,
        f"aggregate gold: disk_allocation_ratio = 'much' {odd_ratio}",
        f"aggregate gold: max_io_ops_per_host = 'few' {no_number}",
        f"aggregate gold: ram_weight_multiplier = 'high' {no_number}",
    ]


def test_soft_groups_larger_than_the_fleet_are_told_of() -> None:
    """A soft anti-affinity group with more members than hosts in service is reported."""
    box = Box("a")
    group = ServerGroup("g", "web", GroupPolicy.SOFT_ANTI_AFFINITY)
    two = [resident(name, box, group_uuid="g") for name in "ij"]
    hosts = table_of(snapshot_of([box], groups=[group], instances=two))
    assert said(lint_fleet(policy(), hosts, [], now_s=NOW_S)) == (
        "server group web: has 2 members, and the fleet has 1 host in service: "
        "some of them share a host with any weights; add hosts, or create another group"
    )


def test_a_fleet_without_findings_is_silent() -> None:
    """A fleet without problems, or without hosts and flavors, has no warnings."""
    linted = policy()
    assert lint_fleet(linted, table_of(snapshot_of([])), [], now_s=NOW_S) == []
    hosts = table_of(snapshot_of([Box("a"), Box("b", disabled=True, used={"VCPU": 8})]))
    assert lint_fleet(linted, hosts, [Flavor("1", "s", 1, 512)], now_s=NOW_S) == []
