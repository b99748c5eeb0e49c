"""The search for changes that would make a refused request fit.

Filters propose changes for hosts that only they remove. In addition, each change to the request
itself is tried out: the changed request is evaluated by all filters, so a change counts even if
several filters require it, and is not offered if another filter would then remove the host.
"""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import combinations
from typing import Final, NamedTuple

import numpy as np

from berth.domain.compute.decision import Relaxation
from berth.domain.errors import InvalidInputError
from berth.domain.inventory.resources import MEMORY_MB, PCPU, VCPU
from berth.scheduling.evaluation.filter_chain import FilterChain
from berth.scheduling.evaluation.paired_relaxations import relaxations_in_pairs
from berth.scheduling.evaluation.request_changes import (
    RequestChange,
    SizeChange,
    changes_of,
    dropping_spec,
    implied_demands,
    sizes_of,
)
from berth.scheduling.rules.reduction import Reduction
from berth.scheduling.rules.rule import Filter, Query, count_hosts, example_names
from berth.tables.columnar.bitsets import Mask, Rows
from berth.tables.host.hosts import HostTable

_PAIRS_MAX: Final = 3

# The search for pairs ends after this many evaluations of one filter on one host, about half a
# second. A refusal must not hold up other requests for longer.
_COST_MAX: Final = 8_000_000

# At most this many rounds look for the amounts that a filter requires exactly.
_EXACT_MAX: Final = 256
_KB_PER_MB: Final = 1024

# For each part of a guest's size that filters for NUMA cells name, the class of the whole size.
_PARTS_OF_SIZES: Final = {
    "dedicated CPUs": VCPU,
    "shared CPUs": VCPU,
    "memory": MEMORY_MB,
    PCPU: VCPU,
}


class _Tried(NamedTuple):
    """A change to a request, the changed query, and the rows that would then pass all filters."""

    change: RequestChange
    query: Query
    rows: Rows


class RelaxationSearch:
    """Finds the relaxations of one refused instance.

    Attributes:
        is_complete: whether all pairs of changes were tried.
    """

    def __init__(self, hosts: HostTable, chain: FilterChain, reduction: Reduction) -> None:
        self._hosts = hosts
        self._chain = chain
        self._allowed = np.flatnonzero(reduction.mask)
        self._cost = 0
        # The results of `_exact_times`, by the subject, the maximum, the step and the valid steps.
        self._exact: dict[tuple[str, int, int, int], list[int]] = {}
        # Pairs in which one change drops a restriction to named hosts are not tried.
        self.is_complete = not reduction.restrictions

    # ---- one change ---------------------------------------------------------------------------

    def singles(self, query: Query, verdicts: Sequence[Mask]) -> list[Relaxation]:
        """Return the single changes that would make the request fit, those with most hosts first.

        Args:
            query: the query of the instance.
            verdicts: (N,) for each filter of the chain, True for hosts that pass it.
        """
        tried = {one.change.text: one for one in self._tried(query)}
        found: list[Relaxation] = []
        for relaxation in self._by_filters(query, verdicts):
            checked = self._checked(query, relaxation, tried)
            if checked is not None:
                found.append(checked)
        known = {one.what for one in found}
        rest = [one for text, one in tried.items() if one.rows.size and text not in known]
        helps = bool(found) or any(not one.change.fallback for one in rest)
        found += [
            self._relaxation(one, self._filter_of(verdicts, one.rows))
            for one in rest
            if not (helps and one.change.fallback)
        ]
        found.sort(key=lambda one: -one.hosts)
        return found

    def _by_filters(self, query: Query, verdicts: Sequence[Mask]) -> Iterator[Relaxation]:
        failed = np.zeros(len(self._hosts), dtype=np.int64)
        for verdict in verdicts:
            failed += ~verdict
        for rule in self._chain.group_rules:
            failed += ~self._verdict_on_all(rule.keep(self._hosts, query, self._hosts.all_rows))
        for rule, verdict in zip(self._chain.filters, verdicts, strict=True):
            rows = self._allowed[~verdict[self._allowed] & (failed[self._allowed] == 1)]
            if rows.size:
                yield from rule.relax(self._hosts, query, rows)

    def _verdict_on_all(self, verdict: Mask | None) -> Mask:
        return np.ones(len(self._hosts), dtype=np.bool_) if verdict is None else verdict

    def _checked(
        self, query: Query, relaxation: Relaxation, tried: dict[str, _Tried]
    ) -> Relaxation | None:
        """Return a filter's relaxation with the exact number of hosts, or None if it is false."""
        what = relaxation.what
        if what in implied_demands(query.request, query.needs):
            return None
        known = tried.get(what)
        if known is None:
            # A filter may propose less of a part of a size, such as dedicated CPUs. If less of the
            # whole size helps, that is offered instead.
            whole = _PARTS_OF_SIZES.get(relaxation.subject)
            if query.needs.topology is not None and any(
                one.change.subject == whole and one.rows.size for one in tried.values()
            ):
                return None
            change = self._named(query, relaxation)
            if change is None:
                if _changes_topology(query, relaxation):
                    return None
                return _with_lists(query, relaxation)
            known = self._try(query, change)
        if not known.rows.size:
            return None
        return self._relaxation(known, relaxation.filter)

    def _tried(self, query: Query) -> Iterator[_Tried]:
        """Yield the changes to the request, whether they help or not."""
        done: set[str] = set()
        for change in changes_of(query.request, query.group, tuple(self._hosts.numa.pages_kb)):
            if change.series in done:
                continue
            one = self._try(query, change)
            yield one
            if change.series and one.rows.size:
                done.add(change.series)
        for size in sizes_of(query.request):
            smallest = self._smallest(query, size)
            if smallest is not None:
                yield smallest

    def _smallest(self, query: Query, size: SizeChange) -> _Tried | None:
        """Return the smallest reduction of a size that helps, or None if none is found."""
        for ladder in self._ladders(query, size):
            # If the largest reduction does not help, no smaller one does, except for filters that
            # require exact amounts (`_exact_times`).
            if self._try(query, size.by(ladder[-1])).rows.size:
                low, high = 0, len(ladder) - 1
                while low < high:
                    middle = (low + high) // 2
                    if self._try(query, size.by(ladder[middle])).rows.size:
                        high = middle
                    else:
                        low = middle + 1
                return self._try(query, size.by(ladder[high]))
        for times in self._exact_times(query, size):
            one = self._try(query, size.by(times))
            if one.rows.size:
                return one
        return None

    def _ladders(self, query: Query, size: SizeChange) -> Iterator[range]:
        """Yield ranges of the numbers of steps by which a size may be reduced.

        Some options are invalid for the smallest flavors, and memory in pages is a multiple of the
        page size, so the largest reduction of all may fail where a smaller one helps.
        """
        most = _valid_times(size)
        if not most:
            return
        yield range(1, most + 1)
        if size.subject != MEMORY_MB or query.needs.topology is None:
            return
        in_cell_mb = query.request.flavor.memory_mb // size.step
        for page_kb in sorted(self._hosts.numa.pages_kb):
            page_mb = page_kb // _KB_PER_MB
            ladder = range(in_cell_mb % page_mb or page_mb, most + 1, page_mb) if page_mb else ()
            if page_mb > 1 and ladder:
                yield range(ladder[0], ladder[-1] + 1, page_mb)

    def _exact_times(self, query: Query, size: SizeChange) -> Sequence[int]:
        """Return the numbers of steps after which a size is exactly what a filter requires.

        After the largest reduction, such a filter proposes to increase the size again. Its verdict
        there says nothing about smaller reductions, but its proposals give the exact amounts.
        """
        most = _valid_times(size)
        if not most:
            return ()
        # Such a filter reads only the size, so the result does not depend on other changes.
        key = (size.subject, size.times_max, size.step, most)
        if key not in self._exact:
            least = query._replace(request=size.by(most).request)
            amounts = {
                more for rule in self._chain.filters for more in self._exact_of(rule, least, size)
            }
            times = {most - more // size.step for more in amounts if more % size.step == 0}
            self._exact[key] = sorted(one for one in times if 1 <= one < most)
        return self._exact[key]

    def _exact_of(self, rule: Filter, least: Query, size: SizeChange) -> Iterator[int]:
        """Yield the increases, from the largest reduction, that make a size exact for some host."""
        rows, reduced = self._allowed, size.by(_valid_times(size)).change or 0
        for _ in range(_EXACT_MAX):
            self._cost += 2 * rows.size
            increases = self._increases(rule, least, size, rows)
            yield from increases
            before = rows.size
            for more in increases:
                query = least._replace(request=size.reduced(-reduced - more))
                verdict = rule.keep(self._hosts, query, rows)
                rows = rows[:0] if verdict is None else rows[~verdict]
            if rows.size in {0, before}:
                return
        self.is_complete = False

    def _increases(self, rule: Filter, query: Query, size: SizeChange, rows: Rows) -> list[int]:
        """Return the increases of a size that a filter proposes for the rows that it removes."""
        try:
            verdict = rule.keep(self._hosts, query, rows)
            if verdict is None or verdict.all():
                return []
            proposed = rule.relax(self._hosts, query, rows[~verdict])
        except InvalidInputError:
            return []
        return [
            one.change
            for one in proposed
            if one.subject == size.subject and one.change is not None and one.change > 0
        ]

    def _try(self, query: Query, change: RequestChange) -> _Tried:
        """Return a change with the hosts that pass all filters after it."""
        rows = self._allowed
        changed = query
        try:
            group = query.group if change.request.group_uuid else None
            changed = query._replace(
                request=change.request, needs=change.request.needs, group=group
            )
            for rule in (*self._chain.filters, *self._chain.group_rules):
                self._cost += rows.size
                verdict = rule.keep(self._hosts, changed, rows)
                rows = rows if verdict is None else rows[verdict]
                if not rows.size:
                    break
        except InvalidInputError:
            # The changed request is invalid, so the change cannot be made.
            return _Tried(change, changed, rows[:0])
        return _Tried(change, changed, rows)

    def _filter_of(self, verdicts: Sequence[Mask], rows: Rows) -> str:
        """Return the names of the filters that remove all of the rows, else of any."""
        filters = list(zip(self._chain.filters, verdicts, strict=True))
        named = [rule.name for rule, verdict in filters if not verdict[rows].any()]
        named = named or [rule.name for rule, verdict in filters if not verdict[rows].all()]
        return " + ".join(dict.fromkeys(named)) or "request"

    def _relaxation(self, tried: _Tried, filter_name: str) -> Relaxation:
        change, rows = tried.change, tried.rows
        return Relaxation(
            filter=filter_name,
            subject=change.subject,
            text=f"{change.text}: {count_hosts(rows.size)}",
            hosts=int(rows.size),
            change=change.change,
            examples=example_names(self._hosts, rows),
        )

    # ---- two changes --------------------------------------------------------------------------

    def pairs(self, query: Query, verdicts: Sequence[Mask]) -> list[Relaxation]:
        """Return a few pairs of changes, each of which would make the request fit.

        `is_complete` tells whether an empty result means that there is no pair.
        """
        allowed = np.zeros(len(self._hosts), dtype=np.bool_)
        allowed[self._allowed] = True
        for rule in self._chain.group_rules:
            allowed &= self._verdict_on_all(rule.keep(self._hosts, query, self._hosts.all_rows))
        proposed = relaxations_in_pairs(self._hosts, query, self._chain.filters, verdicts, allowed)
        found = [one for one in proposed if self._is_pair_true(query, one)]
        if found:
            return found
        # Pairs of filters that were found may have been false for the host that was named.
        self.is_complete &= not proposed
        found += self._tried_pairs(query, verdicts)
        return found

    def _tried_pairs(self, query: Query, verdicts_now: Sequence[Mask]) -> list[Relaxation]:
        found: list[Relaxation] = []
        texts: set[frozenset[str]] = set()
        for first in list(self._tried(query)):
            if self._cost > _COST_MAX:
                self.is_complete = False
                break
            if first.query is query:
                continue
            verdicts = [
                self._verdict_on_all(rule.keep(self._hosts, first.query, self._hosts.all_rows))
                for rule in self._chain.filters
            ]
            self._cost += len(verdicts) * len(self._hosts)
            one = Relaxation("request", first.change.subject, first.change.text, 0)
            for other in self.singles(first.query, verdicts):
                both = frozenset({one.text, other.what})
                if both not in texts and len(found) < _PAIRS_MAX:
                    texts.add(both)
                    found.append(_pair(one, other))
        if not found:
            found += self._pairs_of_sizes(query, verdicts_now)
        return found

    def _pairs_of_sizes(self, query: Query, verdicts: Sequence[Mask]) -> Iterator[Relaxation]:
        """Yield pairs of reductions of two sizes, of which neither would help alone."""
        for one, other in combinations(sizes_of(query.request), 2):
            if self._cost > _COST_MAX:
                self.is_complete = False
                return
            tops = {ladder[-1] for ladder in self._ladders(query, one)}
            for times in sorted(tops | set(self._exact_times(query, one)), reverse=True):
                first = self._try(query, one.by(times))
                second = self._smallest_of(first.query, other.subject)
                if second is None:
                    continue
                # After the second reduction, a smaller first one may be enough.
                reduced = self._try(query, other.by(-(second.change.change or 0) // other.step))
                least = self._smallest_of(reduced.query, one.subject)
                if least is not None:
                    first, second = least, second._replace(rows=least.rows)
                part = Relaxation("request", one.subject, first.change.text, 0)
                yield _pair(part, self._relaxation(second, self._filter_of(verdicts, second.rows)))
                break

    def _smallest_of(self, query: Query, subject: str) -> _Tried | None:
        for size in sizes_of(query.request):
            if size.subject == subject:
                return self._smallest(query, size)
        return None

    def _is_pair_true(self, query: Query, pair: Relaxation) -> bool:
        """Return whether a pair works, as far as its parts are changes to the request."""
        implied = implied_demands(query.request, query.needs)
        changed, rows = query, self._allowed
        for part in pair.parts:
            if part.what in implied:
                return False
            change = self._named(changed, part)
            if change is None:
                # The part concerns the hosts, or is an amount that only its filter knows.
                return not _changes_topology(changed, part)
            tried = self._try(changed, change)
            if tried.query is changed:
                return False
            changed, rows = tried.query, tried.rows
        return bool(set(pair.examples) & set(self._hosts.names(rows)))

    def _named(self, query: Query, part: Relaxation) -> RequestChange | None:
        """Return the change to the request that a relaxation describes, if it is one."""
        sizes = tuple(self._hosts.numa.pages_kb)
        for change in changes_of(query.request, query.group, sizes):
            if change.text == part.what:
                return change
        return dropping_spec(query.request, part.what) or _same_size(query, part)


def _valid_times(size: SizeChange) -> int:
    """Return the largest number of steps that keep the request valid; 0 if none do."""
    low, high = 0, size.times_max
    middle = high
    while low < high:
        try:
            size.by(middle).request.needs  # noqa: B018 - computes and checks the needs
        except InvalidInputError:
            high = middle - 1
        else:
            low = middle
        middle = (low + high + 1) // 2
    return low


def _same_size(query: Query, relaxation: Relaxation) -> RequestChange | None:
    """Return the change to a size of the flavor that a filter proposes, if it is a single one."""
    for size in sizes_of(query.request):
        if relaxation.subject == size.subject and relaxation.change is not None:
            times = -relaxation.change // size.step
            if 1 <= times <= size.times_max and size.by(times).text == relaxation.what:
                return size.by(times)
    return None


def _changes_topology(query: Query, relaxation: Relaxation) -> bool:
    """Return whether a relaxation changes CPUs or memory that NUMA cells share in a fixed way."""
    return query.needs.topology is not None and relaxation.subject in {VCPU, MEMORY_MB, PCPU}


def _with_lists(query: Query, relaxation: Relaxation) -> Relaxation:
    """Return a relaxation that says so if it also changes the lists of a guest's NUMA cells."""
    specs = query.request.flavor.extra_specs
    lists = "hw:numa_mem" if relaxation.subject == "memory" else "hw:numa_cpus"
    if relaxation.subject not in _PARTS_OF_SIZES or not any(key.startswith(lists) for key in specs):
        return relaxation
    what, _, number = relaxation.text.rpartition(": ")
    return replace(relaxation, text=f"{what} in the flavor and {lists}.N: {number}")


def _pair(one: Relaxation, other: Relaxation) -> Relaxation:
    return Relaxation(
        filter=f"{one.filter} + {other.filter}",
        subject=f"{one.subject}, {other.subject}",
        text=f"{one.text} and {other.text}",
        hosts=other.hosts,
        examples=other.examples,
        parts=(one, other),
    )
