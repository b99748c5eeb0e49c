"""The service that decides where instances go, on the replica of this process."""

from contextlib import nullcontext
from typing import Protocol

from berth.domain.compute.decision import Decision, TriedDecision, Verdict
from berth.domain.compute.request import Request
from berth.ports.clock import Clock
from berth.ports.observer import NO_OBSERVER, Observer
from berth.scheduling.evaluation.policy import Policy
from berth.scheduling.plan.capacity import Capacity, capacity_for
from berth.scheduling.plan.group_policies import plan_with_group_policy
from berth.scheduling.plan.inspection import counterfactuals_of
from berth.scheduling.plan.instance_rules import excluding_hosts
from berth.scheduling.plan.planning import seed_of
from berth.services.decisions.contention import Contention
from berth.services.replica.replica import Replica
from berth.services.servers.moves import is_move, outside_server_group


class PolicyInForce(Protocol):
    """Holds the current policy, which may change between two decisions."""

    @property
    def policy(self) -> Policy:
        """The policy in force now."""
        ...


class DecisionService:
    """Decides on the replica and writes nothing; used for real requests, dry runs and zone offers.

    Attributes:
        contention: the reaction to lost claims, shared by all users of the service.
    """

    def __init__(
        self,
        replica: Replica,
        policies: PolicyInForce,
        clock: Clock,
        observer: Observer = NO_OBSERVER,
    ) -> None:
        self._replica = replica
        self._policies = policies
        self._clock = clock
        self._observer = observer
        self.contention = Contention()

    def note_claim(self, *, is_lost: bool) -> None:
        """Record whether the claim of a decision was lost; later decisions take it into account."""
        self.contention.note(is_lost=is_lost, most=self._policies.policy.contended_subset_size)

    def decide(
        self, request: Request, *, attempt: int = 1, left_out: frozenset[str] = frozenset()
    ) -> Decision:
        """Decide on a request with the host table as it is now.

        When no filter enforces a hard server group policy, the decision itself refuses to break it.

        Args:
            request: the request.
            attempt: the number of decisions on this request, including this one.
            left_out: names of hosts whose instances are not known for certain.

        Raises:
            InvalidInputError: the flavor or the image has a spec that cannot be parsed.
        """
        with self._observer.decide(request, attempt) as report:
            decision = self._decide(request, attempt, left_out)
            report(decision)
        return decision

    def _decide(self, request: Request, attempt: int, left_out: frozenset[str]) -> Decision:
        policy = self._policies.policy
        # Read once: the plan and its record must name one policy, even when the file changes
        # meanwhile.
        among = self.contention.among(policy.contended_subset_size)
        policy = policy.with_subset_size(among)
        if left_out:
            policy = excluding_hosts(policy, left_out)
        hosts = self._replica.hosts
        # Each attempt has another seed; otherwise a retry would draw the same host again from a
        # table that may not show the lost race yet.
        seed = seed_of(request.request_id) + attempt - 1
        now_s = self._clock.now_s()
        began_ns = self._clock.ticks_ns()
        # The instance to be moved must not count as a member on its own source host, or
        # anti-affinity would exclude that host and affinity would require it.
        moves = is_move(request)
        with outside_server_group(hosts, request.instance_uuids[0]) if moves else nullcontext():
            plan = plan_with_group_policy(hosts, request, policy, now_s=now_s, seed=seed)
        # Measured without the building of the record: the metric is about the plan alone.
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

    def try_out(self, request: Request) -> TriedDecision:
        """Decide, and report which host would have won had each weigher been disabled.

        The report covers the first instance only. It needs a full evaluation of the table, so
        decisions that are recorded do not have it.

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

    def capacity(self, request: Request) -> Capacity:
        """Return how many more instances like the request's fit now.

        Raises:
            InvalidInputError: the flavor or the image has a spec that cannot be parsed.
        """
        return capacity_for(
            self._replica.hosts, request, self._policies.policy, now_s=self._clock.now_s()
        )
