"""Laws of weighers that hold for each of them, for every fleet and request."""

import math

import numpy as np
from hypothesis import assume, given
from hypothesis import strategies as st

from berth.domain.compute.request import Request
from berth.domain.errors import InvalidInputError
from berth.domain.ledger.change import Snapshot
from berth.scheduling.evaluation.weighing import reader_of_one, values_of
from berth.scheduling.rules.rule import Normalisation, Query, Raw
from berth.tables.host.feed import table_of
from berth.tables.host.hosts import HostTable
from berth.testing.fleet_strategies import requests, snapshots
from berth.testing.fleets import NOW_S, WEIGHERS, all_weighers

ALL = all_weighers((1.0,) * WEIGHERS)


def query_of(hosts: HostTable, request: Request) -> Query:
    """Return the query of a request; discard the example when the request contradicts itself."""
    try:
        needs = request.needs
    except InvalidInputError:
        assume(False)
        raise
    group = hosts.server_groups.get(request.group_uuid or "")
    return Query(request, needs, NOW_S, group, request.instance_uuids[0])


@given(snapshot=snapshots(least=1), request=requests(), data=st.data())
def test_a_value_does_not_depend_on_other_rows(
    snapshot: Snapshot, request: Request, data: st.DataObject
) -> None:
    """Raw values and shares are the same for all rows at once and for any choice of them."""
    hosts = table_of(snapshot)
    query = query_of(hosts, request)
    count = len(hosts)
    rows = np.array(data.draw(st.lists(st.integers(0, count - 1), unique=True)), dtype=np.intp)
    for weigher in ALL:
        assert weigher.share is not None
        for measure in (weigher.raw, weigher.share):
            check_rows(measure, hosts, query, rows)


def check_rows(measure: Raw, hosts: HostTable, query: Query, rows: np.ndarray) -> None:
    """Check that the values of some rows equal their values among all rows."""
    everyone, some = measure(hosts, query, hosts.all_rows), measure(hosts, query, rows)
    assert (everyone is None) == (some is None)
    if everyone is not None and some is not None:
        assert everyone.dtype == np.float64
        assert everyone.shape == (len(hosts),)
        assert some.tolist() == everyone[rows].tolist()


@given(snapshot=snapshots(least=1), request=requests())
def test_a_share_is_between_0_and_1(snapshot: Snapshot, request: Request) -> None:
    """A weigher has shares exactly if it has raw values, and every share is in [0, 1]."""
    hosts = table_of(snapshot)
    query = query_of(hosts, request)
    rows = hosts.alive_rows()
    for weigher in ALL:
        assert weigher.share is not None
        raw, shares = weigher.raw(hosts, query, rows), weigher.share(hosts, query, rows)
        assert (raw is None) == (shares is None)
        if shares is not None:
            assert ((shares >= 0) & (shares <= 1)).all(), weigher.name


@given(snapshot=snapshots(least=1), request=requests())
def test_what_reads_nothing_of_the_request_is_the_same_for_all(
    snapshot: Snapshot, request: Request
) -> None:
    """A weigher that declares no reads of the request has the same values for another request."""
    hosts = table_of(snapshot)
    query = query_of(hosts, request)
    other = query_of(hosts, Request("other", ("vm",), request.flavor))
    for weigher in ALL:
        if not weigher.reads.request:
            raw = weigher.raw(hosts, query, hosts.all_rows)
            same = weigher.raw(hosts, other, hosts.all_rows)
            assert (raw is None) == (same is None)
            assert raw is None or same is None or raw.tolist() == same.tolist()


@given(snapshot=snapshots(least=1), request=requests())
def test_one_row_as_a_plain_number_is_what_the_array_says(
    snapshot: Snapshot, request: Request
) -> None:
    """A weigher's reader of one row returns exactly the array's value, raw or as a share."""
    hosts = table_of(snapshot)
    query = query_of(hosts, request)
    for weigher in ALL:
        for normalisation in Normalisation:
            one = reader_of_one(weigher, normalisation)
            if one is not None:
                values = values_of(weigher, normalisation, hosts, query, hosts.all_rows)
                read = one(hosts, query)
                each = [read(row) for row in range(len(hosts))]
                if values is None:
                    assert all(map(math.isnan, each)), weigher.name
                else:
                    assert each == values.tolist(), weigher.name


def test_some_weighers_have_a_form_for_one_row() -> None:
    """At least 12 weighers have a reader of one row, so the test above checks something."""
    for normalisation in Normalisation:
        assert sum(reader_of_one(weigher, normalisation) is not None for weigher in ALL) >= 12
