"""The quality of plans over zones, compared with one scheduler that sees all their hosts.

Policies whose scores mean the same in every zone must make exactly the plan of that scheduler, even
if one zone has much larger hosts than another. Policies that normalise values over the hosts at
hand are measured over equal zones, and over unequal ones for information.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from bench.alone import alone
from bench.cases import ZoneCases
from bench.errors import BenchError
from bench.fleet import NOW_S, FleetMember, fleet, request, snapshot_of
from berth.config.policy_file import load_policy
from berth.domain.compute.decision import Placement
from berth.domain.compute.request import Request
from berth.scheduling.evaluation.policy import Policy
from berth.scheduling.evaluation.ranking import FullRanking, Ranking
from berth.scheduling.evaluation.selection import RandomSource
from berth.scheduling.evaluation.weighing import weigh
from berth.scheduling.plan.offer_merge import merge_offers
from berth.scheduling.plan.planning import SelectionStrategy, plan_instances
from berth.scheduling.rules.rule import Query
from berth.services.zoning.offers.host_offers import incomparable_reason
from berth.tables.columnar.bitsets import Rows
from berth.tables.host.feed import table_of
from berth.tables.host.hosts import HostTable

_SCALES = (1, 2, 3, 4)
"""The factors by which the hosts of unequal zones are larger, in turn."""
_SEED = 0


@dataclass(frozen=True, slots=True)
class PlanQuality:
    """How much less total weight a merged plan has than the plan of one scheduler, in percent.

    The scheduler that sees all hosts gives the weights, each after the earlier placements.
    `compares` says whether the policy's scores are comparable between zones.
    """

    policy: str
    compares: bool
    zones_alike: bool
    short_pct: float


def measure_zone_plans(cases: ZoneCases) -> tuple[PlanQuality, ...]:
    """Return the qualities, measured in a separate process."""
    return alone(measure, cases)


def measure(cases: ZoneCases) -> tuple[PlanQuality, ...]:
    """Measure every policy over unequal zones, and over equal ones if its scores do not compare.

    Raises:
        BenchError: the fleet is too small for the request.
    """
    policies = {name: load_policy(Path(name)) for name in cases.policies}
    unlike, alike = _Fleet(cases, _SCALES), _Fleet(cases, (1,))
    found: list[PlanQuality] = []
    for name, policy in policies.items():
        compares = incomparable_reason(policy) is None
        for zones, zones_alike in ((unlike, False), (alike, True)):
            if not (compares and zones_alike):
                found.append(PlanQuality(name, compares, zones_alike, zones.short_pct(policy)))
    return tuple(found)


def plan_measures(found: Sequence[PlanQuality]) -> dict[str, float]:
    """Return the figures to which floors apply, those of the worst policies, by name."""
    equal = [one.short_pct for one in found if one.compares]
    others = [one.short_pct for one in found if not one.compares and one.zones_alike]
    named = {"zones.plan_short_pct": equal, "zones.plan_short_others_pct": others}
    return {name: max(values) for name, values in named.items() if values}


def plan_lines(found: Sequence[PlanQuality]) -> Iterator[str]:
    """Yield the figures as sentences."""
    for one in found:
        zones = "equal" if one.zones_alike else "unequal"
        compared = "" if one.compares else ", whose scores do not compare,"
        yield (
            f"Plan over zones, policy {one.policy}{compared} zones {zones}: {one.short_pct:.4f} % "
            "less weight than one scheduler's with all hosts"
        )


class _Fleet:
    """Some zones and a table of all their hosts, which are assigned to the zones in turn."""

    def __init__(self, cases: ZoneCases, scales: Sequence[int]) -> None:
        members = [
            _scaled(one, scales[index % cases.zones % len(scales)])
            for index, one in enumerate(fleet(cases.zones * cases.plan_hosts))
        ]
        self._whole = table_of(snapshot_of(members))
        self._zones = [
            table_of(snapshot_of(members[number :: cases.zones])) for number in range(cases.zones)
        ]
        self._rows = {self._whole.name(row): row for row in range(len(self._whole))}
        self._asked = request("quality", cases.plan_instances)

    def short_pct(self, policy: Policy) -> float:
        """Return how much less weight the merged plan of a policy has, in percent."""
        policy = replace(policy, alternates=0, runners_up=0)
        best = _total(_plan(self._whole, self._asked, policy))
        offers = [_plan(zone, self._asked, policy) for zone in self._zones]
        weights = [[one.chosen.score for one in each] for each in offers]
        merged = merge_offers(weights, len(self._asked.instance_uuids))
        rows = [self._rows[offers[one.source][one.place].host] for one in merged]
        got = _total(_replayed(self._whole, self._asked, policy, rows))
        # Rounding removes the differences between sums of many floats.
        return round(100 * (best - got) / abs(best), 6) + 0.0


def _scaled(member: FleetMember, scale: int) -> FleetMember:
    if scale == 1:
        return member
    inventories = {
        name: replace(one, total=one.total * scale)
        for name, one in member.provider.inventories.items()
    }
    return replace(member, provider=replace(member.provider, inventories=inventories))


def _plan(hosts: HostTable, asked: Request, policy: Policy) -> Sequence[Placement]:
    plan = policy.driver.plan(hosts, asked, policy, now_s=NOW_S, seed=_SEED)
    if plan.refusal is not None:
        raise BenchError(f"policy {policy.name}: {plan.refusal.message}")
    return plan.placements


def _replayed(
    hosts: HostTable, asked: Request, policy: Policy, rows: Sequence[int]
) -> Sequence[Placement]:
    """Place instances on given hosts, one after another, and weigh each among all hosts."""
    wanted = iter(rows)

    def rank(table: HostTable, query: Query, passed: Rows) -> FullRanking:
        return weigh(table, query, passed, policy.weighers, policy.normalisation)

    def pick(ranked: Ranking, _: RandomSource) -> tuple[int, list[int]]:
        number = ranked.find(next(wanted))
        if number is None:
            raise BenchError(f"policy {policy.name}: a zone chose a host that all would refuse")
        return number, []

    manner = SelectionStrategy(rank, pick)
    return plan_instances(hosts, asked, policy, manner, now_s=NOW_S, seed=_SEED).placements


def _total(placements: Sequence[Placement]) -> float:
    return sum(one.chosen.score for one in placements)
