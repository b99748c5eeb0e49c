"""Linting: what a policy says that cannot have been meant, alone or on a given fleet.

None of it is an error: a policy with findings is in force like any other. The traps are those that
operators of Nova have fallen into (nova.md 2.7, 7).
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from berth.domain.errors import InvalidInputError
from berth.domain.flavor import Flavor
from berth.domain.request import Request
from berth.domain.server_group import GroupPolicy, ServerGroup
from berth.scheduling.chain import Chain
from berth.scheduling.policy import Policy
from berth.scheduling.reduction import reduce_hosts
from berth.scheduling.rule import Normalisation, Query, Weigher
from berth.tables.hosts import HostTable

_OVERRULES: Final = 100.0
"""A weigher that weighs so many times as much as all lesser ones together leaves them ties only."""

_SOFT: Final = {
    GroupPolicy.SOFT_AFFINITY: "ServerGroupSoftAffinityWeigher",
    GroupPolicy.SOFT_ANTI_AFFINITY: "ServerGroupSoftAntiAffinityWeigher",
}
_HARD: Final = {
    GroupPolicy.AFFINITY: "ServerGroupAffinityFilter",
    GroupPolicy.ANTI_AFFINITY: "ServerGroupAntiAffinityFilter",
}
_UNWEIGHED: Final = frozenset({"chance", "simple", "availability_zone", "least_cost"})
_COVERED: Final = frozenset({"CoreFilter", "RamFilter", "DiskFilter", "AllHostsFilter"})
"""Filters that remove no host but those that ResourcesFilter removes, or none at all."""


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that is probably not meant: where in the policy or fleet, what, and what to do."""

    where: str
    text: str


def lint_policy(policy: Policy) -> list[Finding]:
    """Tell what is odd about a policy by itself."""
    return [
        *_useless_filters(policy),
        *_missing_group_rules(policy),
        *_unweighed(policy),
        *_weights(policy),
    ]


def lint_fleet(
    policy: Policy, hosts: HostTable, flavors: Iterable[Flavor], *, now_s: float
) -> list[Finding]:
    """Tell what is odd about a policy on a fleet, with its flavors and server groups.

    Args:
        policy: the rules.
        hosts: the fleet.
        flavors: what may be asked of it.
        now_s: Unix seconds, for heartbeats.
    """
    found: list[Finding] = []
    removed = np.zeros(len(policy.filters), dtype=np.int64)
    asked = 0
    for flavor in flavors:
        try:
            counts = _removed_by_each(policy, hosts, flavor, now_s)
        except InvalidInputError as error:
            text = f"can never be placed: {error}; correct its extra specs"
            found.append(Finding(f"flavor {flavor.name}", text))
            continue
        asked += 1
        removed += counts
        found.extend(_unplaceable(policy, hosts, flavor, counts))
    if asked and len(hosts.alive_rows()):
        found.extend(
            Finding(f"filter {rule.name}", "removes no host for any of the flavors now")
            for rule, count in zip(policy.filters, removed, strict=True)
            if not count and rule.name not in {*_HARD.values(), "RetryFilter"}
        )
    found.extend(_large_groups(hosts))
    return found


def _useless_filters(policy: Policy) -> Iterator[Finding]:
    for rule in policy.filters:
        if rule.name in _COVERED:
            reason = "it passes everything"
            if rule.name != "AllHostsFilter":
                reason = "ResourcesFilter removes what it removes, unless flavors say resources:"
            yield Finding(f"filter {rule.name}", f"can hardly ever exclude a host: {reason}")


def _missing_group_rules(policy: Policy) -> Iterator[Finding]:
    filters = {rule.name for rule in policy.filters}
    weighers = {rule.name for rule in policy.weighers if rule.multiplier}
    for group_policy, name in _HARD.items():
        if name not in filters:
            yield Finding("filters", f"without {name}, {group_policy} groups are not kept; add it")
    for group_policy, name in _SOFT.items():
        if name not in weighers:
            yield Finding("weighers", f"without {name}, {group_policy} groups do nothing; add it")


def _unweighed(policy: Policy) -> Iterator[Finding]:
    if policy.driver.name in _UNWEIGHED and policy.weighers:
        text = f"{policy.driver.name} does not weigh, so the weighers play no part"
        yield Finding("driver", text)


def _weights(policy: Policy) -> Iterator[Finding]:
    # A soft group weigher counts for its own groups only, and never two of them at once.
    soft = frozenset(_SOFT.values())
    usual = [one for one in policy.weighers if one.name not in soft]
    for one in policy.weighers:
        if not one.multiplier and not one.multiplier_key:
            text = "multiplier 0 cannot matter; take it out or raise it"
            yield Finding(f"weigher {one.name}", text)
    yield from _overruling(usual)
    total = sum(abs(one.multiplier) for one in usual if abs(one.multiplier) < _OVERRULES)
    for one in policy.weighers if policy.normalisation is Normalisation.NOVA else ():
        mine = abs(one.multiplier)
        if one.name in soft and 0 < mine <= total / 2:
            yield Finding(
                f"weigher {one.name}",
                f"weighs {mine:,g} beside {total:,g}, so soft groups are often overruled; "
                "give it more than the others together to have them kept",
            )
    yield from _pulling_apart(policy.weighers)


def _overruling(weighers: Sequence[Weigher]) -> Iterator[Finding]:
    """Tell of weighers that leave all lesser ones only the ties."""
    ranked = sorted((one for one in weighers if one.multiplier), key=lambda w: -abs(w.multiplier))
    for count in range(1, len(ranked)):
        lesser = sum(abs(one.multiplier) for one in ranked[count:])
        # A little weight beside large ones is how ties are broken on purpose.
        if abs(ranked[count - 1].multiplier) < _OVERRULES * max(lesser, 1.0):
            continue
        for one in ranked[:count]:
            yield Finding(
                f"weigher {one.name}",
                f"weighs {abs(one.multiplier):,g} beside {lesser:,g} of "
                f"{', '.join(lesser_one.name for lesser_one in ranked[count:])} together: values "
                "are put between 0 and 1, so these decide among its ties only",
            )
        return


def _pulling_apart(weighers: Sequence[Weigher]) -> Iterator[Finding]:
    """Tell of free resources that are weighed in opposite directions."""
    free = [w for w in weighers if w.name in {"RAMWeigher", "CPUWeigher", "DiskWeigher"}]
    packs = [one.name for one in free if one.multiplier < 0]
    spreads = [one.name for one in free if one.multiplier > 0]
    if packs and spreads:
        text = f"{', '.join(packs)} pack while {', '.join(spreads)} spread: they pull apart"
        yield Finding("weighers", text)


def _removed_by_each(
    policy: Policy, hosts: HostTable, flavor: Flavor, now_s: float
) -> "np.ndarray[tuple[int], np.dtype[np.int64]]":
    request = Request("lint", ("lint",), flavor)
    query = Query(request, request.needs, now_s, None, "lint")
    chain = Chain(hosts, policy.filters, reduce_hosts(hosts, request))
    verdicts = chain.verdicts(query)
    return np.array([np.count_nonzero(hosts.alive & ~verdict) for verdict in verdicts], np.int64)


def _unplaceable(
    policy: Policy,
    hosts: HostTable,
    flavor: Flavor,
    removed: "np.ndarray[tuple[int], np.dtype[np.int64]]",
) -> Iterator[Finding]:
    alive = len(hosts.alive_rows())
    alone = [
        rule.name
        for rule, count in zip(policy.filters, removed, strict=True)
        if alive and count == alive
    ]
    if alone:
        text = f"no host passes {' nor '.join(alone)} now"
        yield Finding(f"flavor {flavor.name}", text)


def _large_groups(hosts: HostTable) -> Iterator[Finding]:
    usable = int(np.count_nonzero(hosts.alive & hosts.enabled))
    for group in hosts.server_groups.values():
        members = sum(hosts.occupants.group_rows(group.uuid).values())
        if group.policy is GroupPolicy.ANTI_AFFINITY and members >= _room(group, usable):
            yield Finding(
                f"server group {group.name}",
                f"has {members:,} members, and the fleet has room for "
                f"{_room(group, usable):,}: no further member can be placed",
            )


def _room(group: ServerGroup, usable: int) -> int:
    return usable * group.max_server_per_host
