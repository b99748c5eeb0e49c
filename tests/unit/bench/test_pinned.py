"""The measured fleet of pinned guests equals that of the peer."""

import runpy
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from bench.cases import PinnedCases
from bench.desk import Desk
from bench.fleet import request
from bench.pinned import (
    CELL_MEMORY_MB,
    CELLS,
    CORE_MEMORY_MB,
    CORES,
    FILTER,
    FLAVOR,
    PinnedTurn,
    cores_in_use,
    measure,
    pinned_policy,
    pinned_snapshot,
)
from berth.tables.host.feed import table_of

PEERS = Path(__file__).parents[3] / "bench" / "peers"


@pytest.fixture
def peer(monkeypatch: pytest.MonkeyPatch) -> dict[str, object]:
    """Return the names of the peer's script, which imports a script next to it."""
    monkeypatch.setattr(sys, "path", [*sys.path, str(PEERS)])
    return runpy.run_path(str(PEERS / "nova_pinned.py"), run_name="nova_pinned")


def test_the_cells_are_those_of_the_peer(peer: dict[str, object]) -> None:
    """NUMA cells and their cores in use equal those of the peer."""
    cells = peer["CELLS"]
    assert isinstance(cells, dict)
    assert (cells["cells"], cells["cores"], cells["threads"]) == (CELLS, CORES, 2)
    assert cells["memory_mb"] == CELL_MEMORY_MB
    assert cells["memory_mb_of_a_core_in_use"] == CORE_MEMORY_MB
    formula = cells["cores_in_use"].partition(", from")[0]
    for i in (0, 1, 2, 3, 23, 24, 999):
        for cell in range(CELLS):
            wanted = eval(formula, {"min": min}, {"i": i, "cell": cell})  # noqa: S307
            assert cores_in_use(i, cell) == wanted


def test_the_guest_is_that_of_the_peer(peer: dict[str, object]) -> None:
    """The flavor equals the peer's request."""
    assert peer["REQUEST"] == {
        "vcpus": FLAVOR.vcpus,
        "memory_mb": FLAVOR.memory_mb,
        "disk_gb": FLAVOR.root_gb,
        "extra_specs": FLAVOR.extra_specs,
    }


def test_cores_are_in_use() -> None:
    """The table's free CPUs match the cores that are in use on each host."""
    hosts = table_of(pinned_snapshot(24))
    free = [[cell.free_count for cell in hosts.numa.cells(row)] for row in range(24)]
    assert free == [
        [2 * (CORES - cores_in_use(row, cell)) for cell in range(CELLS)] for row in range(24)
    ]


def test_filter_and_decisions_are_measured() -> None:
    """Hosts without two free cores in one cell do not pass, and all parts have times."""
    cases = PinnedCases(hosts=48, turns=1, keep_samples=1, warm_samples=2)
    times = measure(cases)
    assert times.passing == 48 - 8
    assert FILTER in {rule.name for rule in pinned_policy().filters}
    assert times.beside is None
    assert tuple(times.times) == PinnedTurn._fields
    assert all(one.cpu_us > 0 for one in times.times.values())


def test_a_pinned_guest_gets_its_cpus() -> None:
    """The assignment of the decision has the pinned CPUs of the guest."""
    desk = Desk(pinned_snapshot(24), pinned_policy())
    decision, _ = desk.decide(replace(request("r"), flavor=FLAVOR))
    assignment = decision.placements[0].assignment
    assert assignment is not None
    assert [len(share.pinned) for share in assignment.numa] == [FLAVOR.vcpus]
