"""Restarting: guests that crash are started again, ever later, and at last no more.

One that crashes as soon as it has started would else be started for ever, and keep its host busy.
"""

from dataclasses import dataclass, replace
from typing import Final

from berth.agent.executor.disk_leftovers import HostFinding
from berth.agent.executor.host_context import HostContext
from berth.domain.compute.instance import Fault, Instance, Status
from berth.domain.ledger.write import Committed, Put

GIVEN_UP: Final = "guest_given_up"
_SERVER_ERROR: Final = 500


@dataclass(frozen=True, slots=True)
class RestartRule:
    """How often guests are started again that were to run and do not.

    `restarts_max` times within `window_s` seconds: the first time at once, the second time
    `pause_s` seconds after that at the earliest, and twice as long after it each time.
    """

    restarts_max: int = 5
    window_s: float = 1_800.0
    pause_s: float = 10.0


class Restarts:
    """Counts how often the guests of a process were started again; the next process begins anew."""

    def __init__(self, rule: RestartRule) -> None:
        self._rule = rule
        self._starts_s: dict[str, list[float]] = {}

    def wait_s(self, instance_uuid: str, now_s: float) -> float | None:
        """Return in how many seconds a guest may be started again; it counts as done with 0.

        None when it is to be given up. It is forgotten then: whoever starts it begins anew.

        Args:
            instance_uuid: whose guest.
            now_s: seconds on any clock that never goes back.
        """
        rule = self._rule
        earlier = self._starts_s.pop(instance_uuid, [])
        starts_s = [at_s for at_s in earlier if now_s - at_s < rule.window_s]
        if len(starts_s) >= rule.restarts_max:
            return None
        due_s = starts_s[-1] + rule.pause_s * 2 ** (len(starts_s) - 1) if starts_s else now_s
        wait_s = max(due_s - now_s, 0.0)
        self._starts_s[instance_uuid] = starts_s if wait_s else [*starts_s, now_s]
        return wait_s


async def stop_restarting(
    context: HostContext, instance: Instance, rule: RestartRule
) -> HostFinding | None:
    """Leave an instance in ERROR whose guest does not go on running; its disks stay.

    Returns:
        What was found; None when something else has been done with it meanwhile, or a resize is
        to be ended first: then it is started again when its host is next looked at.

    Raises:
        UnavailableError: the ledger cannot be reached.
    """
    if instance.migration_uuid is not None:
        return None  # it is to be confirmed or reverted, which it could not be in ERROR
    told = f"{rule.restarts_max} times within {rule.window_s:,.0f} s"
    text = f"The guest crashed, and had been started again {told} before. A hard reboot starts it."
    fault = Fault(_SERVER_ERROR, text, context.clock.now_s(), context.host)
    broken = replace(instance, status=Status.ERROR, fault=fault, updated_at_s=context.clock.now_s())
    (outcome,) = await context.ledger.commit([(Put(broken),)])
    # Refused when the instance has changed: then somebody looks after it.
    if not isinstance(outcome, Committed):
        return None
    found = f"the guest of instance {instance.uuid} crashed, and had been started again {told}"
    return HostFinding(GIVEN_UP, f"{found}; it is in ERROR now")
