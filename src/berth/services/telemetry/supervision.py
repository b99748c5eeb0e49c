"""Supervising: keeping the loops of a process running whatever happens to them."""

from collections.abc import Awaitable, Callable
from random import Random

from berth.ports.clock import Clock
from berth.ports.telemetry import Telemetry

_BACKOFF_FIRST_S = 0.1
_BACKOFF_MAX_S = 10.0
_CALM_S = 30.0


async def supervise(
    name: str,
    loop: Callable[[], Awaitable[None]],
    *,
    clock: Clock,
    telemetry: Telemetry,
    rng: Random,
) -> None:
    """Run a loop for ever, starting it again after a pause whenever it fails.

    The pause doubles from failure to failure, with jitter, and starts small again when the loop
    ran well for half a minute.

    Args:
        name: what to call the loop when telling of a failure.
        loop: started anew each time; ends only by an error or by being cancelled.
        clock: for the pauses.
        telemetry: told of each failure.
        rng: for the jitter.
    """
    pause_s = _BACKOFF_FIRST_S
    while True:
        began_s = clock.now_s()
        try:
            await loop()
            telemetry.event("loop_ended", loop=name)
        except Exception as error:  # noqa: BLE001 - a loop must not die of what nobody foresaw
            telemetry.failure("loop_failed", error, loop=name)
        if clock.now_s() - began_s > _CALM_S:
            pause_s = _BACKOFF_FIRST_S
        await clock.sleep(pause_s * rng.uniform(0.5, 1.5))
        pause_s = min(pause_s * 2, _BACKOFF_MAX_S)
