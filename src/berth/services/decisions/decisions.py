"""Deciding: the driver's plan, made into a record that says all about itself."""

from contextlib import nullcontext
from typing import Protocol

from berth.domain.compute.decision import Decision, TriedDecision, Verdict
from berth.domain.compute.request import Request
from berth.ports.clock import Clock
from berth.ports.observer import NO_OBSERVER, Observer
from berth.scheduling.evaluation.policy import Policy
from berth.scheduling.plan.capacity import Capacity, capacity_for
from berth.scheduling.plan.group_policies import plan_kept
from berth.scheduling.plan.inspection import counterfactuals_of
from berth.scheduling.plan.instance_rules import leaving_out
from berth.scheduling.plan.seed import seed_of
from berth.services.decisions.contention import Contention
from berth.services.replica.replica import Replica
from berth.services.servers.moves import is_move, outside_server_group


class PolicyInForce(Protocol):
    """Holds the policy that decisions are made by; it may change between two of them."""

    @property
    def policy(self) -> Policy:
        """The policy in force now."""
        ...


class DecisionService:
    """Decides on the replica, changing nothing: used for real requests and for dry runs."""

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
        """Take in what came of a decision's claim: the next ones heed it."""
        self.contention.note(is_lost=is_lost, most=self._policies.policy.contended_subset_size)

    def decide(
        self, request: Request, *, attempt: int = 1, left_out: frozenset[str] = frozenset()
    ) -> Decision:
        """Decide on the table as it is now.

        A server of a group with a hard policy is refused where no filter keeps it.

        Args:
            request: what is asked.
            attempt: how often it was decided, with this time.
            left_out: names of hosts whose instances are not known for certain.

        Raises:
            InvalidInputError: flavor or image hold a spec that cannot be read.
        """
        with self._observer.decide(request, attempt) as report:
            decision = self._decide(request, attempt, left_out)
            report(decision)
        return decision

    def _decide(self, request: Request, attempt: int, left_out: frozenset[str]) -> Decision:
        policy = self._policies.policy
        among = self.contention.among(policy.contended_subset_size)
        policy = policy.choosing_among(among)
        if left_out:
            policy = leaving_out(policy, left_out)
        hosts = self._replica.hosts
        seed = seed_of(request.request_id) + attempt - 1
        now_s = self._clock.now_s()
        began_ns = self._clock.ticks_ns()
        # A group's policy is asked as if an instance to be moved were nowhere yet.
        moves = is_move(request)
        with outside_server_group(hosts, request.instance_uuids[0]) if moves else nullcontext():
            plan = plan_kept(hosts, request, policy, now_s=now_s, seed=seed)
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
        """Decide, and tell of the first instance who would have won without each weigher.

        That takes a full evaluation of the table, so it is not done for decisions that are kept.

        Raises:
            InvalidInputError: flavor or image hold a spec that cannot be read.
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
        """Count how many more instances like the request's fit now.

        Raises:
            InvalidInputError: flavor or image hold a spec that cannot be read.
        """
        return capacity_for(
            self._replica.hosts, request, self._policies.policy, now_s=self._clock.now_s()
        )
