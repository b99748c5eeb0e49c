"""How well the default policy fills a fleet, on a sample that takes seconds.

`python -m bench --only packing` measures the same on whole fleets and over more seeds.
"""

from functools import partial
from statistics import fmean

import pytest

from bench.packing import TRACE, fill, fleet_of, least, walk
from bench.plain_fleet import BEST_FIT, FIRST_FIT
from berth.lab.generator import GeneratorSettings, generate
from berth.lab.inflation import InflatedWorkload, inflate
from berth.lab.openb import GPU_MILLI, read_openb
from berth.lab.workload import Workload

SAMPLED = 8
"""One in this many hosts and requests of the trace is in the sample."""

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]

HOSTS = 60
REQUESTS = 600


def refuses_nothing(name: str, workload: Workload, count: int) -> bool:
    """Tell whether a fleet of that many hosts takes every request."""
    hosts = generate(GeneratorSettings(hosts=count, requests=1)).hosts
    return not any(True for _ in walk(fleet_of(name, hosts), workload))


def hosts_needed(name: str, seed: int) -> int:
    """Return the smallest number of hosts that can take a generated workload."""
    workload = generate(GeneratorSettings(hosts=HOSTS, requests=REQUESTS, seed=seed))
    return least(partial(refuses_nothing, name, workload), HOSTS // 2, 8 * HOSTS)


def test_the_default_policy_needs_few_hosts() -> None:
    """The default policy needs at most 1.1 times the hosts of best fit and half those of Nova's."""
    needed = {
        name: fmean(hosts_needed(name, seed) for seed in (1, 2))
        for name in (BEST_FIT, "default", "nova")
    }
    assert needed["default"] <= 1.1 * needed[BEST_FIT]
    assert needed["default"] <= 0.5 * needed["nova"]


@pytest.fixture(scope="module")
def sample() -> InflatedWorkload:
    """Return a sample of the openb trace, inflated beyond the capacity of its GPUs."""
    trace = read_openb(TRACE, nodes="gpu", cpu_class="VCPU")
    part = Workload("sample", trace.hosts[::SAMPLED], trace.flavors, trace.arrivals[::SAMPLED])
    return inflate(part, GPU_MILLI, seed=1)


@pytest.mark.openb
@pytest.mark.skipif(
    not TRACE.is_dir(), reason="no folder with the openb trace: set BERTH_TEST_OPENB_TRACE"
)
def test_the_default_policy_fills_gpus(sample: InflatedWorkload) -> None:
    """When all GPUs are requested, the default policy fills more than first fit and Nova's."""
    at_100 = {name: fill(name, sample).at_100 for name in (FIRST_FIT, "default", "pack", "nova")}
    assert at_100["default"] >= at_100[FIRST_FIT] + 0.5
    assert at_100["default"] >= 95.0
    assert at_100["pack"] >= at_100["nova"]
    assert at_100["nova"] <= at_100["default"] - 2.0
