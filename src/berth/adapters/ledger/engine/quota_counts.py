"""The footprints of projects (instances, vCPUs and memory), to which quotas apply.

Footprints are not stored in the ledger. They are derived from the project's instances and remote
instances when a unit first checks its quota, and every later write updates them. An instance with a
record both here and in a child zone is counted once, by its record here.
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
"""The project, key, vCPUs and MiB of memory of an instance or a remote instance.

The key is the instance's UUID, with `REMOTE_KEY_PREFIX` for a remote instance.
"""

REMOTE_KEY_PREFIX: Final = "errand "
"""Distinguishes an instance in a child zone from a record here with the same uuid."""


def start_counting(
    working_set: WorkingSet, projects: Iterable[str], rows: Iterable[CountedRow]
) -> None:
    """Begin to count the instances of projects.

    Args:
        working_set: the working set, which must not count any of these projects yet.
        projects: the projects to count.
        rows: all their instances and remote instances that count against a quota.
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
    """Return the footprint of an instance, here or in a child zone; zero if it is not counted."""
    return counted.get(uuid) or counted.get(f"{REMOTE_KEY_PREFIX}{uuid}") or NO_FOOTPRINT


def count_in_unit(tx: UnitTransaction, record: Instance | RemoteInstance) -> None:
    """Count the new state of an instance if its project is counted, as part of the unit."""
    if isinstance(record, RemoteInstance):
        uuid = record.instance_uuid
        _recount(
            tx, record.project_id, uuid, f"{REMOTE_KEY_PREFIX}{uuid}", remote_footprint(record)
        )
    else:
        _recount(tx, record.project_id, record.uuid, record.uuid, footprint_of(record))


def uncount_in_unit(tx: UnitTransaction, uuid: str, *, is_remote: bool) -> None:
    """Stop counting the record of an instance, or of its remote instance, as part of the unit."""
    key = f"{REMOTE_KEY_PREFIX}{uuid}" if is_remote else uuid
    # A removal names the instance but not its project. Few projects are counted, so all of them are
    # searched.
    for project, counted in tx.working_set.counted.items():
        if key in counted:
            _recount(tx, project, uuid, key, None)


def _recount(tx: UnitTransaction, project: str, uuid: str, key: str, now: Footprint | None) -> None:
    """Replace the footprint under one key of an instance, or remove the key if `now` is None."""
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
    """Return a rejection if the unit raises a project's usage above a limit; otherwise None."""
    after = tx.working_set.sums[write.project_id]
    before = tx.counted.get(write.project_id, after)
    # Only an increase by this unit is rejected, so a project above a lowered limit may still free
    # resources.
    excess = excess_of(before, after, write.limits)
    if not excess:
        return None
    return Rejected(conflict=_describe_excess(write.project_id, excess), excess=excess)


def _describe_excess(project_id: str, excess: Iterable[Excess]) -> str:
    more = ", ".join(
        f"{one.name} would be {one.used + one.asked} of at most {one.limit}" for one in excess
    )
    return f"project {project_id!r} would exceed its quota: {more}"
