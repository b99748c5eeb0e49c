"""Checks before an evacuation, which destroys the guest that the instance may have elsewhere."""

from dataclasses import replace

from berth.domain.compute.instance import Instance
from berth.domain.compute.migration import Migration, Stage
from berth.domain.errors import ConflictError
from berth.domain.ledger.write import Committed, Put
from berth.ports.ledger import Ledger


def check_still_on(instance: Instance, host: str | None) -> None:
    """Reject the evacuation of an instance that has left its host.

    The evacuation would destroy the instance's new guest.

    Args:
        instance: the current record.
        host: the host that was found to be down.

    Raises:
        ConflictError: the instance is no longer on that host.
    """
    if instance.host != host:
        raise ConflictError(
            f"cannot evacuate instance {instance.uuid}: it is no longer on {host}; check where it "
            "is, and try again"
        )


async def query_destination(
    ledger: Ledger, instance: Instance, migration: Migration, now_s: float
) -> None:
    """Ask the destination to check whether it has the guest that was being handed over.

    Args:
        ledger: records the request.
        instance: the record as read.
        migration: its move, in the stage MOVING.
        now_s: Unix seconds.

    Raises:
        ConflictError: always, except when the records have changed since they were read.
        UnavailableError: the ledger cannot be reached.
    """
    landing = replace(migration, stage=Stage.LANDING, updated_at_s=now_s)
    unit = (Put(replace(instance, updated_at_s=now_s)), Put(landing))
    (outcome,) = await ledger.commit([unit])
    if isinstance(outcome, Committed):
        there = migration.destination.host
        raise ConflictError(
            f"cannot evacuate instance {instance.uuid} yet: its guest was being handed over to "
            f"{there}, whose agent now checks whether the guest is there; if it is not, evacuate "
            "the instance again"
        )
