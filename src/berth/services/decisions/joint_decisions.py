"""Joint decisions: hosts for the moves of several instances, chosen together.

Each decision sees the earlier ones as if their instances had arrived and had not left yet, which is
the state during the moves. So all of them can be carried out in any order, and at once.
"""

import asyncio
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from typing import Final

from berth.domain.compute.decision import Decision, Verdict
from berth.domain.compute.request import Request
from berth.scheduling.evaluation.trial import Trial
from berth.scheduling.rules.rule import resident_of
from berth.services.decisions.decisions import DecisionService
from berth.services.replica.replica import Replica
from berth.services.servers.moves import migration_uuid_of
from berth.tables.host.resident_columns import Attributes

# Each further order costs as many decisions as there are requests.
_ORDERS_MAX: Final = 4
_DECISIONS_MAX: Final = 400
# The process does other work after so many decisions or so much time: a refusal takes about ten
# times as long as a placement. The earlier instances are then placed on trial again.
_SLICE: Final = 16
_SLICE_US: Final = 20_000


@dataclass(frozen=True, slots=True)
class JointDecisions:
    """Decides the moves of several instances together.

    Attributes:
        decision_service: makes each decision.
        replica: the host table, which is unchanged after each call.
    """

    decision_service: DecisionService
    replica: Replica

    async def decide(self, requests: Sequence[Request]) -> Mapping[str, Decision]:
        """Return one decision for each request, by request id.

        Large instances are placed first. If some are refused, they are placed before all others in
        another attempt; the attempt with the fewest refusals counts. The process does other work
        after every few decisions, which never sees the trial placements.

        Args:
            requests: the requests, each for the move of one instance.

        Raises:
            InvalidInputError: a flavor or image has a spec that cannot be parsed.
        """
        order = sorted(requests, key=size_of, reverse=True)
        best = await self._in_order(order)
        tried = {tuple(one.request_id for one in order)}
        for _ in range(_ORDERS_MAX - 1):
            refused = _refused(best)
            if not refused or (len(tried) + 1) * len(order) > _DECISIONS_MAX:
                break
            order = sorted(order, key=lambda one: one.request_id not in refused)
            ids = tuple(one.request_id for one in order)
            if ids in tried:
                break
            tried.add(ids)
            found = await self._in_order(order)
            if len(_refused(found)) < len(refused):
                best = found
        return best

    async def _in_order(self, requests: Sequence[Request]) -> dict[str, Decision]:
        decisions: dict[str, Decision] = {}
        start = 0
        while start < len(requests):
            # The earlier instances are placed on trial again in each slice: another task must
            # neither see them nor wait until all decisions are made.
            taken_us = 0
            with ExitStack() as trials:
                for earlier in requests[:start]:
                    self._place(trials, earlier, decisions[earlier.request_id])
                for request in requests[start : start + _SLICE]:
                    decision = self.decision_service.decide(request)
                    decisions[request.request_id] = decision
                    self._place(trials, request, decision)
                    taken_us += decision.duration_us
                    start += 1
                    if taken_us >= _SLICE_US:
                        break
            await asyncio.sleep(0)
        return decisions

    def _place(self, trials: ExitStack, request: Request, decision: Decision) -> None:
        """Place an instance on trial beside itself, as the claim of its move will."""
        hosts = self.replica.hosts
        for one in decision.placements:
            row = hosts.row_of(one.provider_uuid)
            if row is None:
                continue  # the host was removed meanwhile
            resident = resident_of(request, migration_uuid_of(request), one.assignment)
            trial = trials.enter_context(Trial(hosts, request.needs))
            trial.place(
                row,
                replace(resident, image_properties={}, is_move=True),
                Attributes(request.project_id, request.user_id),
            )


def size_of(request: Request) -> tuple[int, int, int]:
    """Return what is compared to place large instances first: memory, VCPUs and disk."""
    flavor = request.flavor
    return flavor.memory_mb, flavor.vcpus, flavor.root_gb


def _refused(decisions: Mapping[str, Decision]) -> set[str]:
    return {key for key, one in decisions.items() if one.verdict is Verdict.REFUSED}
