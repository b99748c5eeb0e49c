"""Members below: instances of a server group that are in child zones, as their errands tell."""

from operator import attrgetter

from berth.domain.zones.zone import RemoteInstance, RemoteInstanceStage
from berth.ports.ledger import Ledger

_AGE = attrgetter("created_at_s", "instance_uuid")


async def members_below(ledger: Ledger, group_uuid: str, project_id: str) -> list[RemoteInstance]:
    """Return what children have of a group, the oldest first; what is being deleted no more.

    Args:
        ledger: has the errands.
        group_uuid: of the group.
        project_id: whose it is.

    Raises:
        UnavailableError: the ledger cannot be reached.
    """
    errands = await ledger.remote_instances(project_id=project_id)
    found = (one for one in errands if one.group_uuid == group_uuid and _is_wanted(one))
    return sorted(found, key=_AGE)


def _is_wanted(errand: RemoteInstance) -> bool:
    return errand.stage is not RemoteInstanceStage.WITHDRAWING and errand.counts_as is not None
