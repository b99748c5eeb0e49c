"""The cases of the benchmark, read from data."""

from bench.cases import load_cases
from berth.config.ready_policies import DEFAULT, READY


def test_quick_cases_differ_only_where_they_say_so() -> None:
    """Quick cases measure the same fleets and requests with fewer samples."""
    full, quick = load_cases(quick=False), load_cases(quick=True)
    assert quick.decisions.batch_instances == full.decisions.batch_instances == 100
    assert quick.library.hosts == full.library.hosts == 10_000
    assert quick.decisions.warm_samples < full.decisions.warm_samples
    assert max(quick.decisions.hosts) == 100_000
    assert quick.peer.batch_estimate
    assert not full.peer.batch_estimate
    assert full.peer.turns > quick.peer.turns > 1
    assert full.peer.decisions == quick.peer.decisions


def test_the_agents_of_a_whole_cloud_are_measured() -> None:
    """The full cases have the sizes, the restart and the builds that the floors are about."""
    hosts = load_cases(quick=False).hosts
    assert hosts.hosts == (20, 200, 2_000, 10_000)
    assert hosts.tls == (True, False)
    assert hosts.restarts
    assert hosts.builds == 1_000


def test_the_peer_is_spared_the_largest_fleet() -> None:
    """Nova is measured on at most 10,000 hosts, since larger fleets would take hours."""
    cases = load_cases(quick=False)
    assert max(cases.decisions.hosts) == 1_000_000
    assert cases.peer.hosts_max == 10_000


def test_every_ready_policy_is_packed() -> None:
    """All ready policies are packed, and the default with ten seeds, as in the paper."""
    full, quick = load_cases(quick=False).packing, load_cases(quick=True).packing
    assert set(full.policies) == set(READY)
    assert DEFAULT in full.openb_thorough
    assert (full.openb_first_seed, full.openb_seeds_thorough) == (42, 10)
    assert quick.policies == full.policies
    assert quick.openb_seeds_thorough < full.openb_seeds_thorough
    assert quick.generator_seeds == full.generator_seeds[:1]
