"""Fixtures for testing one rule on a small fleet."""

from collections.abc import Callable, Sequence

import numpy as np
import pytest

from berth.domain.compute.decision import Relaxation
from berth.domain.compute.request import Request
from berth.domain.ledger.change import Snapshot
from berth.scheduling.rules.rule import Filter, Query, Weigher
from berth.tables.host.feed import table_of
from berth.tables.host.hosts import HostTable
from berth.testing.fleets import NOW_S


class Asked:
    """Evaluates rules for one fleet and one request."""

    def __init__(self, snapshot: Snapshot, request: Request) -> None:
        self.hosts: HostTable = table_of(snapshot)
        group = self.hosts.server_groups.get(request.group_uuid or "")
        self.query = Query(request, request.needs, NOW_S, group, request.instance_uuids[0])

    def kept(self, rule: Filter) -> list[str] | None:
        """Return the names of the hosts that a filter keeps, or None if it does not apply."""
        mask = rule.keep(self.hosts, self.query, self.hosts.all_rows)
        return (
            None
            if mask is None
            else list(self.hosts.names(np.flatnonzero(mask & self.hosts.alive)))
        )

    def why(self, rule: Filter, row: int) -> str:
        """Return the reason for which a filter removes a row."""
        return rule.why(self.hosts, self.query, row)

    def relaxed(self, rule: Filter, rows: Sequence[int]) -> list[tuple[str, tuple[str, ...]]]:
        """Return the texts and examples of a filter's relaxations for rows."""
        found: Sequence[Relaxation] = rule.relax(self.hosts, self.query, np.array(rows))
        assert all(relaxation.filter == rule.name for relaxation in found)
        return [(relaxation.text, relaxation.examples) for relaxation in found]

    def raw(self, rule: Weigher) -> list[float] | None:
        """Return a weigher's values for all hosts, or None if it does not apply."""
        values = rule.raw(self.hosts, self.query, self.hosts.alive_rows())
        return None if values is None else values.tolist()

    def shares(self, rule: Weigher) -> list[float] | None:
        """Return a weigher's shares for all hosts, or None if it does not apply."""
        assert rule.share is not None
        values = rule.share(self.hosts, self.query, self.hosts.alive_rows())
        return None if values is None else values.tolist()


Ask = Callable[[Snapshot, Request], Asked]


@pytest.fixture
def ask() -> Ask:
    """Return the class that evaluates rules for a fleet and a request."""
    return Asked
