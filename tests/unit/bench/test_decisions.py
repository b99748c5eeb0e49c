"""The measured decisions are real decisions."""

from dataclasses import replace
from pathlib import Path

from bench.cases import DecisionCases, GroupedCases, MemoryCases
from bench.decisions import measure_size
from bench.desk import Desk
from bench.fleet import request, snapshot
from bench.grouped import aggregates_of
from bench.grouped import measure as measure_grouped
from bench.memory import measure as measure_memory
from bench.memory import varied
from bench.parity import best_of, missing_weighers, policy_like
from bench.peer import PeerReport, PeerWeigher
from bench.workload import FLAVORS, WarmDecisions, unseen_flavor
from berth.config.policy_file import load_policy

CASES = DecisionCases(
    hosts=(20,),
    loaded_once_from=1_000,
    fresh_samples=2,
    cold_samples=2,
    warm_samples=2,
    batch_samples=1,
    batch_instances=3,
    more_instances=(5, 1_000),
)
NOVA = load_policy(Path("nova"))
WEIGHERS = (
    PeerWeigher("PCIWeigher", 1.0),
    PeerWeigher("CPUWeigher", 1.0),
    PeerWeigher("UnheardOfWeigher", 0.0),
    PeerWeigher("RAMWeigher", 2.0),
    PeerWeigher("IoOpsWeigher", -1.0),
)


def test_every_class_of_decision_is_measured() -> None:
    """Every kind of decision has times, and a batch larger than the fleet is left out."""
    times = measure_size(20, NOVA, CASES)
    assert times.beside is None
    assert (times.hosts, times.fresh.samples, times.warm.decision.samples) == (20, 2, 2)
    assert [batch.instances for batch in times.batches] == [3, 5]
    measured = (times.fresh, times.cold, times.second, times.warm.decision, times.warm.between)
    for one in (*measured, times.batch.times, times.argmax):
        assert one.cpu_us > 0


def test_a_large_table_is_loaded_once() -> None:
    """A table from the given size on is loaded once, since loading is slow."""
    times = measure_size(20, NOVA, replace(CASES, loaded_once_from=20))
    assert times.fresh.samples == times.load.samples == 1


def test_as_much_is_held_as_was_said() -> None:
    """Each claim is held for later decisions, up to the limit of held claims."""
    desk = Desk(snapshot(20), NOVA, held_max=2)
    for index in range(5):
        asked = request(f"r{index}")
        decision, _ = desk.decide(asked)
        desk.claim_and_release(asked, decision)
        assert desk.replica.held == min(index + 1, 2)


def test_warm_requests_are_of_twenty_kinds() -> None:
    """The warm flavors are of many kinds, and the cold flavors differ from them."""
    kinds = {(one.vcpus, one.memory_mb, one.root_gb) for one in FLAVORS}
    assert len(kinds) > 15
    unseen = [unseen_flavor(index) for index in range(50)]
    assert len({one.memory_mb for one in (*FLAVORS, *unseen)}) == 50 + 5
    desk = Desk(snapshot(20), NOVA)
    warm = WarmDecisions(desk)
    assert warm.times(4).decision.samples == 4


def test_blocks_of_warm_decisions_go_on_where_the_last_one_ended() -> None:
    """A block continues after the previous one, so no instance is claimed twice."""
    desk = Desk(snapshot(20), NOVA)
    warm = WarmDecisions(desk)
    warm_ups = warm._decided
    assert warm.block(3).cpu_us > 0
    decided, between = warm.take(2)
    assert len(decided) == len(between) == 2
    assert warm._decided == warm_ups + 5
    assert len(set(desk._held)) == len(desk._held)


def test_members_are_spread_and_hosts_are_in_aggregates() -> None:
    """Each host is in one to three aggregates, and all four cases have times."""
    cases = GroupedCases(hosts=200, samples=2, members=10, aggregates=40, aggregates_a_host=3)
    names = [f"host-{index}" for index in range(200)]
    aggregates = aggregates_of(names, cases)
    assert len(aggregates) == 40
    assert [one.metadata for one in aggregates].count({}) == 39
    for name in names:
        assert 1 <= sum(name in one.hosts for one in aggregates) <= 3
    times = measure_grouped(NOVA, cases)
    for one in (times.plain, times.group, times.aggregates, times.both):
        assert one.samples == 2


def test_memory_counts_more_than_columns() -> None:
    """The measured memory includes host names and records and the cached request profiles."""
    use = measure_memory(NOVA, MemoryCases(hosts=300, kinds=2, instances=2_000))
    assert use.classes == ("VCPU", "MEMORY_MB", "DISK_GB")
    assert use.varied > use.table > use.columns > 0
    assert use.cached_class > 0
    assert 40 < use.attributes <= 120


def test_no_two_hosts_of_the_varied_fleet_are_alike() -> None:
    """The hosts of the varied fleet differ in addresses, nodes, sizes and services."""
    fleet = varied(snapshot(8))
    hosts, services = fleet.hosts, fleet.services
    for values in (
        {host.host_ip for host in hosts},
        {host.node for host in hosts} - {host.name for host in hosts},
        {one.inventories["MEMORY_MB"].total for one in fleet.providers},
        {one.inventories["DISK_GB"].unit_max for one in fleet.providers},
        {one.service_id for one in services} - {host.uuid for host in hosts},
        {one.created_at_s for one in services},
    ):
        assert len(values) == 8
    assert len({host.stats["generation"] for host in hosts}) == 7


def test_the_first_host_of_the_fleet_is_the_best() -> None:
    """Host 0 is unused, so the weighers rank it first."""
    policy = policy_like(WEIGHERS, shown=10)
    decision, _ = Desk(snapshot(20), policy).decide(request("r"))
    best = best_of(decision)
    assert best[0].host == "host-000000"
    assert len({one.host for one in best}) == 10
    assert [one.score for one in best] == sorted((one.score for one in best), reverse=True)


def test_parity_takes_the_order_and_multipliers_of_the_peer() -> None:
    """A weigher that Berth lacks is left out of the policy, and reported if it has a multiplier."""
    policy = policy_like(WEIGHERS, shown=10)
    assert [(one.name, one.multiplier) for one in policy.weighers] == [
        ("PCIWeigher", 1.0),
        ("CPUWeigher", 1.0),
        ("RAMWeigher", 2.0),
        ("IoOpsWeigher", -1.0),
    ]
    assert policy.runners_up == 9
    missing = missing_weighers(PeerReport("1", (), WEIGHERS, ()))
    assert "UnheardOfWeigher" not in missing
    assert "CPUWeigher" not in missing


def test_a_penalty_keeps_the_sign_that_the_peer_gives_it() -> None:
    """The multiplier that the peer reports is used with its sign."""
    policy = policy_like((PeerWeigher("BuildFailureWeigher", -5.0),), shown=10)
    assert [one.multiplier for one in policy.weighers] == [-5.0]
