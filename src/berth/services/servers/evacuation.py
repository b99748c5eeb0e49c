"""Evacuating: what is looked at before an instance is taken for lost with its host."""

from dataclasses import replace

from berth.domain.compute.instance import Instance
from berth.domain.compute.migration import Migration, Stage
from berth.domain.errors import ConflictError
from berth.domain.ledger.write import Committed, Put
from berth.ports.ledger import Ledger


def check_is_on(instance: Instance, host: str | None) -> None:
    """Leave alone what is elsewhere by now: all may be well there, and it would be destroyed.

    Args:
        instance: as it is now.
        host: which was found to be down.

    Raises:
        ConflictError: it is elsewhere.
    """
    if instance.host != host:
        raise ConflictError(
            f"instance {instance.uuid} is no longer on {host}; look where it is, and try again"
        )


async def look_for(ledger: Ledger, instance: Instance, migration: Migration, now_s: float) -> None:
    """Have the other host say whether it has a guest that its own host was handing over.

    Args:
        ledger: where that is written.
        instance: as it was read.
        migration: its move, in the stage MOVING.
        now_s: Unix seconds.

    Raises:
        ConflictError: always, but where somebody else has changed something meanwhile.
    """
    landing = replace(migration, stage=Stage.LANDING, updated_at_s=now_s)
    unit = (Put(replace(instance, updated_at_s=now_s)), Put(landing))
    (outcome,) = await ledger.commit([unit])
    if isinstance(outcome, Committed):
        there = migration.destination.host
        raise ConflictError(
            f"the guest of instance {instance.uuid} was being handed over to {there}, whose "
            "agent looks now whether it is there; evacuate it again if it is not"
        )
