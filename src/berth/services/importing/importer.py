"""Imports a Nova cloud into the ledger, in batches that may be interrupted at any time."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Final

from berth.domain.compute.aggregate import Aggregate
from berth.domain.inventory.resources import ResourceClass, Trait
from berth.domain.ledger.record import Kind
from berth.domain.ledger.write import Rejected
from berth.ports.clock import Clock
from berth.ports.ledger import Ledger
from berth.ports.nova import NovaCloud
from berth.services.importing.import_plan import ImportPlan, PlannedChange, plan_import
from berth.services.importing.import_units import (
    PlannedUnit,
    removal_units,
    roomy_unit,
    server_units,
    small_units,
    tree_units,
)
from berth.services.importing.stored_fleet import read_stored_fleet
from berth.services.providers.guarded_saves import rejection_text

# A larger batch would keep the ledger's lock for too long while other processes write.
_AT_ONCE: Final = 200
# The ids of aggregates are raised to those of Nova one by one; beyond this, something is wrong.
_NUMBERS_MAX: Final = 100_000


@dataclass(frozen=True, slots=True)
class RefusedChange:
    """A change that the ledger refused, because of a change by another process meanwhile."""

    change: PlannedChange
    reason: str


@dataclass(frozen=True, slots=True)
class ImportResult:
    """The outcome of an import.

    Attributes:
        written: the changes that were committed.
        refused: those that the ledger refused; another import tries them again.
        kept: the removals that were skipped, because the operator did not ask for them.
        overcommitted: the consumers whose allocations exceed the capacity, as they do in Nova.
    """

    written: tuple[PlannedChange, ...]
    refused: tuple[RefusedChange, ...]
    kept: tuple[PlannedChange, ...]
    overcommitted: tuple[str, ...]


def _silent(_done: int, _total: int) -> None:
    """Report no progress."""


class NovaImport:
    """Compares a Nova cloud with the ledger, and writes what differs.

    Every run compares everything again. The next run therefore continues one that was killed, and
    writes nothing if the ledger already has what Nova has.

    Args:
        ledger: the ledger; other processes may use it at the same time.
        clock: provides the times in records.
    """

    def __init__(self, ledger: Ledger, clock: Clock) -> None:
        self._ledger = ledger
        self._clock = clock

    async def plan(self, cloud: NovaCloud) -> ImportPlan:
        """Return what an import would do; nothing is written.

        Raises:
            UnavailableError: the ledger cannot be reached.
        """
        return plan_import(cloud, await read_stored_fleet(self._ledger))

    async def carry_out(
        self,
        plan: ImportPlan,
        *,
        prunes: bool = False,
        on_progress: Callable[[int, int], None] = _silent,
    ) -> ImportResult:
        """Write the changes of a plan.

        Args:
            plan: the plan.
            prunes: whether to remove what Nova no longer has.
            on_progress: called after each batch with the numbers of units done and in all.

        Raises:
            UnavailableError: the ledger cannot be reached; what was committed stays.
        """
        changes = await self._numbered(plan.changes)
        now_s, seen = self._clock.now_s(), plan.stored.version
        going = removal_units(plan, now_s)
        first = [*small_units(changes, seen), *tree_units(plan)]
        servers = server_units(plan)
        total, run = len(first) + len(servers) + (len(going) if prunes else 0), _Run()
        # Removals come first, so that a name is free before another record takes it.
        for units in (going if prunes else [], first, servers):
            for batch in _batches(units):
                await self._commit(batch, plan, run)
                on_progress(run.done, total)
        kept = () if prunes else tuple(one for planned in going for one in planned.changes)
        return ImportResult(tuple(run.written), tuple(run.refused), kept, tuple(run.overcommitted))

    async def _commit(self, batch: Sequence[PlannedUnit], plan: ImportPlan, run: "_Run") -> None:
        outcomes = await self._ledger.commit([planned.unit for planned in batch])
        for planned, outcome in zip(batch, outcomes, strict=True):
            refusal = outcome if isinstance(outcome, Rejected) else None
            if refusal is not None and refusal.shortages:
                seen = await self._ledger.version()
                roomy = roomy_unit(planned, plan, seen)
                (again,) = await self._ledger.commit([roomy.unit])
                refusal = again if isinstance(again, Rejected) else None
                if refusal is None:
                    run.overcommitted.append(planned.changes[0].key)
            if refusal is None:
                run.written += planned.changes
            else:
                reason = rejection_text(refusal)
                run.refused += [RefusedChange(one, reason) for one in planned.changes]
            run.done += 1

    async def _numbered(self, changes: Iterable[PlannedChange]) -> list[PlannedChange]:
        """Return the changes with the numbers and times of new records.

        Aggregates keep Nova's ids where these are free. The ledger's own counter is raised above
        them, so that it never assigns one of them again.
        """
        numbered: list[PlannedChange] = []
        highest = 0
        for change in changes:
            record = change.record
            match record:
                case Aggregate(aggregate_id=0):
                    number = await self._ledger.next_id(Kind.AGGREGATE)
                    record = replace(record, aggregate_id=number)
                case Aggregate():
                    highest = max(highest, record.aggregate_id)
                case ResourceClass() | Trait():
                    kind = Kind.TRAIT if isinstance(record, Trait) else Kind.RESOURCE_CLASS
                    number = await self._ledger.next_id(kind)
                    record = replace(record, number=number, created_at_s=self._clock.now_s())
                case _:
                    pass
            numbered.append(replace(change, record=record))
        while 0 < highest < _NUMBERS_MAX and await self._ledger.next_id(Kind.AGGREGATE) < highest:
            pass
        return numbered


@dataclass(slots=True)
class _Run:
    """The state of a run."""

    written: list[PlannedChange]
    refused: list[RefusedChange]
    overcommitted: list[str]
    done: int

    def __init__(self) -> None:
        self.written, self.refused, self.overcommitted, self.done = [], [], [], 0


def _batches(units: Sequence[PlannedUnit]) -> Iterable[Sequence[PlannedUnit]]:
    for first in range(0, len(units), _AT_ONCE):
        yield units[first : first + _AT_ONCE]
