"""The workload that is read from the openb trace agrees with counts made with csv alone."""

import csv
import gzip
import itertools

import pytest

from bench.packing import TRACE
from berth.lab.openb import read_openb
from berth.lab.workload import ArrivalEvent, Workload, events

VARIANTS = sorted(
    path.name.removeprefix("openb_pod_list_").removesuffix(".csv.gz")
    for path in TRACE.glob("openb_pod_list_*.csv.gz")
)

pytestmark = pytest.mark.skipif(
    not TRACE.is_dir(), reason="no folder with the openb trace: set BERTH_TEST_OPENB_TRACE"
)


@pytest.fixture(scope="module")
def workload() -> Workload:
    """Return the workload of the default variant."""
    return read_openb(TRACE)


def node_rows(nodes: str = "all") -> list[dict[str, str]]:
    """Return the rows of a node file, read with csv alone."""
    with (TRACE / f"openb_node_list_{nodes}_node.csv").open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def pod_rows(variant: str = "default") -> list[dict[str, str]]:
    """Return the rows of a pod file, read with csv alone."""
    path = TRACE / f"openb_pod_list_{variant}.csv.gz"
    with gzip.open(path, "rt", encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def total(rows: list[dict[str, str]], column: str) -> int:
    """Return the sum of one column."""
    return sum(int(row[column]) for row in rows)


def test_every_gpu_is_a_device(workload: Workload) -> None:
    """Every GPU of the node file is a device with 1,000 thousandths."""
    devices = [device for host in workload.hosts for device in host.devices]
    assert devices == [{"CUSTOM_GPU_MILLI": 1000}] * total(node_rows(), "gpu")


def spec_total(workload: Workload, key: str) -> int:
    """Return the sum of one extra spec over all arrivals."""
    specs = (workload.flavors[arrival.flavor].extra_specs for arrival in workload.arrivals)
    return sum(int(spec.get(key, "0")) for spec in specs)


def test_trace_has_its_published_size(workload: Workload) -> None:
    """There are 1,523 hosts, 1,213 of them with GPUs, and 8,152 arrivals of one instance."""
    assert len(workload.hosts) == 1523
    assert len(read_openb(TRACE, nodes="gpu").hosts) == 1213
    assert sum(bool(host.devices) for host in workload.hosts) == 1213
    assert len(workload.arrivals) == 8152
    assert {arrival.count for arrival in workload.arrivals} == {1}


@pytest.mark.parametrize(
    ("resource_class", "column"),
    [("CUSTOM_CPU_MILLI", "cpu_milli"), ("MEMORY_MB", "memory_mib")],
)
def test_fleet_totals_are_those_of_the_file(
    workload: Workload, resource_class: str, column: str
) -> None:
    """The fleet's total of each class is the sum of its column in the node file."""
    ours = sum(host.amounts.get(resource_class, 0) for host in workload.hosts)
    assert ours == total(node_rows(), column)


def test_requests_sum_up_to_the_file(workload: Workload) -> None:
    """The CPU, memory and GPU thousandths requested are the sums of the pod file."""
    rows = pod_rows()
    assert spec_total(workload, "resources:CUSTOM_CPU_MILLI") == total(rows, "cpu_milli")
    flavors = [workload.flavors[arrival.flavor] for arrival in workload.arrivals]
    memory_mb = sum(
        int(flavor.extra_specs.get("resources:MEMORY_MB", flavor.memory_mb)) for flavor in flavors
    )
    assert memory_mb == total(rows, "memory_mib")
    asked = sum(
        int(value)
        for flavor in flavors
        for key, value in flavor.extra_specs.items()
        if key.endswith(":CUSTOM_GPU_MILLI")
    )
    assert asked == sum(int(row["num_gpu"]) * int(row["gpu_milli"]) for row in rows)


@pytest.mark.parametrize("variant", VARIANTS)
def test_every_variant_is_read_in_its_order(variant: str) -> None:
    """Requests are ordered by creation time and then as in the file; equal pods share a flavor."""
    workload = read_openb(TRACE, variant=variant)
    rows = sorted(pod_rows(variant), key=lambda row: int(row.get("creation_time", "0")))
    assert [arrival.name for arrival in workload.arrivals] == [row["name"] for row in rows]
    distinct = {
        (
            row["cpu_milli"],
            row["memory_mib"],
            row["num_gpu"],
            row["gpu_milli"],
            frozenset(row.get("gpu_spec", "").split("|")),
        )
        for row in rows
    }
    assert len(workload.flavors) == len(distinct)


def test_accepted_models_are_asked_for() -> None:
    """In gpuspec33 as many requests as pods name GPU models, and hosts have all of these."""
    workload = read_openb(TRACE, variant="gpuspec33")
    specs = [workload.flavors[arrival.flavor].extra_specs for arrival in workload.arrivals]
    named = [
        value if key == "berth:any_trait" else key.removeprefix("trait:")
        for spec in specs
        for key, value in spec.items()
        if "CUSTOM_GPU_MODEL_" in f"{key}{value}"
    ]
    assert len(named) == sum(bool(row["gpu_spec"]) for row in pod_rows("gpuspec33"))
    traits = {trait for host in workload.hosts for trait in host.traits}
    assert set(itertools.chain.from_iterable(name.split("|") for name in named)) <= traits


def test_nothing_departs(workload: Workload) -> None:
    """The replay of the trace has arrivals only."""
    assert all(isinstance(event, ArrivalEvent) for event in events(workload))
