"""The search for changes that would make a refused request fit.

Each change to the request itself is tried out: the changed request is evaluated by all filters, so
a change counts even if several filters require it, and is not offered if another filter would then
remove the host. Filters also propose changes, for hosts that only they remove. A proposal that
changes the request is tried out as well; any other concerns the hosts or the policy, and no other
filter depends on it.
"""

from collections.abc import Callable, Collection, Iterator, Sequence
from itertools import chain, combinations
from typing import Final, NamedTuple, ParamSpec, TypeVar

import numpy as np

from berth.domain.compute.decision import Relaxation
from berth.domain.compute.request import Request
from berth.domain.errors import InvalidInputError
from berth.domain.inventory.resources import MEMORY_MB
from berth.scheduling.evaluation.filter_chain import FilterChain
from berth.scheduling.evaluation.guarded_rules import GuardedRules
from berth.scheduling.evaluation.paired_relaxations import proposals_in_pairs
from berth.scheduling.evaluation.request_changes import changes_of, concerns_request, named
from berth.scheduling.evaluation.size_changes import RequestChange, SizeChange, sizes_of
from berth.scheduling.rules.reduction import Reduction
from berth.scheduling.rules.rule import Filter, Query, count_hosts, example_names
from berth.tables.columnar.bitsets import Mask, Rows
from berth.tables.host.hosts import HostTable

_PAIRS_MAX: Final = 3
_PAIR: Final = 2

# The search for pairs ends after this many evaluations of one filter on one host, about half a
# second. A refusal must not hold up other requests for longer.
_COST_MAX: Final = 8_000_000

# What a trial costs in addition, as evaluations: the changed request is built and checked.
_TRIAL_COST: Final = 1_000

# At most this many rounds look for the amounts that a filter requires exactly. Hosts for which
# flavors are exact are of a few kinds.
_EXACT_MAX: Final = 64
_KB_PER_MB: Final = 1024

_SEARCHED: Final = frozenset({"needs.groups", "needs.topology", "needs.devices"})
_NONE: Final[frozenset[int]] = frozenset()

# The name under which errors of the search itself are reported.
_SEARCH: Final = "relaxations"

_P = ParamSpec("_P")
_T = TypeVar("_T")


class _Tried(NamedTuple):
    """A change to a request, the changed query, and the hosts that it would win.

    `query` is None if the changed request is invalid; there are then no hosts.
    """

    change: RequestChange
    query: Query | None
    rows: Rows


class RelaxationSearch:
    """Finds the relaxations of one refused instance.

    An error of a filter, or of the search itself, loses the changes that depend on it.

    Args:
        rules: calls the filters on the table, and keeps their errors.
        filters: the filters that ran.
        reduction: the hosts that the request allows by name.

    Attributes:
        is_complete: whether all pairs of changes were tried.
    """

    def __init__(self, rules: GuardedRules, filters: FilterChain, reduction: Reduction) -> None:
        self._hosts = rules.hosts
        self._rules = rules
        self._filters = (*filters.filters, *filters.group_rules)
        self._allowed = np.flatnonzero(reduction.mask)
        self._order: Sequence[int] = range(len(self._filters))
        self._cost = 0
        # The results of `_exact_times`, by the subject, the maximum, the step and the valid steps.
        self._exact: dict[tuple[str, int, int, int], list[int]] = {}
        # Pairs in which one change drops a restriction to named hosts are not tried.
        self.is_complete = not reduction.restrictions

    # ---- one change ---------------------------------------------------------------------------

    def singles(self, query: Query) -> list[Relaxation]:
        """Return single changes that would make the request fit, those with the most hosts first.

        Args:
            query: the query of the instance.
        """
        return self._guarded(self._ordered_singles, query) or []

    def _ordered_singles(self, query: Query) -> list[Relaxation]:
        removed = [np.count_nonzero(~verdict) for verdict in self._verdicts(query)]
        # Most changes do not affect the filters that remove the most hosts, so few hosts are left
        # for the others. Filters for trees and hardware take the most time.
        self._order = sorted(self._order, key=lambda n: (_is_slow(self._filters[n]), -removed[n]))
        return [one for one, _ in self._singles(query)]

    def _singles(self, query: Query) -> list[tuple[Relaxation, Request]]:
        """Return the single changes, each with the request after it."""
        verdicts = self._verdicts(query)
        tried = {one.change.text: one for one in self._tried(query)}
        found: list[tuple[Relaxation, Request]] = []
        # Several texts may describe the same change, which is reported once.
        requests: list[Request] = []
        for relaxation in self._by_filters(query, verdicts):
            one = tried.get(relaxation.what) or self._named(query, relaxation)
            if one is None and not concerns_request(query.request, relaxation):
                found.append((relaxation, query.request))
            if one is not None and one.rows.size and one.change.request not in requests:
                requests.append(one.change.request)
                found.append((self._relaxation(one, relaxation.filter), one.change.request))
        rest = [one for one in tried.values() if one.rows.size]
        helps = bool(found) or any(not one.change.fallback for one in rest)
        for one in rest:
            if not (helps and one.change.fallback) and one.change.request not in requests:
                requests.append(one.change.request)
                name = self._filter_of(verdicts, one.rows)
                found.append((self._relaxation(one, name), one.change.request))
        found.sort(key=lambda one: -one[0].hosts)
        return found

    def _verdicts(self, query: Query) -> list[Mask]:
        """Return the verdict of each filter on each allowed host."""
        found: list[Mask] = []
        for rule in self._filters:
            self._cost += self._allowed.size
            verdict = self._rules.keep(rule, query, self._allowed)
            found.append(
                np.ones(self._allowed.size, dtype=np.bool_) if verdict is None else verdict
            )
        return found

    def _by_filters(self, query: Query, verdicts: Sequence[Mask]) -> Iterator[Relaxation]:
        """Yield the single changes that filters propose for hosts that only they remove."""
        failed = np.sum([~verdict for verdict in verdicts], axis=0)
        for rule, verdict in zip(self._filters, verdicts, strict=True):
            rows = self._allowed[~verdict & (failed == 1)]
            if rows.size:
                proposed = self._rules.relax(rule, query, rows)
                yield from (one for one in proposed if not one.parts)

    def _named(self, query: Query, relaxation: Relaxation) -> _Tried | None:
        """Return the change to the request that a relaxation describes; None if it is not one."""
        sizes = tuple(self._hosts.numa.pages_kb)
        try:
            change = named(query.request, query.group, sizes, relaxation)
        except Exception as error:  # noqa: BLE001 - only this proposal is lost
            self._rules.note(relaxation.filter, error)
            lost = RequestChange(relaxation.subject, relaxation.what, query.request)
            return _Tried(lost, None, self._allowed[:0])
        return None if change is None else self._try(query, change)

    def _guarded(self, find: Callable[_P, _T | None], *args: _P.args, **kw: _P.kwargs) -> _T | None:
        """Return what a function finds; None after an error, which loses only this result."""
        try:
            return find(*args, **kw)
        except Exception as error:  # noqa: BLE001 - a refusal must not fail for a hint
            self._rules.note(_SEARCH, error)
            return None

    def _tried(self, query: Query, without: Collection[int] = _NONE) -> Iterator[_Tried]:
        """Yield the changes to the request, whether they help or not.

        Args:
            query: the query; its request may be invalid.
            without: the indices of filters to ignore.
        """
        done: set[str] = set()
        sizes: list[_Tried] = []
        for size in sizes_of(query.request):
            smallest = self._guarded(self._smallest, query, size, without)
            if smallest is not None:
                sizes.append(smallest)
                done.add(size.series)
        for change in changes_of(query.request, query.group, tuple(self._hosts.numa.pages_kb)):
            if change.series and change.series in done:
                continue
            one = self._try(query, change, without)
            yield one
            if one.rows.size:
                done.add(change.series)
        yield from sizes

    def _smallest(
        self, query: Query, size: SizeChange, without: Collection[int] = _NONE
    ) -> _Tried | None:
        """Return the smallest reduction of a size that helps, or None if none is found.

        If no reduction helps, an increase to an amount that a filter requires exactly may.
        """
        most = _valid_times(size)
        for ladder in self._ladders(size, most):
            # If the largest reduction does not help, no smaller one does, except for filters that
            # require exact amounts (`_exact_times`).
            best = self._try(query, size.by(ladder[-1]), without)
            if best.rows.size:
                low, high = 0, len(ladder) - 1
                while low < high:
                    middle = (low + high) // 2
                    one = self._try(query, size.by(ladder[middle]), without)
                    if one.rows.size:
                        best, high = one, middle
                    else:
                        low = middle + 1
                return best
        for times in self._exact_times(query, size, most):
            one = self._try(query, size.by(times), without)
            if one.rows.size:
                return one
        return None

    def _ladders(self, size: SizeChange, most: int) -> Iterator[range]:
        """Yield ranges of the numbers of steps by which a size may be reduced.

        Some options are invalid for the smallest flavors, and memory in pages is a multiple of the
        page size, so the largest reduction of all may fail where a smaller one helps. `most` is the
        result of `_valid_times`.
        """
        if not most:
            return
        yield range(1, most + 1)
        if size.subject != MEMORY_MB:
            return
        for page_kb in sorted(self._hosts.numa.pages_kb):
            page_mb = page_kb // _KB_PER_MB
            ladder = range(size.largest % page_mb or page_mb, most + 1, page_mb) if page_mb else ()
            if page_mb > 1 and ladder:
                yield range(ladder[0], ladder[-1] + 1, page_mb)

    def _exact_times(self, query: Query, size: SizeChange, most: int) -> Sequence[int]:
        """Return the numbers of steps after which a size is exactly what a filter requires.

        Reductions come first, then increases, which are negative; smaller changes come first. After
        the largest reduction, such a filter proposes to increase the size again. Its verdict there
        says nothing about smaller reductions, but its proposals give the exact amounts. `most` is
        the result of `_valid_times`.
        """
        # Such a filter reads only the size, so the result does not depend on other changes.
        key = (size.subject, size.times_max, size.step, most)
        if key not in self._exact:
            least = query._replace(request=size.by(most).request)
            amounts = {
                more
                for rule in self._filters
                if not _is_slow(rule)
                for more in self._exact_of(rule, least, size, most)
            }
            times = {most - more // size.step for more in amounts if more % size.step == 0}
            allowed = [one for one in times - {0, most} if size.allows(one * size.step)]
            self._exact[key] = sorted(allowed, key=lambda one: (one < 0, abs(one)))
        return self._exact[key]

    def _exact_of(self, rule: Filter, least: Query, size: SizeChange, most: int) -> Iterator[int]:
        """Yield the increases, from the largest reduction, that make a size exact for some host."""
        rows, reduced = self._allowed, most * size.step
        for _ in range(_EXACT_MAX):
            self._cost += 2 * rows.size
            increases = self._increases(rule, least, size, rows)
            yield from increases
            before = rows.size
            for more in increases:
                if not size.allows(reduced - more):
                    continue
                query = least._replace(request=size.reduced(reduced - more))
                verdict = self._rules.keep(rule, query, rows)
                rows = rows[:0] if verdict is None else rows[~verdict]
            if rows.size in {0, before}:
                return
        self.is_complete = False

    def _increases(self, rule: Filter, query: Query, size: SizeChange, rows: Rows) -> list[int]:
        """Return the increases of a size that a filter proposes for the rows that it removes."""
        try:
            verdict = self._rules.keep(rule, query, rows)
            if verdict is None or verdict.all():
                return []
            proposed = self._rules.relax(rule, query, rows[~verdict])
        except InvalidInputError:
            return []
        return [
            one.change
            for one in proposed
            if one.subject == size.subject and one.change is not None and one.change > 0
        ]

    def _try(self, query: Query, change: RequestChange, without: Collection[int] = _NONE) -> _Tried:
        """Return a change with the hosts that pass all filters after it."""
        self._cost += _TRIAL_COST
        try:
            changed = _changed(query, change.request)
            return _Tried(change, changed, self._rows(changed, without))
        except InvalidInputError:
            # The changed request is invalid, so the change cannot be made alone.
            return _Tried(change, None, self._allowed[:0])
        except Exception as error:  # noqa: BLE001 - only this change is lost
            self._rules.note(_SEARCH, error)
            return _Tried(change, None, self._allowed[:0])

    def _rows(self, query: Query, without: Collection[int] = _NONE) -> Rows:
        """Return the allowed hosts that pass all filters except for some."""
        rows = self._allowed
        for index in self._order:
            if not rows.size:
                break
            if index not in without:
                rule = self._filters[index]
                self._cost += rows.size
                verdict = self._rules.keep(rule, query, rows)
                rows = rows if verdict is None else rows[verdict]
        return rows

    def _filter_of(self, verdicts: Sequence[Mask], rows: Rows) -> str:
        """Return the names of the filters that remove all of the rows, else of any."""
        here = np.isin(self._allowed, rows)
        filters = list(zip(self._filters, verdicts, strict=True))
        found = [rule.name for rule, verdict in filters if not verdict[here].any()]
        found = found or [rule.name for rule, verdict in filters if not verdict[here].all()]
        return " + ".join(dict.fromkeys(found)) or "request"

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

    def pairs(self, query: Query) -> list[Relaxation]:
        """Return a few pairs of changes, each of which would make the request fit.

        Filters propose the nearest hosts, so their proposals come first. If no pair is found, the
        result may contain a proposal of more than two changes. `is_complete` tells whether an empty
        result means that there is no pair.
        """
        return self._guarded(self._few_pairs, query) or []

    def _few_pairs(self, query: Query) -> list[Relaxation]:
        verdicts = self._verdicts(query)
        proposed = proposals_in_pairs(self._rules, query, self._filters, verdicts, self._allowed)
        found = [one for parts in proposed if (one := self._guarded(self._combined, query, parts))]
        if not any(len(one.parts) == _PAIR for one in found):
            found = self._tried_pairs(query, verdicts) or found
        # Of proposals with equally many changes, those that win the most hosts come first.
        found.sort(key=lambda one: len(one.parts))
        return found[:_PAIRS_MAX]

    def _combined(self, query: Query, parts: Sequence[Relaxation]) -> Relaxation | None:
        """Return several changes as one relaxation, or None if they do not work together."""
        changed, of_hosts = query, list[Relaxation]()
        for part in parts:
            sizes = tuple(self._hosts.numa.pages_kb)
            change = named(changed.request, changed.group, sizes, part)
            if change is not None:
                group = changed.group if change.request.group_uuid else None
                changed = changed._replace(request=change.request, group=group)
            elif concerns_request(query.request, part):
                return None
            else:
                of_hosts.append(part)
        try:
            changed = _changed(changed, changed.request)
            ignored = {part.filter for part in of_hosts}
            without = {n for n, rule in enumerate(self._filters) if rule.name in ignored}
            rows = self._rows(changed, without)
        except InvalidInputError:
            return None
        wins = [all(self._helps(changed, part, row) for part in of_hosts) for row in rows.tolist()]
        return _joined(self._hosts, parts, rows[np.array(wins, dtype=np.bool_)])

    def _helps(self, query: Query, part: Relaxation, row: int) -> bool:
        """Return whether a change that concerns hosts lets a row pass the filter it comes from."""
        here = np.array([row])
        for rule in self._filters:
            if rule.name != part.filter:
                continue
            verdict = self._rules.keep(rule, query, here)
            if verdict is not None and not verdict[0]:
                proposed = self._rules.relax(rule, query, here)
                return any(_includes(part, one) for one in proposed)
        return True

    def _tried_pairs(self, query: Query, verdicts: Sequence[Mask]) -> list[Relaxation]:
        found: list[Relaxation] = []
        # Two changes in either order are one pair.
        known: list[tuple[Request, str]] = []
        for pair, request in chain(
            self._pairs_of_changes(query),
            self._pairs_of_sizes(query, verdicts),
            self._pairs_with_hosts(query, verdicts),
        ):
            of_hosts = pair.parts[1].what if request == query.request else ""
            if (request, of_hosts) not in known:
                known.append((request, of_hosts))
                found.append(pair)
            if len(found) == _PAIRS_MAX:
                break
        return found

    def _pairs_of_changes(self, query: Query) -> Iterator[tuple[Relaxation, Request]]:
        """Yield pairs that begin with each of the changes, with the request after both."""
        for first in list(self._tried(query)):
            if self._is_too_costly():
                return
            one = Relaxation("request", first.change.subject, first.change.text, 0)
            if first.query is not None:
                for other, request in self._singles(first.query):
                    yield _pair(one, other), request
                continue
            # The first change alone makes the request invalid, but both together may not.
            group = query.group if first.change.request.group_uuid else None
            changed = query._replace(request=first.change.request, group=group)
            for second in self._tried(changed):
                if second.rows.size:
                    yield _pair(one, self._relaxation(second, "request")), second.change.request

    def _is_too_costly(self) -> bool:
        if self._cost > _COST_MAX:
            self.is_complete = False
            return True
        return False

    def _pairs_of_sizes(
        self, query: Query, verdicts: Sequence[Mask]
    ) -> Iterator[tuple[Relaxation, Request]]:
        """Yield pairs of reductions of two sizes, of which neither would help alone."""
        for one, other in combinations(sizes_of(query.request), 2):
            if self._is_too_costly():
                return
            pair = self._guarded(self._pair_of_sizes, query, verdicts, one, other)
            if pair is not None:
                yield pair

    def _pair_of_sizes(
        self, query: Query, verdicts: Sequence[Mask], one: SizeChange, other: SizeChange
    ) -> tuple[Relaxation, Request] | None:
        most = _valid_times(one)
        tops = {ladder[-1] for ladder in self._ladders(one, most)}
        for times in sorted(tops | set(self._exact_times(query, one, most)), reverse=True):
            if self._is_too_costly():
                return None
            first = self._try(query, one.by(times))
            if first.query is None:
                continue
            second = self._smallest_of(first.query, other.subject)
            if second is None:
                continue
            # After the second reduction, a smaller first one may be enough.
            reduced = self._try(query, other.by(-(second.change.change or 0) // other.step))
            least = None if reduced.query is None else self._smallest_of(reduced.query, one.subject)
            if least is not None:
                first, second = least, second._replace(rows=least.rows)
            part = Relaxation("request", one.subject, first.change.text, 0)
            name = self._filter_of(verdicts, second.rows)
            both = second.change if least is None else least.change
            return _pair(part, self._relaxation(second, name)), both.request
        return None

    def _smallest_of(self, query: Query, subject: str) -> _Tried | None:
        for size in sizes_of(query.request):
            if size.subject == subject:
                return self._smallest(query, size)
        return None

    def _pairs_with_hosts(
        self, query: Query, verdicts: Sequence[Mask]
    ) -> Iterator[tuple[Relaxation, Request]]:
        """Yield pairs of a change to the request and one that concerns hosts or the policy."""
        for index, (rule, verdict) in enumerate(zip(self._filters, verdicts, strict=True)):
            rows = self._allowed[~verdict]
            if not rows.size or not any(
                not concerns_request(query.request, one) and self._named(query, one) is None
                for one in self._rules.relax(rule, query, rows)
            ):
                continue
            for first in self._tried(query, (index,)):
                if self._is_too_costly():
                    return
                if first.query is None or not first.rows.size:
                    continue
                for second in self._rules.relax(rule, first.query, first.rows):
                    part = Relaxation("request", first.change.subject, first.change.text, 0)
                    if not concerns_request(first.query.request, second):
                        yield _pair(part, second), first.change.request


def _is_slow(rule: Filter) -> bool:
    """Return whether a filter searches trees of providers or NUMA cells of hosts."""
    return not _SEARCHED.isdisjoint(rule.reads.request)


def _changed(query: Query, request: Request) -> Query:
    """Return the query of a changed request.

    Raises:
        InvalidInputError: the changed request is invalid.
    """
    group = query.group if request.group_uuid else None
    return query._replace(request=request, needs=request.needs, group=group)


def _includes(part: Relaxation, other: Relaxation) -> bool:
    """Return whether a change, such as a higher limit, covers another one."""
    if part.change is None or other.change is None:
        return part.what == other.what
    return part.subject == other.subject and 0 < other.change <= part.change


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


def _pair(one: Relaxation, other: Relaxation) -> Relaxation:
    return Relaxation(
        filter=f"{one.filter} + {other.filter}",
        subject=f"{one.subject}, {other.subject}",
        text=f"{one.text} and {other.text}",
        hosts=other.hosts,
        examples=other.examples,
        parts=(one, other),
    )


def _joined(hosts: HostTable, parts: Sequence[Relaxation], rows: Rows) -> Relaxation | None:
    """Return the relaxation of several changes together; None if they win no row."""
    if not rows.size:
        return None
    both = " and ".join(part.what for part in parts)
    return Relaxation(
        filter=" + ".join(dict.fromkeys(part.filter for part in parts)),
        subject=", ".join(part.subject for part in parts),
        text=f"{both}: {count_hosts(rows.size)}",
        hosts=int(rows.size),
        examples=example_names(hosts, rows),
        parts=tuple(parts),
    )
