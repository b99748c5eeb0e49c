"""Restarts of crashed guests, with exponential backoff and a limit.

Without a limit a guest that crashes right after its start would be restarted forever and keep its
host busy.
"""

from dataclasses import dataclass
from typing import Final

from berth.agent.executor.host_context import HostContext
from berth.agent.executor.leftovers import HostFinding
from berth.domain.compute.instance import Instance

GIVEN_UP: Final = "guest_given_up"


@dataclass(frozen=True, slots=True)
class RestartRule:
    """The rule for restarting a crashed guest.

    A guest is restarted at most `restarts_max` times within `window_s` seconds. The first restart
    is immediate. The second comes at least `pause_s` seconds after the first; this pause doubles
    with each further restart.
    """

    restarts_max: int = 5
    window_s: float = 1_800.0
    pause_s: float = 10.0


class Restarts:
    """Counts the restarts of the guests of one process; a new process starts from zero."""

    def __init__(self, rule: RestartRule) -> None:
        self._rule = rule
        self._starts_s: dict[str, list[float]] = {}

    def wait_s(self, instance_uuid: str, now_s: float) -> float | None:
        """Plan a restart: return the seconds until it is allowed, or None if the limit is reached.

        A call that returns 0 counts as a restart. A call that returns None resets the count.

        Args:
            instance_uuid: the guest's instance.
            now_s: the time in seconds of a monotonic clock.
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
    """Set the status of an instance whose guest keeps crashing to ERROR; its disks are kept.

    Returns:
        The finding, or None when nothing was recorded because the instance has changed meanwhile or
        has a move, such as a resize to be confirmed or reverted.

    Raises:
        InvalidInputError: the control plane does not accept the numbers of the rule.
        UnavailableError: the control plane cannot be reached.
    """
    is_recorded = await context.gateway.report_crashes(
        context.host,
        instance.uuid,
        instance.revision,
        restarts=rule.restarts_max,
        window_s=rule.window_s,
    )
    if not is_recorded:
        return None
    count = f"{rule.restarts_max} times within {rule.window_s:,.0f} s"
    found = f"the guest of instance {instance.uuid} crashed after being restarted {count}"
    return HostFinding(GIVEN_UP, f"{found}; the instance is now in ERROR")
