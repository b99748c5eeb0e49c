"""A replica on which decisions are timed, with claims and releases between them."""

from dataclasses import dataclass
from random import Random

from bench.errors import BenchError
from bench.fleet import Standstill
from bench.timing import Sample, timed
from berth.domain.compute.decision import Decision, Verdict
from berth.domain.compute.request import Request
from berth.domain.ledger.change import Snapshot
from berth.scheduling.evaluation.policy import Policy
from berth.scheduling.rules.rule import resident_of
from berth.services.decisions.decisions import DecisionService
from berth.services.replica.replica import Hold, Replica


class WrongDecisionError(BenchError):
    """A decision placed fewer instances than requested, so its time is meaningless."""


@dataclass(frozen=True, slots=True)
class Fixed:
    """A source of one policy that never changes; see `PolicyInForce`."""

    policy: Policy


class Desk:
    """Decides on one replica, which holds at most `held_max` claims at a time."""

    def __init__(self, state: Snapshot, policy: Policy, *, held_max: int = 100) -> None:
        self.replica = Replica()
        _, self.load = timed(lambda: self.replica.load(state))
        self._decision_service = DecisionService(self.replica, Fixed(policy), Standstill())
        self._held: list[str] = []
        self._held_max = held_max
        self._rng = Random(0)

    def decide(self, asked: Request) -> tuple[Decision, Sample]:
        """Return a decision and the time that it took.

        Raises:
            WrongDecisionError: the request was refused.
        """
        decision, sample = timed(lambda: self._decision_service.decide(asked))
        if decision.verdict is not Verdict.PLACED:
            raise WrongDecisionError(f"{asked.request_id}: {decision.refusal}")
        return decision, sample

    def claim_and_release(self, asked: Request, decision: Decision) -> None:
        """Hold the first placement of a decision, and release a random one above `held_max`."""
        placement = decision.placements[0]
        resident = resident_of(asked, placement.instance_uuid, placement.assignment)
        self.replica.hold(Hold(resident, placement.provider_uuid, decision.amounts))
        if len(self._held) >= self._held_max:
            index = self._rng.randrange(len(self._held))
            self._held[index], self._held[-1] = self._held[-1], self._held[index]
            self.replica.release(self._held.pop())
        self._held.append(placement.instance_uuid)
