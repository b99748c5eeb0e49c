"""Isolation, which pauses the guests of a host that cannot reach the control plane.

An isolated host may have been given up, and its guests may run elsewhere. Operators may therefore
configure the agent to pause its guests after a while. A paused guest continues only after the
control plane has confirmed that it should run here.
"""

from collections.abc import Callable
from typing import Final

from berth.domain.compute.instance import Status
from berth.domain.errors import BerthError
from berth.ports.clock import Clock
from berth.ports.gateway import HostGateway
from berth.ports.telemetry import Telemetry
from berth.ports.virt import Power, VirtDriver

_LOOK_S: Final = 1.0
_NS_PER_S: Final = 1_000_000_000
# The statuses in which a paused guest is continued; `RESIZED` waits for a confirmation.
_RUNNING: Final = frozenset({Status.ACTIVE, Status.RESIZED, Status.RESCUED})


class Isolation:
    """Pauses the guests of one host while the control plane is silent for too long.

    A guest that is paused although its instance should run was paused by an earlier run of the
    agent or with the host's own tools; it is also continued.

    Args:
        host: the name of the host.
        driver: the driver of the host.
        gateway: says where instances are.
        clock: provides the time.
        telemetry: receives pauses, continuations and failures.
        silent_s: returns the seconds since the control plane was last heard from.
        pause_s: seconds of silence after which guests are paused.
    """

    def __init__(  # noqa: PLR0913 - the collaborators and two values
        self,
        host: str,
        driver: VirtDriver,
        gateway: HostGateway,
        clock: Clock,
        telemetry: Telemetry,
        *,
        silent_s: Callable[[], float],
        pause_s: float,
    ) -> None:
        self._host = host
        self._driver = driver
        self._gateway = gateway
        self._clock = clock
        self._telemetry = telemetry
        self._silent_s = silent_s
        self._pause_s = pause_s
        self._began_ns = clock.ticks_ns()
        # Guests may have been paused by an earlier run of the agent.
        self._may_have_paused = True

    async def run(self) -> None:
        """Check every second whether the host is isolated, until cancelled."""
        while True:
            await self._clock.sleep(_LOOK_S)
            try:
                await self._look()
            except BerthError as error:
                self._telemetry.failure("isolation_failed", error, host=self._host)

    async def _look(self) -> None:
        run_s = (self._clock.ticks_ns() - self._began_ns) / _NS_PER_S
        silent_s = self._silent_s()
        if min(silent_s, run_s) > self._pause_s:
            await self._pause_guests()
        elif silent_s <= self._pause_s and self._may_have_paused:
            await self._continue_guests()

    async def _pause_guests(self) -> None:
        self._may_have_paused = True
        running = [
            guest.instance_uuid
            for guest in await self._driver.guests()
            if guest.power is Power.RUNNING and not guest.is_orphan
        ]
        for uuid in running:
            await self._driver.pause(uuid)
        if running:
            self._telemetry.event("guests_paused", host=self._host, guests=len(running))

    async def _continue_guests(self) -> None:
        paused = [
            guest.instance_uuid
            for guest in await self._driver.guests()
            if guest.power is Power.PAUSED and not guest.waits and not guest.is_orphan
        ]
        here = [uuid for uuid in paused if await self._may_continue(uuid)]
        for uuid in here:
            await self._driver.unpause(uuid)
        self._may_have_paused = False
        if here:
            self._telemetry.event("guests_resumed", host=self._host, guests=len(here))

    async def _may_continue(self, uuid: str) -> bool:
        """Ask the control plane whether a guest should run here and has no task."""
        # The last view may come from a session that is already lost, so the control plane is asked.
        instance = (await self._gateway.standing(self._host, uuid)).instance
        if instance is None or instance.host != self._host:
            return False
        return instance.status in _RUNNING and instance.task is None
