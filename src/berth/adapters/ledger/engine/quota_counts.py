"""The usage of projects, counted so that quotas hold across all writers.

Nothing of this is stored. It is derived from the instances, and from the remote instances in child
zones, when a unit first checks the quota of a project. From then on every write updates it, so it
cannot drift from them. An instance that has a record here and one in a child zone counts once, as
its record here says.
"""

from collections.abc import Iterable, Mapping
from typing import Final

from berth.adapters.ledger.engine.working_set import UnitTransaction, WorkingSet
from berth.domain.compute.instance import Instance
from berth.domain.compute.quota import (
    NO_FOOTPRINT,
    Excess,
    Footprint,
    excess_of,
    footprint_of,
    sum_of,
)
from berth.domain.ledger.write import QuotaCheck, Rejected
from berth.domain.zones.zone import RemoteInstance, remote_footprint

CountedRow = tuple[str, str, int, int]
"""Project, instance uuid (remote ones with `REMOTE_KEY_PREFIX`), virtual CPUs, MiB of memory."""

REMOTE_KEY_PREFIX: Final = "errand "
"""Distinguishes an instance in a child zone from a record here with the same uuid."""


def start_counting(
    working_set: WorkingSet, projects: Iterable[str], rows: Iterable[CountedRow]
) -> None:
    """Count the instances of projects from now on.

    Args:
        working_set: it must not count any of these projects yet.
        projects: the projects to count.
        rows: all their instances that are not deleted, and all their remote instances.
    """
    for project in projects:
        working_set.counted[project] = {}
    for project, key, vcpus, memory_mb in rows:
        working_set.counted[project][key] = Footprint(1, vcpus, memory_mb)
    for project in projects:
        counted = working_set.counted[project]
        uuids = {key.removeprefix(REMOTE_KEY_PREFIX) for key in counted}
        working_set.sums[project] = sum_of(_counts(counted, uuid) for uuid in uuids)


def _counts(counted: Mapping[str, Footprint], uuid: str) -> Footprint:
    """Return the footprint of an instance, wherever it is."""
    return counted.get(uuid) or counted.get(f"{REMOTE_KEY_PREFIX}{uuid}") or NO_FOOTPRINT


def count_in_unit(tx: UnitTransaction, record: Instance | RemoteInstance) -> None:
    """Count an instance as it will be; undone if the unit is refused."""
    if isinstance(record, RemoteInstance):
        uuid = record.instance_uuid
        _recount(
            tx, record.project_id, uuid, f"{REMOTE_KEY_PREFIX}{uuid}", remote_footprint(record)
        )
    else:
        _recount(tx, record.project_id, record.uuid, record.uuid, footprint_of(record))


def uncount_in_unit(tx: UnitTransaction, uuid: str, *, is_remote: bool) -> None:
    """Remove from the counts the record of an instance, or of its remote instance."""
    key = f"{REMOTE_KEY_PREFIX}{uuid}" if is_remote else uuid
    # A removal names the instance but not its project; few projects are counted, so all are tried.
    for project, counted in tx.working_set.counted.items():
        if key in counted:
            _recount(tx, project, uuid, key, None)


def _recount(tx: UnitTransaction, project: str, uuid: str, key: str, now: Footprint | None) -> None:
    """Replace what one key of an instance counts for, or remove it with None."""
    working_set = tx.working_set
    counted = working_set.counted.get(project)
    if counted is None:
        return
    before = _counts(counted, uuid)
    if now is None:
        tx.drop(counted, key)
    else:
        tx.set(counted, key, now)
    total = working_set.sums[project]
    tx.counted.setdefault(project, total)
    tx.set(working_set.sums, project, total.plus(before, times=-1).plus(_counts(counted, uuid)))


def check_quota(tx: UnitTransaction, write: QuotaCheck) -> Rejected | None:
    """Refuse a unit that makes the usage of a project exceed its limits."""
    after = tx.working_set.sums[write.project_id]
    before = tx.counted.get(write.project_id, after)
    # Only an increase by this unit counts: a project above a lowered limit may still shrink.
    excess = excess_of(before, after, write.limits)
    if not excess:
        return None
    return Rejected(conflict=_describe_excess(write.project_id, excess), excess=excess)


def _describe_excess(project_id: str, excess: Iterable[Excess]) -> str:
    more = ", ".join(f"{one.used} + {one.asked} {one.name} of {one.limit}" for one in excess)
    return f"project {project_id!r} would exceed its quota: {more}"
