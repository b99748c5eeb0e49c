"""Tests for the chain of filters, each of which sees what the previous one left."""

from berth.domain.compute.decision import FilterCount
from berth.domain.compute.request import Request
from berth.scheduling.evaluation.filter_chain import FilterChain
from berth.scheduling.rules.reduction import reduce_hosts
from berth.scheduling.rules.rule import Filter, Query, Reads
from berth.tables.columnar.bitsets import Mask, Selection
from berth.tables.host.feed import table_of
from berth.tables.host.hosts import HostTable
from berth.testing.fleets import NOW_S, Box, asking, snapshot_of


class Spy:
    """A filter that keeps hosts with certain names and counts its calls."""

    def __init__(
        self,
        name: str,
        kept: str | None,
        *,
        once: bool = False,
        on_forced: bool = False,
        on_rebuild: bool = False,
    ) -> None:
        self.kept = kept
        self.asked = 0
        self.filter = Filter(
            name=name,
            keep=self._keep,
            why=lambda hosts, query, row: "no",
            relax=lambda hosts, query, rows: [],
            reads=Reads((), ()),
            once_per_request=once,
            on_forced=on_forced,
            run_on_rebuild=on_rebuild,
        )

    def _keep(self, hosts: HostTable, query: Query, rows: Selection) -> Mask | None:
        self.asked += 1
        if self.kept is None:
            return None
        mask = ~hosts.alive
        for row in hosts.alive_rows():
            mask[row] = hosts.host(int(row)).name in self.kept
        return mask[rows]


HOSTS = table_of(snapshot_of([Box(name) for name in "abcd"]))


def chain_of(*spies: Spy, request: Request | None = None) -> tuple[FilterChain, Query]:
    """Return the chain of a request and its query."""
    request = request or asking()
    chain = FilterChain(HOSTS, [spy.filter for spy in spies], reduce_hosts(HOSTS, request))
    return chain, Query(request, request.needs, NOW_S, None, "new-0")


def test_each_filter_sees_what_the_one_before_left() -> None:
    """Each filter sees the hosts that the previous one left, and is counted with both numbers."""
    chain, query = chain_of(Spy("X", "abc"), Spy("Y", None), Spy("Z", "bcd"))
    survivors = chain.run(query)
    assert survivors.mask.tolist() == [False, True, True, False]
    assert survivors.counts == (
        FilterCount("X", 4, 3),
        FilterCount("Y", 3, 3),
        FilterCount("Z", 3, 2),
    )


def test_it_stops_at_the_filter_that_leaves_no_host() -> None:
    """Filters after the one that leaves no host are not called."""
    last = Spy("Z", "abcd")
    chain, query = chain_of(Spy("X", "a"), Spy("Y", "b"), last)
    assert [count.name for count in chain.run(query).counts] == ["X", "Y"]
    assert last.asked == 0
    assert [mask.tolist()[:2] for mask in chain.verdicts(query)] == [
        [True, False],
        [False, True],
        [True, True],
    ]


def test_no_filters_leave_everybody() -> None:
    """A chain without filters keeps all hosts and counts nothing."""
    chain, query = chain_of()
    survivors = chain.run(query)
    assert survivors.mask.all()
    assert survivors.counts == ()


def test_a_verdict_that_consumption_cannot_change_is_asked_for_once() -> None:
    """A filter marked once per request is called once, others for each instance."""
    once, always = Spy("X", "ab", once=True), Spy("Y", "ab")
    chain, query = chain_of(once, always)
    for _ in range(3):
        chain.run(query)
    chain.verdicts(query)
    assert (once.asked, always.asked) == (1, 4)


def test_a_filter_may_be_there_twice_with_different_options() -> None:
    """Two filters of one name keep separate verdicts."""
    chain, query = chain_of(Spy("X", "abc", once=True), Spy("X", "bcd", once=True))
    assert chain.run(query).mask.tolist() == [False, True, True, False]


def test_forced_hosts_skip_filters() -> None:
    """Forced hosts skip all filters except those that apply to forced hosts."""
    request = Request("r", ("i",), asking().flavor, force_hosts=("A", "b"))
    skipped, held = Spy("X", "b"), Spy("Y", "ac", on_forced=True)
    chain, query = chain_of(skipped, held, request=request)
    assert chain.run(query).mask.tolist() == [True, False, False, False]
    assert skipped.asked == 0
    assert chain.passes(query, forced=True).tolist() == [True, False, True, False]
    assert chain.passes(query, forced=False).tolist() == [False] * 4


def checking(*check_type: str) -> Request:
    """Return a request that forces two hosts and only checks them."""
    hints = {"_nova_check_type": check_type}
    return Request("r", ("i",), asking().flavor, force_hosts=("a", "b"), hints=hints)


def test_a_rebuild_asks_the_filters_that_are_made_for_it() -> None:
    """A rebuild calls only the filters that run on rebuilds, even for forced hosts."""
    asked = Spy("X", "b", on_rebuild=True)
    skipped = [Spy("Y", ""), Spy("Z", "", on_forced=True)]
    chain, query = chain_of(skipped[0], asked, skipped[1], request=checking("rebuild"))
    assert chain.run(query).mask.tolist() == [False, True, False, False]
    assert [count.name for count in chain.run(query).counts] == ["X"]
    assert [spy.asked for spy in skipped] == [0, 0]
    assert chain.passes(query, forced=False).tolist() == [False, True, False, False]


def test_a_check_of_another_kind_asks_all_filters_of_forced_hosts() -> None:
    """A check other than a rebuild calls all filters for forced hosts."""
    first, second = Spy("X", "ac", on_rebuild=True), Spy("Y", "abc")
    chain, query = chain_of(first, second, request=checking("evacuate"))
    assert chain.run(query).mask.tolist() == [True, False, False, False]
    assert second.asked == 1
    chain, query = chain_of(first, second, request=checking())
    assert chain.run(query).mask.tolist() == [True, True, False, False]


def test_a_rebuild_without_such_filters_passes_everywhere() -> None:
    """A rebuild without filters for it keeps all forced hosts."""
    chain, query = chain_of(Spy("X", ""), request=checking("rebuild"))
    survivors = chain.run(query)
    assert survivors.mask.tolist() == [True, True, False, False]
    assert survivors.counts == ()
