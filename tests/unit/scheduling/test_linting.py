"""Linting: traps are told of, and a sound policy is not talked about."""

from collections.abc import Sequence
from dataclasses import replace

import pytest

from berth.config.policy_file import parse_policy
from berth.domain.flavor import Flavor
from berth.domain.server_group import GroupPolicy, ServerGroup
from berth.scheduling.linting import Finding, lint_fleet, lint_policy
from berth.scheduling.policy import Policy
from berth.tables.following import table_of
from berth.testing.fleets import NOW_S, Box, resident, snapshot_of

GROUPS = ("ServerGroupAntiAffinityFilter", "ServerGroupAffinityFilter")
SOFT = (("ServerGroupSoftAffinityWeigher", 5.0), ("ServerGroupSoftAntiAffinityWeigher", 5.0))


def policy(
    *weighers: tuple[str, float],
    filters: Sequence[str] = (),
    soft: Sequence[tuple[str, float]] = SOFT,
    driver: str = "filter",
    groups: Sequence[str] = GROUPS,
) -> Policy:
    """Return a policy with these rules beside those that every policy should have."""
    rules = "".join(f'[[filters]]\nname = "{n}"\n' for n in ("ResourcesFilter", *groups, *filters))
    weights = "".join(
        f'[[weighers]]\nname = "{name}"\nmultiplier = {by}\n' for name, by in (*weighers, *soft)
    )
    return parse_policy(f'name = "p"\ndriver = "{driver}"\n{rules}{weights}', "p.toml")


def said(found: Sequence[Finding]) -> str:
    """Return all findings as one text."""
    return "\n".join(f"{one.where}: {one.text}" for one in found)


def test_a_sound_policy_has_no_findings() -> None:
    """Nothing is said for the sake of saying something."""
    assert lint_policy(policy(("RAMWeigher", 1.0), ("CPUWeigher", 1.0))) == []


@pytest.mark.parametrize(
    ("linted", "text"),
    [
        (
            policy(("BuildFailureWeigher", 1e6), ("RAMWeigher", 1.0)),
            "weigher BuildFailureWeigher: weighs 1e+06 beside 1 of RAMWeigher together",
        ),
        (
            policy(("BuildFailureWeigher", 1e6), ("CrossCellWeigher", 1e6), ("CPUWeigher", 1.0)),
            "weigher CrossCellWeigher: weighs 1e+06 beside 1 of CPUWeigher together",
        ),
        (
            policy(("RAMWeigher", 2.0), ("CPUWeigher", 2.0), soft=[(n, 1.0) for n, _ in SOFT]),
            "weighs 1 beside 4, so soft groups are often overruled",
        ),
        (
            policy(("RAMWeigher", -1.0), ("CPUWeigher", 1.0)),
            "weighers: RAMWeigher pack while CPUWeigher spread: they pull apart",
        ),
        (policy(filters=["AllHostsFilter"]), "AllHostsFilter: can hardly ever exclude"),
        (policy(filters=["RamFilter"]), "RamFilter: can hardly ever exclude"),
        (policy(driver="chance"), "driver: chance does not weigh"),
        (policy(groups=GROUPS[1:]), "without ServerGroupAntiAffinityFilter, anti-affinity groups"),
        (policy(soft=SOFT[:1]), "without ServerGroupSoftAntiAffinityWeigher, soft-anti-affinity"),
    ],
)
def test_traps_are_told_of(linted: Policy, text: str) -> None:
    """Each with its place."""
    assert text in said(lint_policy(linted))


def test_a_multiplier_that_aggregates_may_raise_can_matter() -> None:
    """Zero is how such a weigher is left to them."""
    off = policy(("RAMWeigher", 0.0), ("CPUWeigher", 1.0))
    assert lint_policy(off) == []
    alone = replace(off.weighers[0], multiplier_key="")
    found = lint_policy(replace(off, weighers=(alone, *off.weighers[1:])))
    assert said(found) == "weigher RAMWeigher: multiplier 0 cannot matter; take it out or raise it"


def test_a_fleet_shows_what_cannot_be_placed() -> None:
    """Flavors that contradict themselves, that no host can take, and groups that are full."""
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
    linted = policy(filters=["TraitsFilter", "ComputeFilter"])
    found = lint_fleet(linted, hosts, flavors, now_s=NOW_S)
    assert said(found) == (
        "flavor huge: no host passes ResourcesFilter now\n"
        "flavor odd: can never be placed: trait:A: 'maybe' must be 'required' or 'forbidden'; "
        "correct its extra specs\n"
        "filter TraitsFilter: removes no host for any of the flavors now\n"
        "server group web: has 1 members, and the fleet has room for 1: "
        "no further member can be placed"
    )


def test_a_fleet_without_findings_is_silent() -> None:
    """As one without hosts or flavors, of which nothing can be said."""
    linted = policy(filters=["ComputeFilter"])
    assert lint_fleet(linted, table_of(snapshot_of([])), [], now_s=NOW_S) == []
    hosts = table_of(snapshot_of([Box("a"), Box("b", disabled=True, used={"VCPU": 8})]))
    assert lint_fleet(linted, hosts, [Flavor("1", "s", 1, 512)], now_s=NOW_S) == []
