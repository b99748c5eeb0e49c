"""Liveness of hosts: heartbeats kept in memory and saved in batches."""

from typing import Final

from berth.domain.errors import BerthError
from berth.ports.clock import Clock
from berth.ports.telemetry import Telemetry
from berth.services.fleet.hosts import Hosts

SAVE_INTERVAL_S: Final = 5.0
"""Seconds between two saves. All hosts that sent a heartbeat in between are saved together."""


class Liveness:
    """Notes the heartbeats of the agents that are connected to this process.

    Args:
        hosts: saves the heartbeats.
        clock: the source of the time.
        telemetry: receives failed saves.
        interval_s: seconds between two saves.
    """

    def __init__(
        self, hosts: Hosts, clock: Clock, telemetry: Telemetry, interval_s: float = SAVE_INTERVAL_S
    ) -> None:
        self._hosts = hosts
        self._clock = clock
        self._telemetry = telemetry
        self._interval_s = interval_s
        # A set that keeps the order in which the heartbeats came.
        self._heard: dict[str, None] = {}

    def note(self, host: str) -> None:
        """Note a heartbeat of a host."""
        self._heard[host] = None

    async def run(self) -> None:
        """Save the heartbeats periodically, until cancelled."""
        while True:
            await self._clock.sleep(self._interval_s)
            await self.save()

    async def save(self) -> None:
        """Save the heartbeats since the previous save; after a failure they are saved next time."""
        heard, self._heard = self._heard, {}
        if not heard:
            return
        try:
            await self._hosts.heartbeat(sorted(heard))
        except BerthError as error:
            self._heard = heard | self._heard
            self._telemetry.failure("heartbeats_not_saved", error)
