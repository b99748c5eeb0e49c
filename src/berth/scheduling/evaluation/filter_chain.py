"""The filter chain: the filters in the policy's order, and the hosts that each of them leaves."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from berth.domain.compute.decision import FilterCount
from berth.scheduling.rules.reduction import REBUILD, Reduction
from berth.scheduling.rules.rule import Filter, Query
from berth.tables.columnar.bitsets import Mask
from berth.tables.host.hosts import HostTable

_GROUP = "group"


@dataclass(frozen=True, slots=True)
class Survivors:
    """The hosts that passed the filters.

    `left` contains the number of hosts after the reduction, then after each filter that ran.
    `filters` contains all filters of the chain, including those after a filter that left no host.
    """

    mask: Mask
    filters: tuple[Filter, ...]
    left: tuple[int, ...]

    @property
    def counts(self) -> tuple[FilterCount, ...]:
        """The number of hosts before and after each filter that ran."""
        steps = zip(self.filters, self.left, self.left[1:], strict=False)
        return tuple(FilterCount(rule.name, before, after) for rule, before, after in steps)


class FilterChain:
    """The filters of one request.

    Every instance starts from all hosts again, because a placement may make a host pass an affinity
    filter that removed it before. Only the verdict of a filter with `once_per_request` is cached.

    Args:
        hosts: the table.
        filters: the filters of the policy, in its order.
        reduction: the hosts that the request allows by name.

    Attributes:
        filters: the filters that apply to the request; forced requests and rebuilds skip some.
    """

    def __init__(self, hosts: HostTable, filters: Sequence[Filter], reduction: Reduction) -> None:
        self._hosts = hosts
        self._reduction = reduction
        self._all = tuple(filters)
        self._once: dict[int, Mask | None] = {}
        self.filters = self.holding(forced=reduction.forced)

    @property
    def group_rules(self) -> tuple[Filter, ...]:
        """The filters of server groups that forcing skips.

        They do not run, but a plan that violates a group's policy is refused afterwards.
        """
        if not self._reduction.forced or self._reduction.check_type:
            return ()
        held = {id(rule) for rule in self.filters}
        return tuple(
            rule for rule in self._all if id(rule) not in held and _GROUP in rule.reads.request
        )

    def holding(self, *, forced: bool) -> tuple[Filter, ...]:
        """Return the filters that apply to a forced request, or to a request that is not forced.

        Forcing skips no filter if hosts are only checked. A rebuild, which claims nothing, runs
        only the filters with `run_on_rebuild` (nova-behaviour.md 2.2).
        """
        if self._reduction.check_type == REBUILD:
            return tuple(f for f in self._all if f.run_on_rebuild)
        skips = forced and not self._reduction.check_type
        return tuple(f for f in self._all if f.on_forced or not skips)

    def run(self, query: Query) -> Survivors:
        """Return the hosts that pass for one instance; stop at a filter that leaves none."""
        mask = self._reduction.mask.copy()
        left = [int(np.count_nonzero(mask))]
        for rule in self.filters:
            verdict = self._verdict(rule, query)
            if verdict is None:
                left.append(left[-1])
            else:
                mask &= verdict
                left.append(int(np.count_nonzero(mask)))
            # If no host is left, later filters have nothing to remove. An explanation runs all
            # filters (`verdicts`).
            if not left[-1]:
                break
        return Survivors(mask, self.filters, tuple(left))

    def verdicts(self, query: Query) -> list[Mask]:
        """Return the verdict of every filter on every host, (N,) each, for an explanation."""
        everyone = np.ones(len(self._hosts), dtype=np.bool_)
        asked = (self._verdict(rule, query) for rule in self.filters)
        return [everyone if verdict is None else verdict for verdict in asked]

    def passes(self, query: Query, *, forced: bool) -> Mask:
        """Return, for each host, whether it passes the filters of a request, forced or not."""
        return self._passed(query, self.holding(forced=forced))

    def passes_skipped_filters(self, query: Query) -> Mask:
        """Return, for each host, whether it passes the filters that a forced request skips."""
        held = {id(rule) for rule in self.holding(forced=True)}
        skipped = [rule for rule in self.holding(forced=False) if id(rule) not in held]
        return self._passed(query, skipped)

    def passes_group_rules(self, query: Query) -> Mask:
        """Return, for each host, whether it passes `group_rules`."""
        return self._passed(query, self.group_rules)

    def _passed(self, query: Query, filters: Iterable[Filter]) -> Mask:
        mask = np.ones(len(self._hosts), dtype=np.bool_)
        for rule in filters:
            verdict = self._verdict(rule, query)
            if verdict is not None:
                mask &= verdict
        return mask

    def _verdict(self, rule: Filter, query: Query) -> Mask | None:
        if not rule.once_per_request:
            return rule.keep(self._hosts, query, self._hosts.all_rows)
        # Filters are told apart by identity, because a policy may contain the same filter twice
        # with different options.
        key = id(rule)
        if key not in self._once:
            self._once[key] = rule.keep(self._hosts, query, self._hosts.all_rows)
        return self._once[key]
