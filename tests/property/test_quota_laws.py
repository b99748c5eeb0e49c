"""Laws of quotas: a project's footprint is the sum of its instances and keeps to the limits."""

import asyncio
from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

from hypothesis import given
from hypothesis import strategies as st

from berth.adapters.ledger import MemoryLedger
from berth.domain.compute.instance import Instance, Status
from berth.domain.compute.quota import UNLIMITED, Footprint
from berth.domain.ledger.change import RecordRemoved
from berth.domain.ledger.record import Kind
from berth.domain.ledger.write import Committed, Put, QuotaCheck, Remove, Unit
from berth.testing.builders import make_flavor, make_instance

_PROJECTS = ("web", "db")
_NUMBERS = st.integers(1, 6)


class _Step(NamedTuple):
    """A write or removal of an instance, perhaps with a quota check."""

    number: int
    project: str
    vcpus: int
    counts_as: tuple[int, int] | None
    deletes: bool
    removes: bool
    within: Footprint | None


_LIMITS = st.sampled_from((UNLIMITED, 0, 2, 4))
_STEPS = st.builds(
    _Step,
    _NUMBERS,
    st.sampled_from(_PROJECTS),
    st.integers(1, 3),
    st.none() | st.tuples(st.integers(3, 5), st.just(2_048)),
    st.booleans(),
    st.sampled_from((False, False, False, True)),
    st.none() | st.builds(Footprint, _LIMITS, _LIMITS, st.just(UNLIMITED)),
)
_BATCHES = st.lists(st.lists(st.lists(_STEPS, min_size=1, max_size=3), min_size=1), max_size=5)


def _unit(steps: Sequence[_Step], known: dict[str, Instance]) -> Unit:
    """Return a unit of steps, each of which applies to the result of the ones before."""
    unit: Unit = ()
    for step in steps:
        fresh = make_instance(step.number)
        old = known.get(fresh.uuid)
        if step.removes and old is not None:
            unit = (*unit, Remove(Kind.INSTANCE, fresh.uuid))
            del known[fresh.uuid]
        else:
            made = replace(
                fresh,
                project_id=step.project if old is None else old.project_id,
                flavor=make_flavor(vcpus=step.vcpus),
                counts_as=step.counts_as,
                status=Status.DELETED if step.deletes else Status.ACTIVE,
                revision=0 if old is None else old.revision,
            )
            unit = (*unit, Put(made))
            known[fresh.uuid] = replace(made, revision=made.revision + 1)
        if step.within is not None:
            unit = (*unit, QuotaCheck(step.project, step.within))
    return unit


def _sums(instances: dict[str, Instance]) -> dict[str, tuple[int, int, int]]:
    """Return (instances, VCPUs, MB of memory) of each project, summed up from its instances."""
    sums = dict.fromkeys(_PROJECTS, (0, 0, 0))
    for one in instances.values():
        if one.status is not Status.DELETED:
            count, vcpus, memory_mb = sums[one.project_id]
            size = one.counts_as or (one.flavor.vcpus, one.flavor.memory_mb)
            sums[one.project_id] = (count + 1, vcpus + size[0], memory_mb + size[1])
    return sums


async def _check(batches: Sequence[Sequence[Sequence[_Step]]]) -> None:
    ledger = MemoryLedger()
    told: dict[str, Instance] = {}
    version = 0
    for batch in batches:
        known = dict(told)
        units = [_unit(steps, known) for steps in batch]
        outcomes = await ledger.commit(units)
        for unit, outcome in zip(units, outcomes, strict=True):
            if not isinstance(outcome, Committed):
                continue
            before = _sums(told)
            for change in await ledger.changes(version, 1):
                event = change.event
                if isinstance(event, Instance):
                    told[event.uuid] = event
                elif isinstance(event, RecordRemoved):
                    told.pop(event.key, None)
            version = outcome.version
            after = _sums(told)
            last = unit[-1]
            if isinstance(last, QuotaCheck):
                limits, had = last.limits, before[last.project_id]
                for was, now, limit in zip(had, after[last.project_id], limits, strict=True):
                    assert now <= was or now <= limit or limit == UNLIMITED
        for project in _PROJECTS:
            assert await ledger.project_footprint(project) == _sums(told)[project]


@given(_BATCHES)
def test_usage_is_the_sum_of_instances_and_stays_within_limits(
    batches: list[list[list[_Step]]],
) -> None:
    """A project's footprint is the sum of the instances in the feed; no unit exceeds its limit."""
    asyncio.run(_check(batches))
