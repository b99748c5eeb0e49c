"""The decision service, which chooses hosts for instances from this process's replica."""

import asyncio
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import Final, Protocol, TypeAlias

from berth.domain.compute.decision import Decision, TriedDecision, Verdict
from berth.domain.compute.request import Request
from berth.ports.clock import Clock
from berth.ports.observer import NO_OBSERVER, Observer
from berth.ports.telemetry import Telemetry
from berth.scheduling.evaluation.guarded_rules import RuleFailure
from berth.scheduling.evaluation.policy import Policy
from berth.scheduling.plan.capacity import Capacity, capacity_in_slices
from berth.scheduling.plan.group_policies import plan_with_group_policy
from berth.scheduling.plan.inspection import counterfactuals_of
from berth.scheduling.plan.instance_rules import excluding_hosts
from berth.scheduling.plan.planning import seed_of
from berth.services.decisions.contention import Contention
from berth.services.replica.replica import Replica
from berth.services.servers.moves import is_move, outside_server_group
from berth.tables.host.hosts import HostTable

# At most this many variants of a policy are cached. Each takes a few hundred bytes.
_VARIANTS_MAX: Final = 256
# A filter that fails once usually fails for many refusals.
_TELL_EVERY_S: Final = 60.0
# A trial placement takes about 0.25 ms.
_TRIALS_MAX: Final = 2_000


Around: TypeAlias = Callable[[HostTable], AbstractContextManager[object]]
"""(hosts) -> a context for work on a table that must not be interrupted."""


def _as_it_is(_: HostTable) -> AbstractContextManager[object]:
    return nullcontext()


class PolicyInForce(Protocol):
    """Provides the current policy, which may change between two decisions."""

    @property
    def policy(self) -> Policy:
        """The policy in force now."""
        ...


class DecisionService:
    """Makes decisions from the replica for requests, dry runs and zone offers; records none.

    Args:
        replica: the host table.
        policies: provides the policy in force.
        clock: provides the time for heartbeats and records.
        observer: receives the stages of each decision.

    Attributes:
        contention: the reaction to lost claims, shared by all users of the service.
    """

    def __init__(
        self,
        replica: Replica,
        policies: PolicyInForce,
        clock: Clock,
        observer: Observer = NO_OBSERVER,
        telemetry: Telemetry | None = None,
    ) -> None:
        self._replica = replica
        self._policies = policies
        self._clock = clock
        self._observer = observer
        self._telemetry = telemetry
        self._told_s: dict[str, float] = {}
        self.contention = Contention()
        # The policy in force, and its variants with a larger subset, by size. A scheduler that
        # competes with others needs one for each decision.
        self._base: Policy | None = None
        self._variants: dict[int, Policy] = {}

    def note_claim(self, *, is_lost: bool) -> None:
        """Record whether the claim of a decision was lost; later decisions take it into account."""
        self.contention.note(is_lost=is_lost, most=self._policies.policy.contended_subset_size)

    def decide(
        self, request: Request, *, attempt: int = 1, left_out: frozenset[str] = frozenset()
    ) -> Decision:
        """Return the decision on a request, made on the current host table.

        A hard server group policy holds even when no filter of the policy enforces it.

        Args:
            request: the request.
            attempt: the number of decisions on this request, including this one.
            left_out: names of hosts to leave out, because their instance lists are in doubt.

        Raises:
            InvalidInputError: the flavor or the image has a spec that cannot be parsed.
        """
        with self._observer.decide(request, attempt) as report:
            decision = self._decide(request, attempt, left_out)
            report(decision)
        return decision

    def _decide(self, request: Request, attempt: int, left_out: frozenset[str]) -> Decision:
        # The policy is read once, so that the plan and its record refer to the same one even when
        # the file changes.
        policy = self._policies.policy
        policy = self._under_contention(policy)
        if left_out:
            policy = excluding_hosts(policy, left_out)
        hosts = self._replica.hosts
        # Each attempt has another seed. Otherwise a retry could draw the same host again from a
        # table that does not show the lost race yet.
        seed = seed_of(request.request_id) + attempt - 1
        now_s = self._clock.now_s()
        began_ns = self._clock.ticks_ns()
        # The instance to be moved must not count as a member on its own source host, or
        # anti-affinity would exclude that host and affinity would require it.
        moves = is_move(request)
        with outside_server_group(hosts, request.instance_uuids[0]) if moves else nullcontext():
            plan = plan_with_group_policy(hosts, request, policy, now_s=now_s, seed=seed)
        for failure in plan.failures:
            self._observer.rule_failed(failure.rule, failure.error)
            self._tell(failure, request, now_s)
        # The duration covers only the plan, not the building of the record.
        duration_us = (self._clock.ticks_ns() - began_ns) // 1000
        return Decision(
            request_id=request.request_id,
            verdict=Verdict.REFUSED if plan.refusal else Verdict.PLACED,
            policy_name=policy.name,
            policy_hash=policy.hash,
            driver=policy.driver.name,
            seed=seed,
            table_version=hosts.version,
            decided_at_s=now_s,
            duration_us=duration_us,
            project_id=request.project_id,
            amounts=plan.amounts,
            filters=plan.filters,
            placements=plan.placements,
            refusal=plan.refusal,
            attempts=attempt,
            chosen_among=max(policy.host_subset_size, 1),
        )

    def _tell(self, failure: RuleFailure, request: Request, now_s: float) -> None:
        """Log an error of a rule, at most once a minute for each rule."""
        if self._telemetry is None:
            return
        # A clock that was set back must not silence the log.
        if 0 <= now_s - self._told_s.get(failure.rule, -_TELL_EVERY_S) < _TELL_EVERY_S:
            return
        self._told_s[failure.rule] = now_s
        self._telemetry.failure(
            "rule_failed", failure.error, filter=failure.rule, request_id=request.request_id
        )

    def _under_contention(self, policy: Policy) -> Policy:
        """Return a policy with the subset size that the latest claims call for."""
        among = self.contention.among(policy.contended_subset_size)
        if among <= policy.host_subset_size:
            return policy
        if policy is not self._base or len(self._variants) >= _VARIANTS_MAX:
            self._base, self._variants = policy, {}
        variant = self._variants.get(among)
        if variant is None:
            variant = self._variants[among] = policy.with_subset_size(among)
        return variant

    def try_out(self, request: Request) -> TriedDecision:
        """Return a decision, and for each weigher the host that would win without it.

        The hosts are those for the first instance only. Finding them takes a full evaluation of the
        table, so recorded decisions do not contain them.

        Raises:
            InvalidInputError: the flavor or the image has a spec that cannot be parsed.
        """
        decision = self.decide(request)
        found = counterfactuals_of(
            self._replica.hosts,
            request,
            self._policies.policy,
            decision.placements,
            now_s=decision.decided_at_s,
        )
        return TriedDecision.of(decision, found)

    async def capacity(
        self, request: Request, around: Around = _as_it_is, *, trials_max: int = _TRIALS_MAX
    ) -> Capacity:
        """Return the remaining capacity for instances like those of the request.

        The answer is partial if `trials_max` trial placements are not enough: most rules compute
        the number of instances, but some are evaluated again after each trial placement. Between
        slices of this work, the process serves others; the answer is that of the table at the end.

        Args:
            request: the request.
            around: (hosts) -> a context in which each slice runs, such as one that adds a group to
                the table.
            trials_max: the number of trial placements after which counting stops.

        Raises:
            InvalidInputError: the flavor or the image has a spec that cannot be parsed.
        """
        while True:
            hosts, policy = self._replica.hosts, self._policies.policy
            slices = capacity_in_slices(
                hosts, request, policy, now_s=self._clock.now_s(), trials_max=trials_max
            )
            # A replica that loads a new snapshot gets a new table.
            while self._replica.hosts is hosts:
                try:
                    with around(hosts):
                        next(slices)
                except StopIteration as end:
                    found: Capacity = end.value
                    return found
                await asyncio.sleep(0)
