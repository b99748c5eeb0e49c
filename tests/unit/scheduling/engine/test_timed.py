"""Tests for verdicts that change with time."""

from dataclasses import replace

import pytest

from berth.scheduling.engine.timed import TimedVerdicts
from berth.scheduling.filters import service_is_up
from berth.scheduling.rules.rule import Query
from berth.tables.columnar.bitsets import Mask, Selection
from berth.tables.host.feed import table_of
from berth.tables.host.hosts import HostTable
from berth.testing.fleets import NOW_S, Box, asking, snapshot_of


def query_at(now_s: float) -> Query:
    """Return a query at a time."""
    request = asking()
    return Query(request, request.needs, now_s, None, request.instance_uuids[0])


@pytest.mark.parametrize("later_s", [0.0, 1_000.0])
def test_a_filter_that_fails_once_leaves_no_outdated_verdicts(later_s: float) -> None:
    """A change for which the filter failed is evaluated in the next update."""
    hosts = table_of(snapshot_of([Box("a"), Box("b")]))
    is_failing = False
    rule = service_is_up.build()

    def keep(hosts: HostTable, query: Query, rows: Selection) -> Mask | None:
        if is_failing:
            raise RuntimeError
        return rule.keep(hosts, query, rows)

    verdicts = TimedVerdicts(replace(rule, keep=keep), hosts, query_at(NOW_S))
    assert verdicts.verdicts.tolist() == [True, True]
    hosts.remove_service("a")
    is_failing = True
    with pytest.raises(RuntimeError):
        verdicts.catch_up(query_at(NOW_S + later_s))
    is_failing = False
    verdicts.catch_up(query_at(NOW_S))
    assert verdicts.verdicts.tolist() == [False, True]
    assert verdicts.since(0) == [0]
