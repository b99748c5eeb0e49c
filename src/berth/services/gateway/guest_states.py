"""States of guests that no task explains: guests that ended, changed, or keep crashing."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Final

from berth.domain.compute.instance import Fault, Instance, Status
from berth.domain.compute.migration import Migration
from berth.domain.compute.turns import has_leftover, should_run
from berth.domain.errors import InvalidInputError
from berth.domain.ledger.write import Committed, Free, Put
from berth.ports.clock import Clock
from berth.ports.ledger import Ledger
from berth.ports.virt import Power

_OFF: Final = frozenset({Power.STOPPED, Power.CRASHED, None})
_ON: Final = frozenset({Status.ACTIVE, Status.PAUSED, Status.SUSPENDED})
_STARTED: Final = frozenset({Status.ACTIVE, Status.RESIZED, Status.RESCUED})
_LIVE: Final = frozenset({Power.RUNNING, Power.PAUSED})
_ENDED: Final = (Status.SHUTOFF, "has ended; the instance is now off")
# Maps the power state of a guest that was suspended or resumed with the host's own tools to the new
# status of its instance and the end of the finding's text.
_CHANGED: Final[Mapping[Power | None, tuple[Status, str]]] = {
    Power.SUSPENDED: (
        Status.SUSPENDED,
        "was suspended on its host; the instance is now suspended and can be resumed",
    ),
    Power.RUNNING: (Status.ACTIVE, "was resumed on its host; the instance is now active"),
}
_SERVER_ERROR: Final = 500
_COUNT_MAX: Final = 1_000_000

KEPT_OFF: Final = frozenset({Status.SHUTOFF, Status.SOFT_DELETED})
"""The statuses in which a running guest must be stopped."""

GONE: Final = frozenset({Power.CRASHED, None})
"""The power states in which a guest that should run has to be restarted; None means no guest."""


def is_restartable(instance: Instance, power: Power | None) -> bool:
    """Return whether the guest of an instance should run but is missing or has crashed."""
    return instance.task is None and instance.status in _STARTED and power in GONE


def differs(instance: Instance, power: Power | None) -> bool:
    """Return whether the guest of an idle instance contradicts the instance's status.

    A missing or crashed guest that should run is not a contradiction: it is restarted. Neither is a
    rescued guest that has shut itself down, which stays off until the instance is unrescued.
    """
    if instance.task is not None or instance.migration_uuid is not None:
        return False
    if is_restartable(instance, power):
        return False
    if instance.status in _ON:
        has_changed = (power is Power.SUSPENDED) != (instance.status is Status.SUSPENDED)
        return power in _OFF or (has_changed and power in _CHANGED)
    return instance.status in KEPT_OFF and power in _LIVE


class GuestStates:
    """Records the reports of agents about guests in states that no task explains.

    Args:
        ledger: the ledger.
        clock: dates the records.
    """

    def __init__(self, ledger: Ledger, clock: Clock) -> None:
        self._ledger = ledger
        self._clock = clock

    async def report_power(
        self, host: str, instance_uuid: str, revision: int, power: Power | None
    ) -> str | None:
        """Give an idle instance the status of its guest.

        Args:
            host: the host that reports.
            instance_uuid: the instance.
            revision: the revision of the instance that the guest contradicts.
            power: the power state of the guest; None if there is no guest.

        Returns:
            The end of a sentence about the guest, or None if nothing was written because the
            instance has changed, is off, is not on the host, or agrees with its guest.

        Raises:
            UnavailableError: the ledger cannot be reached.
        """
        instance = await self._here(host, instance_uuid, revision)
        if instance is None or instance.status in KEPT_OFF or not differs(instance, power):
            return None
        status, text = _CHANGED.get(power, _ENDED)
        now = replace(instance, status=status, updated_at_s=self._clock.now_s())
        return text if await self._put(now) else None

    async def report_crashes(
        self, host: str, instance_uuid: str, revision: int, *, restarts: int, window_s: float
    ) -> bool:
        """Put an instance whose guest keeps crashing into ERROR; return whether that was recorded.

        Nothing is written if the instance has changed, is not on the host, should not run, or has a
        move, such as a resize to be confirmed or reverted.

        Args:
            host: the host that reports.
            instance_uuid: the instance.
            revision: the revision of the instance whose guest was restarted last.
            restarts: the number of times that the guest was restarted, 1 to 1,000,000.
            window_s: the number of seconds within which those restarts happened.

        Raises:
            InvalidInputError: a number is out of bounds.
            UnavailableError: the ledger cannot be reached.
        """
        if not (0 < restarts <= _COUNT_MAX and 0 < window_s < float("inf")):
            reason = (
                f"must be 1 to {_COUNT_MAX:,} within a positive, finite number of seconds, "
                f"not {restarts} within {window_s}"
            )
            raise InvalidInputError("restarts", reason)
        instance = await self._here(host, instance_uuid, revision)
        # In ERROR a resize could be neither confirmed nor reverted.
        if instance is None or instance.migration_uuid is not None:
            return False
        if not should_run(instance, None):
            return False
        now_s, count = self._clock.now_s(), f"{restarts} times within {window_s:,.0f} s"
        text = f"The guest crashed after being restarted {count}. Start it with a hard reboot."
        fault = Fault(_SERVER_ERROR, text, now_s, host)
        return await self._put(
            replace(instance, status=Status.ERROR, fault=fault, updated_at_s=now_s)
        )

    async def leftover(self, host: str, migration_uuid: str) -> Migration | None:
        """Return a move whose guest the host must still destroy, or None if there is none.

        Raises:
            UnavailableError: the ledger cannot be reached.
        """
        migration = await self._ledger.get(Migration, migration_uuid)
        return migration if migration is not None and has_leftover(host, migration) else None

    async def report_cleared(self, host: str, migration_uuid: str) -> None:
        """Record that the host has destroyed the guest that a move left on it.

        The allocation of the move is freed. Nothing is written if the move left no guest there.

        Raises:
            UnavailableError: the ledger cannot be reached.
        """
        migration = await self.leftover(host, migration_uuid)
        if migration is None:
            return
        over = replace(
            migration, stage=migration.stage_when_cleared, updated_at_s=self._clock.now_s()
        )
        await self._ledger.commit([(Free(migration.uuid), Put(over))])

    async def _here(self, host: str, instance_uuid: str, revision: int) -> Instance | None:
        """Return an instance on the host; None if it is elsewhere, deleted, or has changed."""
        instance = await self._ledger.get(Instance, instance_uuid)
        if instance is None or instance.host != host or instance.status is Status.DELETED:
            return None
        return instance if instance.revision == revision else None

    async def _put(self, instance: Instance) -> bool:
        """Return whether an instance was saved; a concurrent change of it takes precedence."""
        (outcome,) = await self._ledger.commit([(Put(instance),)])
        return isinstance(outcome, Committed)
