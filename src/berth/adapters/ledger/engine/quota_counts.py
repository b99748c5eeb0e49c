"""Counting what the instances of projects come to, for limits that hold across all writers.

Nothing of it is stored: it is derived from the instances, and from the errands of those that child
zones have, when a unit first asks for a project, and follows all that are put from then on. So it
can never differ from them. While both stand here of an instance it counts once, as it stands here.
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
"""Project, instance or `REMOTE_KEY_PREFIX` with one, virtual CPUs, MiB of memory."""

REMOTE_KEY_PREFIX: Final = "errand "


def start_counting(
    working_set: WorkingSet, projects: Iterable[str], rows: Iterable[CountedRow]
) -> None:
    """Count the instances of projects from now on.

    Args:
        working_set: without any of them.
        projects: which.
        rows: all of their instances that are not deleted, and those that are elsewhere.
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
    """Return what an instance counts for, wherever it is."""
    return counted.get(uuid) or counted.get(f"{REMOTE_KEY_PREFIX}{uuid}") or NO_FOOTPRINT


def count_in_unit(tx: UnitTransaction, record: Instance | RemoteInstance) -> None:
    """Count an instance as it is to be, for as long as the unit stands."""
    if isinstance(record, RemoteInstance):
        uuid = record.instance_uuid
        _recount(
            tx, record.project_id, uuid, f"{REMOTE_KEY_PREFIX}{uuid}", remote_footprint(record)
        )
    else:
        _recount(tx, record.project_id, record.uuid, record.uuid, footprint_of(record))


def uncount_in_unit(tx: UnitTransaction, uuid: str, *, is_errand: bool) -> None:
    """Count no more what is removed of an instance: its record, or its errand."""
    key = f"{REMOTE_KEY_PREFIX}{uuid}" if is_errand else uuid
    for project, counted in tx.working_set.counted.items():
        if key in counted:
            _recount(tx, project, uuid, key, None)


def _recount(tx: UnitTransaction, project: str, uuid: str, key: str, now: Footprint | None) -> None:
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


def within(tx: UnitTransaction, write: QuotaCheck) -> Rejected | None:
    """Refuse what makes a project's instances come to more than they may."""
    after = tx.working_set.sums[write.project_id]
    before = tx.counted.get(write.project_id, after)
    excess = excess_of(before, after, write.limits)
    if not excess:
        return None
    return Rejected(conflict=_describe_excess(write.project_id, excess), excess=excess)


def _describe_excess(project_id: str, excess: Iterable[Excess]) -> str:
    more = ", ".join(f"{one.used} + {one.asked} {one.name} of {one.limit}" for one in excess)
    return f"project {project_id!r} would have more than it may: {more}"
