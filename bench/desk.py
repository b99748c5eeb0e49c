"""The desk: decides on one replica, and takes in claims and releases between decisions."""

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
    """A decision did not place what it was asked to place, so its time says nothing."""


@dataclass(frozen=True, slots=True)
class Fixed:
    """A policy that never changes; see `PolicyInForce`."""

    policy: Policy


class Desk:
    """Decides on one replica; of what it has claimed, the newest `held_max` or so are held."""

    def __init__(self, state: Snapshot, policy: Policy, *, held_max: int = 100) -> None:
        self.replica = Replica()
        _, self.load = timed(lambda: self.replica.load(state))
        self._decision_service = DecisionService(self.replica, Fixed(policy), Standstill())
        self._held: list[str] = []
        self._held_max = held_max
        self._rng = Random(0)

    def decide(self, asked: Request) -> tuple[Decision, Sample]:
        """Decide and time it.

        Raises:
            WrongDecisionError: it was refused.
        """
        decision, sample = timed(lambda: self._decision_service.decide(asked))
        if decision.verdict is not Verdict.PLACED:
            raise WrongDecisionError(f"{asked.request_id}: {decision.refusal}")
        return decision, sample

    def claim_and_release(self, asked: Request, decision: Decision) -> None:
        """Hold the first placement of a decision, and let go a random one of those before it."""
        placement = decision.placements[0]
        resident = resident_of(asked, placement.instance_uuid, placement.assignment)
        self.replica.hold(Hold(resident, placement.provider_uuid, decision.amounts))
        if len(self._held) >= self._held_max:
            index = self._rng.randrange(len(self._held))
            self._held[index], self._held[-1] = self._held[-1], self._held[index]
            self.replica.release(self._held.pop())
        self._held.append(placement.instance_uuid)
