"""The law of merged plans: zones together choose as one scheduler with all hosts would."""

from collections.abc import Sequence
from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from berth.domain.compute.request import Request
from berth.domain.compute.server_group import GroupPolicy, ServerGroup
from berth.scheduling.costs import compute_fill_first, noop
from berth.scheduling.drivers import least_cost
from berth.scheduling.evaluation.policy import Policy
from berth.scheduling.plan.offer_merge import merge_offers
from berth.scheduling.rules.rule import Normalisation
from berth.tables.host.feed import table_of
from berth.testing.fleets import NOW_S, Box, all_weighers, asking, policy_of, sized, snapshot_of

WEIGHERS = all_weighers()
"""As a share, each weigher reads one host at a time, also those about groups."""

GROUPS = (
    None,
    ServerGroup("g", "near", GroupPolicy.SOFT_AFFINITY),
    ServerGroup("g", "apart", GroupPolicy.SOFT_ANTI_AFFINITY),
)


def shared_policy(weighers: Sequence[int]) -> Policy:
    """Return a policy whose scores are comparable between zones."""
    policy = policy_of(weighers=[WEIGHERS[number] for number in weighers])
    return replace(policy, normalisation=Normalisation.SHARE, alternates=0, runners_up=0)


def cost_policy(weights: Sequence[float]) -> Policy:
    """Return a policy whose sums of costs are comparable between zones."""
    costs = (compute_fill_first.build(weight=weights[0]), noop.build(weight=weights[-1]))
    return replace(shared_policy([0]), driver=least_cost.build(), costs=costs)


def weights_of(
    boxes: Sequence[Box], request: Request, policy: Policy, group: ServerGroup | None = None
) -> list[float]:
    """Return the weights of a zone's offers, for as many instances of the request as fit."""
    hosts = table_of(snapshot_of(boxes, groups=() if group is None else (group,)))
    for count in range(len(request.instance_uuids), 0, -1):
        part = replace(request, instance_uuids=request.instance_uuids[:count])
        plan = policy.driver.plan(hosts, part, policy, now_s=NOW_S, seed=0)
        if plan.refusal is None:
            return [one.chosen.score for one in plan.placements]
    return []


@st.composite
def fleets(draw: st.DrawFn) -> list[list[Box]]:
    """Draw up to four zones of up to four hosts, all with different names."""
    zones = draw(st.lists(st.integers(1, 4), min_size=1, max_size=4))
    numbers = iter(range(100))
    return [
        [
            Box(
                f"host-{next(numbers):02}",
                inventories=sized(
                    draw(st.integers(1, 4)),
                    draw(st.integers(1024, 6000)),
                    draw(st.integers(10, 60)),
                ),
            )
            for _ in range(count)
        ]
        for count in zones
    ]


@given(
    fleets(),
    st.integers(1, 8),
    st.lists(st.integers(0, len(WEIGHERS) - 1), min_size=1, max_size=5, unique=True),
    st.sampled_from(GROUPS),
)
def test_a_merged_plan_is_that_of_one_scheduler(
    zones: list[list[Box]], count: int, weighers: list[int], group: ServerGroup | None
) -> None:
    """Merged offers of zones have the weights of one scheduler's plan, instance by instance."""
    request = replace(asking(count=count), group_uuid=None if group is None else group.uuid)
    check(zones, request, shared_policy(weighers), group)


@given(
    fleets(),
    st.integers(1, 8),
    st.lists(st.floats(-2, 2).map(lambda weight: round(weight, 3)), min_size=1, max_size=2),
)
def test_so_is_one_of_costs(zones: list[list[Box]], count: int, weights: list[float]) -> None:
    """The same law holds for the least-cost driver, whose costs do not depend on other hosts."""
    check(zones, asking(count=count), cost_policy(weights))


def check(
    zones: Sequence[Sequence[Box]],
    request: Request,
    policy: Policy,
    group: ServerGroup | None = None,
) -> None:
    """Check that the merged weights equal those of one scheduler with the hosts of all zones."""
    count = len(request.instance_uuids)
    merged = merge_offers([weights_of(boxes, request, policy, group) for boxes in zones], count)
    whole = weights_of([box for boxes in zones for box in boxes], request, policy, group)
    assert [one.weight for one in merged] == whole
