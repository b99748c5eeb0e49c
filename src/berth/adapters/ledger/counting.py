"""Counting what the instances of projects come to, for limits that hold across all writers.

Nothing of it is stored: it is derived from the instances, when a unit first asks for a project,
and follows every instance that is put from then on. So it can never differ from them.
"""

from collections.abc import Iterable

from berth.adapters.ledger.books import Books, Draft
from berth.domain.footprint import NOTHING, Excess, Footprint, excess_of, sum_of
from berth.domain.instance import Instance
from berth.domain.quota import footprint_of
from berth.domain.write import Rejected, Within

Counted = tuple[str, str, int, int]
"""Project, instance, virtual CPUs, MiB of memory."""


def begin_count(books: Books, projects: Iterable[str], rows: Iterable[Counted]) -> None:
    """Count the instances of projects from now on.

    Args:
        books: without any of them.
        projects: which.
        rows: all of their instances that are not deleted.
    """
    for project in projects:
        books.counted[project] = {}
    for project, uuid, vcpus, memory_mb in rows:
        books.counted[project][uuid] = Footprint(1, vcpus, memory_mb)
    for project in projects:
        books.sums[project] = sum_of(books.counted[project].values())


def count_instance(books: Books, instance: Instance) -> None:
    """Count an instance as it is now, in a unit that will not be undone."""
    counted = books.counted.get(instance.project_id)
    if counted is None:
        return
    before, after = counted.get(instance.uuid, NOTHING), footprint_of(instance)
    if after is None:
        counted.pop(instance.uuid, None)
    else:
        counted[instance.uuid] = after
    total = books.sums[instance.project_id].plus(before, times=-1)
    books.sums[instance.project_id] = total.plus(after or NOTHING)


def draft_count(draft: Draft, instance: Instance) -> None:
    """Count an instance as it is to be, for as long as the unit stands."""
    books, project = draft.books, instance.project_id
    counted = books.counted.get(project)
    if counted is None:
        return
    before, after = counted.get(instance.uuid, NOTHING), footprint_of(instance)
    if after is None:
        draft.drop(counted, instance.uuid)
    else:
        draft.set(counted, instance.uuid, after)
    total = books.sums[project]
    draft.counted.setdefault(project, total)
    draft.set(books.sums, project, total.plus(before, times=-1).plus(after or NOTHING))


def draft_uncount(draft: Draft, uuid: str) -> None:
    """Count an instance no more whose record is removed."""
    books = draft.books
    for project, counted in books.counted.items():
        if uuid in counted:
            total = books.sums[project]
            draft.counted.setdefault(project, total)
            draft.set(books.sums, project, total.plus(counted[uuid], times=-1))
            draft.drop(counted, uuid)


def within(draft: Draft, write: Within) -> Rejected | None:
    """Refuse what makes a project's instances come to more than they may."""
    after = draft.books.sums[write.project_id]
    before = draft.counted.get(write.project_id, after)
    excess = excess_of(before, after, write.limits)
    if not excess:
        return None
    return Rejected(conflict=_told(write.project_id, excess), excess=excess)


def _told(project_id: str, excess: Iterable[Excess]) -> str:
    more = ", ".join(f"{one.used} + {one.asked} {one.name} of {one.limit}" for one in excess)
    return f"project {project_id!r} would have more than it may: {more}"
