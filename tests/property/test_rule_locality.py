"""Rules read only the rows that they are given, and only the parts that they declare.

Every rule that ships with Berth and needs no options is tested, with its defaults.
"""

import inspect
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import replace
from importlib.metadata import entry_points
from typing import Any, TypeVar

import numpy as np
from hypothesis import assume, event, given
from hypothesis import strategies as st
from numpy.typing import NDArray

from berth.domain.compute.flavor import Image
from berth.domain.compute.request import Request
from berth.domain.errors import InvalidInputError
from berth.domain.ledger.change import Event, Snapshot
from berth.scheduling.engine.keys import parts_of, paths_of
from berth.scheduling.rules.rule import Filter, Query, Weigher
from berth.tables.columnar.bitsets import Rows, Selection
from berth.tables.columnar.journal import GROUPS
from berth.tables.host.feed import apply_event, table_of
from berth.tables.host.hosts import HostTable
from berth.testing.dumping import dump
from berth.testing.fleet_strategies import requests, snapshots
from berth.testing.fleets import NOW_S
from berth.testing.tagging import tagged_requests, tagged_snapshots
from berth.testing.tree_strategies import granular_flavors, with_trees

R = TypeVar("R", Filter, Weigher)
Answer = NDArray[np.bool_] | NDArray[np.float64] | None


def _takes_nothing(build: Callable[..., object]) -> bool:
    """Tell whether all options of a rule have defaults."""
    parameters = inspect.signature(build).parameters.values()
    return all(parameter.default is not parameter.empty for parameter in parameters)


def installed(group: str, kind: type[R]) -> Sequence[R]:
    """Build every rule of a group that comes with Berth and needs no options."""
    points = sorted(entry_points(group=group), key=lambda point: point.name)
    builds = [point.load() for point in points if point.value.startswith("berth.")]
    rules = [build() for build in builds if _takes_nothing(build)]
    assert all(isinstance(rule, kind) for rule in rules)
    return rules


FLEETS = with_trees(st.one_of(snapshots(least=2), tagged_snapshots(least=2)))
REQUESTS = st.one_of(
    requests(),
    tagged_requests(),
    st.builds(lambda one, flavor: replace(one, flavor=flavor), requests(), granular_flavors()),
)

FILTERS = installed("berth.filters", Filter)
WEIGHERS = installed("berth.weighers", Weigher)
RULES: Sequence[Filter | Weigher] = (*FILTERS, *WEIGHERS)


def ask(rule: Filter | Weigher, hosts: HostTable, query: Query, rows: Selection) -> Answer:
    """Return a rule's verdicts or values."""
    return (rule.keep if isinstance(rule, Filter) else rule.raw)(hosts, query, rows)


def query_of(hosts: HostTable, request: Request) -> Query:
    """Return the query of a request; discard the example when the request contradicts itself."""
    try:
        needs = request.needs
    except InvalidInputError:
        assume(False)
        raise
    group = hosts.server_groups.get(request.group_uuid or "")
    return Query(request, needs, NOW_S, group, request.instance_uuids[0])


def asked_of(rule: Filter | Weigher, hosts: HostTable, query: Query) -> list[Hashable]:
    """Return all parts of a request that a rule reads, also those computed from the table."""
    return [part(hosts, query) for part in parts_of(paths_of([rule]))]


def repeated(rows: Rows, times: int) -> Rows:
    """Return the rows repeated, so many that a rule may choose another algorithm."""
    return np.tile(rows, times)


@given(snapshot=FLEETS, request=REQUESTS, data=st.data())
def test_an_answer_for_some_rows_is_that_for_all_of_them(
    snapshot: Snapshot, request: Request, data: st.DataObject
) -> None:
    """A rule's answer for any rows, repeated or not, has the values of its answer for all rows."""
    hosts = table_of(snapshot)
    query = query_of(hosts, request)
    some = data.draw(st.lists(st.integers(0, len(hosts) - 1), max_size=2 * len(hosts)), "rows")
    rows = np.array(some, dtype=np.intp)
    for rule in RULES:
        everyone = ask(rule, hosts, query, hosts.all_rows)
        for asked in (rows, repeated(rows, 200), np.arange(len(hosts))):
            answer = ask(rule, hosts, query, asked)
            if everyone is None or answer is None:
                assert (rule.name, answer) == (rule.name, everyone)
                continue
            assert (rule.name, answer.dtype) == (rule.name, everyone.dtype)
            np.testing.assert_array_equal(answer, everyone[asked], err_msg=rule.name)


@given(snapshot=FLEETS, other=FLEETS, request=REQUESTS)
def test_a_rule_says_nothing_whatever_the_hosts_are(
    snapshot: Snapshot, other: Snapshot, request: Request
) -> None:
    """Whether a rule answers None depends on the query, not on the hosts."""
    hosts, others = table_of(snapshot), table_of(other)
    query = query_of(hosts, request)
    for rule in RULES:
        mine = ask(rule, hosts, query, hosts.all_rows)
        theirs = ask(rule, others, query, others.all_rows)
        assert (rule.name, mine is None) == (rule.name, theirs is None)


@given(snapshot=FLEETS, request=REQUESTS)
def test_rules_leave_the_table_alone(snapshot: Snapshot, request: Request) -> None:
    """Rules leave the table unchanged."""
    hosts = table_of(snapshot)
    query = query_of(hosts, request)
    before = dump(hosts)
    for rule in RULES:
        ask(rule, hosts, query, hosts.all_rows)
    assert dump(hosts) == before


@given(
    snapshot=FLEETS,
    later=FLEETS,
    request=REQUESTS,
    data=st.data(),
)
def test_an_answer_changes_only_where_the_journal_says_so(
    snapshot: Snapshot, later: Snapshot, request: Request, data: st.DataObject
) -> None:
    """A row that changed in no column group that a row-local rule reads keeps its verdict."""
    hosts = table_of(snapshot)
    query = query_of(hosts, request)
    before = {id(rule): ask(rule, hosts, query, hosts.all_rows) for rule in RULES}
    asked_before = {id(rule): asked_of(rule, hosts, query) for rule in RULES}
    count = len(hosts)
    positions = {group: hosts.journal.position(group) for group in GROUPS}
    records: list[Event] = [*later.services, *later.aggregates, *later.hosts]
    records += [*later.providers, *later.instances]
    for record in data.draw(st.lists(st.sampled_from(records), max_size=4)):
        apply_event(hosts, record)
    changed = {group: hosts.journal.since(group, at) for group, at in positions.items()}
    for rule in RULES:
        old, new = before[id(rule)], ask(rule, hosts, query, hosts.all_rows)
        if old is None or new is None or not rule.reads.row_local:
            continue
        if asked_of(rule, hosts, query) != asked_before[id(rule)]:
            continue  # a part of the request that is computed from the table has changed
        noted = {row for group in rule.reads.columns for row in changed[group] or ()}
        differing = np.flatnonzero(old != new[:count]).tolist()
        event("some answer changed" if differing else "no answer changed")
        assert (rule.name, set(differing) - noted) == (rule.name, set())


@given(snapshot=FLEETS, request=REQUESTS, other=REQUESTS)
def test_an_answer_depends_on_what_is_declared_of_the_request(
    snapshot: Snapshot, request: Request, other: Request
) -> None:
    """A request that differs only in parts that a rule does not declare gets the same answer."""
    hosts = table_of(snapshot)
    query, others = query_of(hosts, request), query_of(hosts, other)
    for rule in RULES:
        mixed = _mixed(query, others, rule.reads.request)
        np.testing.assert_array_equal(
            ask(rule, hosts, query, hosts.all_rows),
            ask(rule, hosts, mixed, hosts.all_rows),
            err_msg=rule.name,
        )


DERIVED = {"group_rows": "group", "zone_aggregates": "availability_zone"}
"""Parts that are computed from the table, and the part of the query that each depends on."""


def _mixed(query: Query, other: Query, read: Sequence[str]) -> Query:
    """Return the other query with the parts that are read taken from the first one."""
    mixed = other
    for path in read:
        head, _, tail = DERIVED.get(path, path).partition(".")
        if hasattr(query, head):
            mixed = _with_part(mixed, head, tail, query)
        elif hasattr(query.request, head):
            mixed = _altered(mixed, request=_with_part(mixed.request, head, tail, query.request))
        else:  # a part that is computed from unknown sources
            return query
    return mixed


def _with_part(owner: Any, head: str, tail: str, giver: Any) -> Any:  # noqa: ANN401 - of any kind
    """Return the owner with one part as the giver has it, or with one part of that part."""
    mine, given = getattr(owner, head), getattr(giver, head)
    if tail and isinstance(given, Mapping):
        others = {name: value for name, value in mine.items() if name != tail}
        part: object = others | ({tail: given[tail]} if tail in given else {})
    elif tail and given is not None:
        whole = Image("other", min_disk_gb=7) if mine is None else mine
        part = replace(whole, **{tail: getattr(given, tail)})
    else:
        part = given
    return _altered(owner, **{head: part})


def _altered(owner: Any, **parts: Any) -> Any:  # noqa: ANN401 - of any kind
    return owner._replace(**parts) if isinstance(owner, Query) else replace(owner, **parts)
