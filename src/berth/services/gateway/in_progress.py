"""The instances on which hosts are working, as the change feed last showed them."""

from collections.abc import Sequence

from berth.domain.compute.instance import Instance, Status
from berth.domain.compute.lifecycle import HOST_TASKS
from berth.domain.ledger.change import Change, Snapshot


class InstancesInProgress:
    """Keeps each instance that has a task for its host and no move, until the task ends.

    Outcomes are recorded from these instead of from a read of the ledger for each step. A record
    may be older than the ledger's, so every write based on it must be one that the ledger accepts
    for that revision only.
    """

    def __init__(self) -> None:
        self._instances: dict[str, Instance] = {}

    def at(self, uuid: str, revision: int) -> Instance | None:
        """Return an instance; None if it is not known in exactly this revision."""
        instance = self._instances.get(uuid)
        return instance if instance is not None and instance.revision == revision else None

    def load(self, snapshot: Snapshot) -> None:
        """See `Subscriber.load`."""
        self._instances = {one.uuid: one for one in snapshot.instances if _is_in_progress(one)}

    def apply(self, changes: Sequence[Change]) -> None:
        """See `Subscriber.apply`."""
        for change in changes:
            instance = change.event
            if not isinstance(instance, Instance):
                continue
            if _is_in_progress(instance):
                self._instances[instance.uuid] = instance
            else:
                self._instances.pop(instance.uuid, None)


def _is_in_progress(instance: Instance) -> bool:
    # The turn in a move also depends on the record of the move, which has its own revisions.
    has_step = instance.task in HOST_TASKS and instance.migration_uuid is None
    return has_step and instance.status is not Status.DELETED
