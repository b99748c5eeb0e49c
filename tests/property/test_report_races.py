"""Concurrent reports by agents and changes by clients keep provider trees consistent.

Each of two processes takes reports and requests of the Placement API, and is slow to commit.
Every provider's parents must lead to a root, no two providers may have the same name, and the
provider table and the host table must agree on what is below a host.
"""

import asyncio
from collections.abc import Sequence
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from berth.domain.compute.host import Service
from berth.domain.errors import BerthError
from berth.domain.inventory.provider import Provider, child_uuid
from berth.domain.inventory.resources import VCPU, Inventory
from berth.ports.virt import ChildReport, HostReport
from berth.services.fleet.allocation_ratios import AllocationRatios
from berth.services.fleet.hosts import Hosts
from berth.services.fleet.registration import Registration
from berth.services.replica.replica import Replica
from berth.testing.builders import make_host, make_provider, make_uuid
from tests.property.test_provider_races import Process, SlowLedger
from tests.unit.api.cloud import CountedIds, FakeClock

PARTS = ("a", "b", "c")
HOSTS = {number: make_uuid("host", number) for number in (1, 2)}
OTHERS = ("u1", "u2")
UUIDS = (*HOSTS.values(), *(child_uuid(HOSTS[1], name) for name in PARTS), *OTHERS)

Deed = tuple[str, dict[str, Any]]


class Agents(Process):
    """A process that takes reports of agents as well as requests of the Placement API.

    With `by_tables` it compares reports with its tables, otherwise with the ledger.
    """

    def __init__(self, ledger: SlowLedger, *, by_tables: bool) -> None:
        super().__init__(ledger)
        clock = FakeClock()
        self.fleet = Replica()
        self.follower.subscribers.append(self.fleet)
        parts: Any = {
            "ledger": ledger,
            "follower": self.follower,
            "replica": self.fleet,
            "ratios": AllocationRatios(ledger=ledger, replica=self.fleet),
            "clock": clock,
        }
        self.hosts = Hosts(**parts, ids=CountedIds())
        if by_tables:
            self.hosts.compare_with(self.replica)
        self.by_tables = Registration(**parts, ids=CountedIds())
        self.by_tables.providers = self.replica
        self.by_ledger = Registration(**parts, ids=CountedIds())

    async def do(self, deed: Deed) -> object:
        """Call a method and return its answer, None if it is refused."""
        try:
            return await super().do(deed)
        except BerthError:
            return None

    async def _report(self, number: int, above: dict[str, str]) -> None:
        await self.hosts.register([_report_of(number, above)])

    async def _forget(self, number: int) -> None:
        await self.hosts.remove(f"host-{number}")

    async def _move(self, uuid: str, parent: str | None) -> None:
        provider = await self.ledger.get(Provider, uuid)
        if provider is not None:
            await self.providers.change(uuid, name=provider.name, parent=parent, may_move=True)


def _report_of(number: int, above: dict[str, str]) -> HostReport:
    """Return a report of parts with the names of their parents; other names mean the host."""
    children = tuple(
        ChildReport(name, {VCPU: Inventory(4)}, parent=parent if parent in above else "")
        for name, parent in above.items()
    )
    return HostReport(make_host(number), make_provider(number), children)


def _of(deed: str, /, **given: st.SearchStrategy[Any]) -> st.SearchStrategy[Deed]:
    return st.tuples(st.just(deed), st.fixed_dictionaries(given))


_uuids = st.sampled_from(UUIDS)
_parents = st.none() | _uuids
_above = st.dictionaries(st.sampled_from(PARTS), st.sampled_from(("", *PARTS)), max_size=3)
_rounds = st.lists(
    st.lists(
        st.one_of(
            _of("report", number=st.just(1), above=_above),
            _of("report", number=st.sampled_from((1, 2)), above=_above),
            _of("move", uuid=_uuids, parent=_parents),
            _of("move", uuid=_uuids, parent=_parents),
            _of("create", uuid=st.sampled_from(OTHERS), name=_uuids, parent=_parents),
            _of("remove", uuid=_uuids),
            _of("take", uuid=_uuids, name=st.just(VCPU), amount=st.just(1)),
            _of("forget", number=st.sampled_from((1, 2))),
        ),
        min_size=1,
        max_size=3,
    ),
    min_size=1,
    max_size=8,
)
_BEFORE: Sequence[Deed] = (
    ("report", {"number": 1, "above": {"a": "", "b": "a"}}),
    ("report", {"number": 2, "above": {}}),
    ("create", {"uuid": "u1", "name": "u1", "parent": None}),
)


async def _check(
    rounds: Sequence[list[Deed]], delays: Sequence[int], by_tables: tuple[bool, bool]
) -> None:
    ledger = SlowLedger(delays)
    processes = [Agents(ledger, by_tables=one) for one in by_tables]
    for process in processes:
        await process.follower.start()
    for deed in _BEFORE:
        await processes[0].do(deed)
    for deeds in rounds:
        await asyncio.gather(*(processes[n % 2].do(deed) for n, deed in enumerate(deeds)))
        await _check_trees(ledger, processes[0])
        await _check_plans(processes[0], deeds)


async def _check_plans(process: Agents, deeds: Sequence[Deed]) -> None:
    """Check that the tables and the ledger lead to the same writes."""
    for name, given_args in deeds:
        if name != "report":
            continue
        report = _report_of(**given_args)
        assert await _plan(process.by_tables, report) == await _plan(process.by_ledger, report)


async def _plan(registration: Registration, report: HostReport) -> object:
    """Return the writes for a report, or the reason why it is invalid."""
    try:
        return registration._plan(await registration._read([report]), set())
    except BerthError as error:
        return str(error)


async def _check_trees(ledger: SlowLedger, process: Agents) -> None:
    await process.follower.catch_up()
    providers = await ledger.all(Provider)
    table = process.replica.table
    assert not table.unattached
    assert len({one.name for one in providers}) == len(providers)
    rows = {one.uuid: table.row_of(one.uuid) for one in providers}
    services = {service.host for service in await ledger.all(Service)}
    for number, uuid in HOSTS.items():
        assert (rows.get(uuid) is not None) is (f"host-{number}" in services)
        row = process.fleet.hosts.row_of(uuid)
        if row is not None:
            assert set(process.fleet.hosts.trees.uuids_on(row)) == _parts(providers, uuid)


def _parts(providers: Sequence[Provider], uuid: str) -> set[str]:
    """Return the providers below one, except for root providers of hosts and all below them."""
    found, hosts = [uuid], HOSTS.values()
    for above in found:
        found += (o.uuid for o in providers if o.parent_uuid == above and o.uuid not in hosts)
    return set(found[1:])


@given(
    _rounds,
    st.lists(st.integers(0, 3), min_size=1, max_size=7),
    st.tuples(st.booleans(), st.booleans()),
)
@settings(max_examples=200, deadline=None)
def test_whatever_is_reported_and_moved_at_once_leads_to_a_root(
    rounds: list[list[Deed]], delays: list[int], by_tables: tuple[bool, bool]
) -> None:
    """Concurrent reports and moves leave no orphan and no equal names, and the tables agree.

    A report leads to the same writes whether it is compared with the tables or with the ledger.
    """
    asyncio.run(_check(rounds, delays, by_tables))
