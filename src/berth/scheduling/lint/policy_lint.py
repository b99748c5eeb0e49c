"""Warnings about settings of a policy that are probably not intended, alone or on a given fleet.

A warning is not an error: a policy with warnings takes effect like any other. The checks cover
mistakes that operators of Nova have made (nova-behaviour.md 2.7, 7).
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final

import numpy as np

from berth.domain.compute.flavor import Flavor
from berth.domain.compute.request import Operation, Request
from berth.domain.compute.server_group import GroupPolicy, ServerGroup
from berth.domain.errors import InvalidInputError
from berth.scheduling.drivers.multi import MultiScheduler
from berth.scheduling.evaluation.filter_chain import FilterChain
from berth.scheduling.evaluation.policy import Policy
from berth.scheduling.evaluation.weighing import is_off
from berth.scheduling.lint.flavor_lint import lint_flavor
from berth.scheduling.lint.fleet_lint import OVERRULES, lint_aggregates, lint_values
from berth.scheduling.lint.lint_warning import LintWarning
from berth.scheduling.plan.group_policies import GROUP_FILTERS
from berth.scheduling.rules.reduction import reduce_hosts
from berth.scheduling.rules.rule import Filter, Normalisation, Query, Weigher, count_hosts
from berth.tables.columnar.bitsets import Mask
from berth.tables.host.hosts import HostTable

_SOFT: Final = {
    GroupPolicy.SOFT_AFFINITY: "ServerGroupSoftAffinityWeigher",
    GroupPolicy.SOFT_ANTI_AFFINITY: "ServerGroupSoftAntiAffinityWeigher",
}
_ALIVE: Final = "ComputeFilter"
_ZONE_AGGREGATES: Final = "AvailabilityZoneAggregateFilter"
_MOVES: Final = "CrossCellWeigher"
_FREE: Final = frozenset({"RAMWeigher", "CPUWeigher", "DiskWeigher"})
_UNWEIGHED: Final = frozenset({"chance", "simple", "availability_zone", "least_cost"})
# Filters that rarely remove a host that ResourcesFilter passes, with the reason.
_COVERED: Final[Mapping[str, str]] = {
    "AllHostsFilter": "every host passes it",
    **dict.fromkeys(
        ("CoreFilter", "RamFilter", "DiskFilter"),
        "ResourcesFilter removes the same hosts, unless flavors have resources:CLASS specs",
    ),
    **dict.fromkeys(
        ("AggregateCoreFilter", "AggregateRamFilter", "AggregateDiskFilter"),
        "a host's own ratio is the lowest of its aggregates, and ResourcesFilter applies it",
    ),
}
# Filters that pass every host unless one of these options is set.
_SWITCHES: Final[Mapping[str, tuple[str, ...]]] = {
    "MetricsFilter": ("weight_setting",),
    "IsolatedHostsFilter": ("isolated_images", "isolated_hosts"),
    "TenantAggregateFilter": ("limit_tenants_to_placement_aggregate",),
    "IsolatedAggregatesFilter": ("enable_isolated_aggregate_filtering",),
    "ImageTypeSupportFilter": ("query_placement_for_image_type_support",),
    "ImageMetadataFilter": ("image_metadata_prefilter",),
}


def lint_policy(policy: Policy) -> list[LintWarning]:
    """Return the warnings about a policy alone."""
    return [
        *_useless_filters(policy),
        *_missing_rules(policy),
        *_loose_zones(policy),
        *_unweighed(policy),
        *_weights(policy),
    ]


def lint_fleet(
    policy: Policy, hosts: HostTable, flavors: Iterable[Flavor], *, now_s: float
) -> list[LintWarning]:
    """Return the warnings about a policy on a fleet with its flavors and server groups.

    Args:
        policy: the rules.
        hosts: the fleet.
        flavors: the flavors that requests may use.
        now_s: Unix seconds, for heartbeats.
    """
    # Flavors are checked for builds; a multi driver may add other filters for other operations.
    policy = policy.effective(Operation.CREATE)
    found: list[LintWarning] = []
    removed = np.zeros(len(policy.filters), dtype=np.int64)
    names = frozenset(rule.name for rule in policy.filters)
    queries: list[Query] = []
    for flavor in flavors:
        try:
            masks = _removed_by_each(policy, hosts, flavor, now_s)
        except InvalidInputError as error:
            # One faulty flavor must not hide the warnings about all others.
            text = f"can never be placed ({error}); correct its extra specs"
            found.append(LintWarning(f"flavor {flavor.name}", text))
            continue
        queries.append(_query_for(flavor, now_s))
        removed += [np.count_nonzero(mask) for mask in masks]
        found.extend(lint_flavor(flavor, _request_for(flavor).needs, names))
        found.extend(_unplaceable(policy, hosts, flavor, masks))
    if queries and len(hosts.alive_rows()):
        found.extend(
            LintWarning(
                f"filter {rule.name}",
                "currently removes no host for any of the flavors; remove it unless future flavors "
                "or hosts need it",
            )
            for rule, count in zip(policy.filters, removed, strict=True)
            if not count and _is_about_flavors(rule) and not _uselessness(rule)
        )
    found.extend(lint_values(policy, hosts, queries))
    found.extend(lint_aggregates(hosts.aggregates.values(), policy))
    found.extend(_idle_weights(policy, hosts))
    found.extend(_large_groups(hosts))
    return found


def _is_about_flavors(rule: Filter) -> bool:
    """Return whether a filter's verdicts depend on the flavor and not on the state of hosts.

    The checks use no images, hints, zones or groups, and the verdicts of filters for services or
    load change from day to day. ResourcesFilter is exempt because every policy must have it.
    """
    read = rule.reads.request
    of_flavors = bool(read) and all(path.startswith(("flavor", "needs")) for path in read)
    return of_flavors and rule.name != "ResourcesFilter"


def _useless_filters(policy: Policy) -> Iterator[LintWarning]:
    for rule in policy.filters:
        reason = _uselessness(rule)
        if reason:
            yield LintWarning(f"filter {rule.name}", reason)


def _uselessness(rule: Filter) -> str:
    """Return why a filter hardly ever removes a host on any fleet; empty for one that may."""
    if rule.name in _COVERED:
        return f"hardly ever removes a host: {_COVERED[rule.name]}"
    switches = _SWITCHES.get(rule.name, ())
    if not switches or any(rule.options.get(name) for name in switches):
        return ""
    named = " or ".join(switches)
    return f"never removes a host unless {named} is set; set it, or remove the filter"


def _missing_rules(policy: Policy) -> Iterator[LintWarning]:
    filters = {rule.name for rule in policy.effective(Operation.CREATE).filters}
    if _ALIVE not in filters:
        text = f"without {_ALIVE}, hosts that are down or disabled are also chosen; add it"
        yield LintWarning("filters", text)
    weighers = {rule.name for rule in policy.weighers if rule.multiplier}
    for group_policy, name in GROUP_FILTERS.items():
        if name not in filters:
            text = f"without {name}, servers of {group_policy} groups are refused; add it"
            yield LintWarning("filters", text)
    for group_policy, name in _SOFT.items():
        if name not in weighers:
            yield LintWarning(
                "weighers", f"without {name}, {group_policy} groups have no effect; add it"
            )


def _loose_zones(policy: Policy) -> Iterator[LintWarning]:
    """Yield a warning if availability zones may restrict nothing (nova-behaviour.md 2.8)."""
    names = {rule.name for rule in policy.filters}
    if _ZONE_AGGREGATES in names and "AvailabilityZoneFilter" not in names:
        yield LintWarning(
            f"filter {_ZONE_AGGREGATES}",
            "lets a request for a zone without an aggregate, such as the default zone, land in any "
            "zone; add AvailabilityZoneFilter unless this is intended",
        )


def _unweighed(policy: Policy) -> Iterator[LintWarning]:
    driver = policy.driver
    names = driver.wanted if isinstance(driver, MultiScheduler) else {driver.name}
    if _UNWEIGHED.issuperset(names) and policy.weighers:
        verb = "does" if len(names) == 1 else "do"
        text = (
            f"weighers have no effect, because {' and '.join(sorted(names))} {verb} not weigh "
            "hosts; remove them, or use another driver"
        )
        yield LintWarning("driver", text)


def _weights(policy: Policy) -> Iterator[LintWarning]:
    # A request belongs to one group at most, so the two soft group weighers never apply together,
    # and the weigher for moves across cells applies to moves only.
    soft = frozenset(_SOFT.values())
    weighers = [one for one in policy.weighers if not _is_silent(one)]
    usual = [one for one in weighers if one.name not in soft]
    for one in policy.weighers:
        if one not in weighers:
            text = "has no weight_setting, so it has no effect; set it, or remove the weigher"
            yield LintWarning(f"weigher {one.name}", text)
        elif not one.multiplier and not one.multiplier_key:
            text = "has the multiplier 0, so it has no effect; raise it, or remove the weigher"
            yield LintWarning(f"weigher {one.name}", text)
    yield from _overruling(usual)
    beside = [one for one in usual if one.name != _MOVES]
    total = sum(abs(one.multiplier) for one in beside if abs(one.multiplier) < OVERRULES)
    for one in weighers:
        mine = abs(one.multiplier)
        if one.name in soft and 0 < mine <= total / 2:
            yield LintWarning(
                f"weigher {one.name}",
                f"has the weight {mine:,g}, and the others have {total:,g} together, so they often "
                "overrule soft groups; give it more weight than the others together",
            )
    yield from _pulling_apart(weighers)
    if policy.normalisation is Normalisation.NOVA:
        yield from _newest(usual)


def _is_silent(weigher: Weigher) -> bool:
    """Return whether a weigher of metrics has no metric to weigh, whatever the hosts are."""
    if weigher.name != "MetricsWeigher":
        return False
    request = _request_for(Flavor("lint", "lint", 1, 1))
    query = Query(request, request.needs, 0.0, None, "lint")
    return weigher.raw(HostTable(), query, slice(0, 0)) is None


def _newest(weighers: Sequence[Weigher]) -> Iterator[LintWarning]:
    """Yield a warning if the hypervisor version weighs at least as much as a free resource."""
    free = [abs(one.multiplier) for one in weighers if one.name in _FREE]
    for one in weighers:
        if one.name == "HypervisorVersionWeigher" and free and abs(one.multiplier) >= min(free):
            yield LintWarning(
                f"weigher {one.name}",
                f"has the weight {abs(one.multiplier):,g}, so a slightly newer version outweighs a "
                "free resource; lower it to 0.01 so that versions only break ties",
            )


def _overruling(weighers: Sequence[Weigher]) -> Iterator[LintWarning]:
    """Yield a warning for each weigher that leaves only ties to all lesser ones."""
    ranked = sorted((one for one in weighers if one.multiplier), key=lambda w: -abs(w.multiplier))
    for count in range(1, len(ranked)):
        lesser = sum(abs(one.multiplier) for one in ranked[count:])
        # Small weights next to large ones break ties on purpose, so a total below 1 counts as 1.
        if abs(ranked[count - 1].multiplier) < OVERRULES * max(lesser, 1.0):
            continue
        for one in ranked[:count]:
            yield LintWarning(
                f"weigher {one.name}",
                f"has the weight {abs(one.multiplier):,g}, and all lesser ones have {lesser:,g} "
                f"together ({', '.join(lesser_one.name for lesser_one in ranked[count:])}): values "
                "are scaled to between 0 and 1, so the lesser ones decide only its ties; lower it "
                "unless this is intended",
            )
        return


def _pulling_apart(weighers: Sequence[Weigher]) -> Iterator[LintWarning]:
    """Yield a warning if free resources are weighed in opposite directions."""
    free = [one for one in weighers if one.name in _FREE]
    packs = [one.name for one in free if one.multiplier < 0]
    spreads = [one.name for one in free if one.multiplier > 0]
    if packs and spreads:
        text = (
            f"packing by {', '.join(packs)} and spreading by {', '.join(spreads)} conflict; give "
            "their multipliers the same sign"
        )
        yield LintWarning("weighers", text)


def _request_for(flavor: Flavor) -> Request:
    return Request("lint", ("lint",), flavor)


def _query_for(flavor: Flavor, now_s: float) -> Query:
    request = _request_for(flavor)
    return Query(request, request.needs, now_s, None, "lint")


def _removed_by_each(
    policy: Policy, hosts: HostTable, flavor: Flavor, now_s: float
) -> Sequence[Mask]:
    """Return, for each filter, an (N,) mask of the hosts that it removes for a flavor."""
    query = _query_for(flavor, now_s)
    chain = FilterChain(hosts, policy.filters, reduce_hosts(hosts, query.request))
    return [hosts.alive & ~verdict for verdict in chain.verdicts(query)]


def _unplaceable(
    policy: Policy, hosts: HostTable, flavor: Flavor, removed: Sequence[Mask]
) -> Iterator[LintWarning]:
    alive = len(hosts.alive_rows())
    where = f"flavor {flavor.name}"
    counts = {
        rule.name: int(np.count_nonzero(mask))
        for rule, mask in zip(policy.filters, removed, strict=True)
    }
    alone = [name for name, count in counts.items() if alive and count == alive]
    if alone:
        yield LintWarning(where, f"currently no host passes {' or '.join(alone)}")
    elif alive and int(np.count_nonzero(np.logical_or.reduce(removed))) == alive:
        named = ", ".join(name for name, count in counts.items() if count)
        yield LintWarning(where, f"currently no host passes all of {named}")


def _idle_weights(policy: Policy, hosts: HostTable) -> Iterator[LintWarning]:
    """Yield warnings about weights that have no effect on this fleet."""
    alive = len(hosts.alive_rows())
    if alive and policy.host_subset_size >= alive and policy.host_subset_size > 1:
        text = (
            f"{policy.host_subset_size:,} covers the whole fleet ({count_hosts(alive)}), so hosts "
            "are chosen at random and weights have no effect; lower it"
        )
        yield LintWarning("host_subset_size", text)
    for one in policy.weighers:
        if not one.multiplier and one.multiplier_key and is_off(hosts, one):
            text = (
                f"has the multiplier 0, and no aggregate sets {one.multiplier_key}, so it has no "
                "effect at present; raise it, or remove the weigher"
            )
            yield LintWarning(f"weigher {one.name}", text)


def _large_groups(hosts: HostTable) -> Iterator[LintWarning]:
    usable = int(np.count_nonzero(hosts.alive & hosts.enabled))
    for group in hosts.server_groups.values():
        members = sum(hosts.occupants.groups.rows(group.uuid).values())
        where = f"server group {group.name}"
        if group.policy is GroupPolicy.ANTI_AFFINITY and members >= _member_limit(group, usable):
            yield LintWarning(
                where,
                f"has {members:,} members, and the fleet has room for "
                f"{_member_limit(group, usable):,}: no further member can be placed; add hosts, or "
                "create another group",
            )
        if group.policy is GroupPolicy.SOFT_ANTI_AFFINITY and members > usable:
            yield LintWarning(
                where,
                f"has {members:,} members, and the fleet has {count_hosts(usable)} in service: "
                "some of them share a host with any weights; add hosts, or create another group",
            )


def _member_limit(group: ServerGroup, usable: int) -> int:
    return usable * group.max_server_per_host
