"""Tests for the engine, which caches request profiles unless a rule prevents it."""

from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np
import pytest

from berth.domain.hardware.assignment import Assignment, CellShare, DeviceShare
from berth.domain.hardware.numa import NumaCell
from berth.domain.hardware.pci import PciPool
from berth.scheduling.engine.engine import Engine, engine_of
from berth.scheduling.filters import fits_numa, fits_resources, has_devices, is_trusted
from berth.scheduling.rules.rule import Filter, Query, Reads, Weigher
from berth.scheduling.weighers import build_failures, free_resources
from berth.tables.columnar.journal import GROUPS
from berth.tables.host.feed import apply_event, table_of
from berth.tables.host.holding import hold
from berth.tables.host.hosts import HostTable
from berth.testing.fleets import NOW_S, Box, asking, policy_of, resident, snapshot_of

pytestmark = pytest.mark.usefixtures("engine")

TRUST = {"trust:trusted_host": "trusted"}


def query_of(specs: dict[str, str]) -> Query:
    """Return the query of a request with these extra specs."""
    request = asking(specs=specs)
    return Query(request, request.needs, NOW_S, None, request.instance_uuids[0])


def engine_with(filters: Sequence[Filter], weighers: Sequence[Weigher]) -> Engine:
    """Return the engine of a policy on two hosts."""
    hosts: HostTable = table_of(snapshot_of([Box("a"), Box("b")]))
    return engine_of(hosts, policy_of(filters=filters, weighers=weighers))


def is_cached(engine: Engine, query: Query) -> bool:
    """Return whether the engine caches the profile of a repeated request."""
    engine.profile_of(query, 1)
    return engine.profile_of(query, 1) is not None


def test_an_uncacheable_rule_concerns_only_requests_that_it_applies_to() -> None:
    """TrustedFilter prevents caching only for flavors that require trust."""
    engine = engine_with([fits_resources.build(), is_trusted.build()], [free_resources.build_ram()])
    assert is_cached(engine, query_of({}))
    assert not is_cached(engine, query_of(TRUST))
    assert is_cached(engine, query_of({}))


@pytest.mark.parametrize(
    ("decay_s", "multiplier", "kept"), [(0, 1, True), (9, 1, False), (9, 0, True)]
)
def test_decaying_failures_are_not_cached(decay_s: float, multiplier: float, kept: bool) -> None:
    """The weigher of failed builds prevents caching if failures decay and it has a multiplier."""
    weigher = build_failures.build(multiplier=multiplier, decay_s=decay_s)
    assert is_cached(engine_with([fits_resources.build()], [weigher]), query_of({})) is kept


def test_a_rule_that_reads_other_rows_is_not_cached() -> None:
    """A rule that reads other rows prevents caching."""
    rule = replace(fits_resources.build(), reads=Reads((), ("used",), row_local=False))
    assert not is_cached(engine_with([rule], []), query_of({}))


def test_profiles_are_dropped_when_a_host_comes() -> None:
    """A new host drops the cached profiles."""
    hosts = table_of(snapshot_of([Box("b")]))
    engine = engine_of(hosts, policy_of())
    query = query_of({})
    engine.profile_of(query, 2)
    assert engine.profile_of(query, 1) is not None
    hosts.put_host(Box("a").host)
    assert engine.profile_of(query, 2) is not None
    found = engine.profile_of(query, 1)
    assert found is not None
    assert found.stages.filter_counts()[0].before == 2


def test_policies_that_differ_in_strategy_share_an_engine() -> None:
    """Policies that differ only in the subset size share an engine; other weighers need another."""
    hosts = table_of(snapshot_of([Box("a"), Box("b")]))
    policy = policy_of(filters=[fits_resources.build()], weighers=[free_resources.build_ram()])
    engine = engine_of(hosts, policy)
    assert engine_of(hosts, policy.with_subset_size(8)) is engine
    other = replace(policy, weighers=(free_resources.build_ram(multiplier=2.0),))
    assert engine_of(hosts, other) is not engine


def test_a_repeated_request_stays_cached_however_many_others_come_between() -> None:
    """A profile that was requested twice stays cached, however many others come between."""
    engine = engine_with([fits_resources.build()], [free_resources.build_ram()])
    flavors = [replace(asking().flavor, flavor_id=f"f-{n}", vcpus=n) for n in range(1, 31)]
    queries = [
        Query(request, request.needs, NOW_S, None, request.instance_uuids[0])
        for request in (replace(asking(), flavor=flavor) for flavor in flavors)
    ]
    for query in queries:
        engine.profile_of(query, 1)
    second = [engine.profile_of(query, 1) for query in queries]
    third = [engine.profile_of(query, 1) for query in queries]
    assert all(one is not None for one in second)
    assert all(one is two for one, two in zip(second, third, strict=True))


def test_a_changed_host_is_weighed_again() -> None:
    """A weigher's values of a changed row are computed again."""
    likes = Weigher(
        name="likes",
        raw=lambda hosts, _, rows: hosts.traits.has("CUSTOM_X", rows).astype(np.float64),
        reads=Reads(request=("hints.x",), columns=("traits",)),
    )
    hosts = table_of(snapshot_of([Box("a"), Box("b")]))
    engine = engine_of(hosts, policy_of(filters=[fits_resources.build()], weighers=[likes]))
    query = query_of({})
    for better in ("b", "a", "b"):
        for name in ("a", "b"):
            traits = frozenset({"CUSTOM_X"} if name == better else ())
            hosts.put_provider(replace(Box(name).provider, traits=traits))
            engine.profile_of(query, 1)
        found = engine.profile_of(query, 1)
        assert found is not None
        assert hosts.name(found.best(query, 2)[0]) == better
        assert found.scored(query, found.best(query, 1))[0].score == 1.0


# ---- hardware that changes ----------------------------------------------------------------------

ALIASES = ({"name": "gpu", "vendor_id": "10de", "product_id": "1eb8"},)
GPU = PciPool("10de", "1eb8", numa_node=0)
CELL = NumaCell(0, frozenset(), frozenset(range(4)), memory_mb=4096)
ASH = Box("ash", numa_cells=(CELL,), pci_pools=(GPU,))
TAKEN = Assignment(
    numa=(CellShare(0, 64, pinned=tuple((n, n) for n in range(4))),),
    devices=(DeviceShare(GPU.key, 1, "gpu"),),
)


def lose_hardware(hosts: HostTable) -> None:
    """Have the host reported without NUMA cells and devices; only the group `host` changes."""
    apply_event(hosts, snapshot_of([Box("ash")]).hosts[0])


def add_instance(hosts: HostTable) -> None:
    """Report an instance with the hardware; only the group `instances` changes."""
    apply_event(hosts, replace(resident("old", ASH), assignment=TAKEN))


def hold_hardware(hosts: HostTable) -> None:
    """Hold the hardware for a claim; only the group `used` changes."""
    hold(hosts, 0, {}, TAKEN)


@pytest.mark.parametrize("change", [lose_hardware, add_instance, hold_hardware])
@pytest.mark.parametrize(
    ("rule", "specs"),
    [
        (fits_numa.build(pci_aliases=ALIASES), {"hw:cpu_policy": "dedicated"}),
        (has_devices.build(pci_aliases=ALIASES), {"pci_passthrough:alias": "gpu:1"}),
    ],
)
def test_a_kept_verdict_on_hardware_ends_with_each_change_of_it(
    rule: Filter, specs: dict[str, str], change: Callable[[HostTable], None]
) -> None:
    """Cells and devices change with the host, its instances and holds, each of them alone."""
    hosts = table_of(snapshot_of([ASH]))
    policy = policy_of(filters=[rule], weighers=[])
    request, at = asking(specs=specs), {group: hosts.journal.position(group) for group in GROUPS}

    def is_refused() -> bool:
        plan = policy.driver.plan(hosts, request, policy, now_s=NOW_S, seed=0)
        return plan.refusal is not None

    assert not is_refused()
    assert not is_refused()
    assert is_cached(engine_of(hosts, policy), query_of(specs))
    change(hosts)
    assert len([group for group in GROUPS if hosts.journal.since(group, at[group])]) == 1
    assert is_refused()
