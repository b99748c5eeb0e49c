"""Tests for reading hosts, flavors and arrivals from the openb trace."""

import gzip
from pathlib import Path

import pytest

from berth.domain.compute.needs import needs_of
from berth.lab.openb import OpenbTraceError, read_openb
from berth.lab.workload import Arrival, FlavorSpec, FleetHost, Workload

NODES = "sn,cpu_milli,memory_mib,gpu,model\nn0,32500,65536,0,\nn1,96000,393216,8,V100M32\n"
PODS = "name,cpu_milli,memory_mib,num_gpu,gpu_milli,gpu_spec,creation_time\n"


def write(folder: Path, pods: str, nodes: str = NODES) -> None:
    """Write both files of a trace as plain CSV."""
    (folder / "openb_node_list_all_node.csv").write_text(nodes, encoding="utf-8")
    (folder / "openb_pod_list_default.csv").write_text(pods, encoding="utf-8")


def read(folder: Path, pods: str, nodes: str = NODES) -> Workload:
    """Write a trace and return the workload read from it."""
    write(folder, pods, nodes)
    return read_openb(folder)


def flavor_of(folder: Path, line: str) -> FlavorSpec:
    """Return the flavor of a trace with one pod."""
    (flavor,) = read(folder, PODS + line + "\n").flavors.values()
    return flavor


def test_node_becomes_host(tmp_path: Path) -> None:
    """A node becomes a host with CPU in 1/1000 core and a device for each GPU."""
    assert read(tmp_path, PODS).hosts == (
        FleetHost("n0", {"VCPU": 32, "CUSTOM_CPU_MILLI": 32500, "MEMORY_MB": 65536}),
        FleetHost(
            "n1",
            {"VCPU": 96, "CUSTOM_CPU_MILLI": 96000, "MEMORY_MB": 393216},
            ("CUSTOM_GPU_MODEL_V100M32",),
            devices=({"CUSTOM_GPU_MILLI": 1000},) * 8,
        ),
    )


def test_cpu_pod_becomes_flavor(tmp_path: Path) -> None:
    """A pod requests CPU in 1/1000 core; its vCPUs are rounded up for display only."""
    assert flavor_of(tmp_path, "p,3152,3072,0,0,,7") == FlavorSpec(
        "c3152-m3072-g0",
        vcpus=4,
        memory_mb=3072,
        disk_gb=0,
        extra_specs={
            "resources:VCPU": "0",
            "resources:CUSTOM_CPU_MILLI": "3152",
            "resources:DISK_GB": "0",
        },
    )


def test_whole_gpus_are_groups(tmp_path: Path) -> None:
    """A pod with whole GPUs requests each as a group, isolated from each other."""
    flavor = flavor_of(tmp_path, "p,12000,16384,2,1000,,0")
    assert flavor.name == "c12000-m16384-g2"
    needs = needs_of(flavor.flavor)
    assert [group.amounts for group in needs.groups] == [{"CUSTOM_GPU_MILLI": 1000}] * 2
    assert needs.isolate
    assert needs.amounts == {"CUSTOM_CPU_MILLI": 12000, "MEMORY_MB": 16384}
    assert not [key for key in flavor.extra_specs if "trait" in key]


def test_one_accepted_model_is_a_required_trait(tmp_path: Path) -> None:
    """A `gpu_spec` with one model, even if repeated, requires the trait of that model."""
    flavor = flavor_of(tmp_path, "p,1000,1024,1,1000,V100M32|V100M32,0")
    assert flavor.name == "c1000-m1024-g1-xV100M32"
    assert flavor.extra_specs["trait:CUSTOM_GPU_MODEL_V100M32"] == "required"
    assert "berth:any_trait" not in flavor.extra_specs


def test_several_accepted_models_are_any_of_their_traits(tmp_path: Path) -> None:
    """A `gpu_spec` with several models asks for any of their traits, in sorted order."""
    flavor = flavor_of(tmp_path, "p,1000,1024,1,1000,T4|P100|G3|A10,0")
    assert flavor.name == "c1000-m1024-g1-xA10_G3_P100_T4"
    wanted = [f"CUSTOM_GPU_MODEL_{model}" for model in ("A10", "G3", "P100", "T4")]
    assert flavor.extra_specs["berth:any_trait"] == "|".join(wanted)


def test_share_of_a_gpu_is_a_group(tmp_path: Path) -> None:
    """A pod with a share of a GPU requests thousandths of one GPU."""
    flavor = flavor_of(tmp_path, "p,6000,12288,1,460,,0")
    assert flavor.name == "c6000-m12288-g1-s460"
    assert flavor.extra_specs["resources1:CUSTOM_GPU_MILLI"] == "460"
    assert "group_policy" not in flavor.extra_specs


def test_processors_may_be_counted_in_thousandths_of_a_vcpu(tmp_path: Path) -> None:
    """With `cpu_class="VCPU"` hosts and flavors count thousandths of a core as VCPU."""
    write(tmp_path, PODS + "p,3152,3072,0,0,,7\n")
    workload = read_openb(tmp_path, cpu_class="VCPU")
    assert workload.hosts[0].amounts == {"VCPU": 32500, "MEMORY_MB": 65536}
    assert needs_of(workload.flavors["c3152-m3072-g0"].flavor).amounts == {
        "VCPU": 3152,
        "MEMORY_MB": 3072,
    }


def test_equal_pods_share_a_flavor(tmp_path: Path) -> None:
    """Pods with equal specs share a flavor, and none of them departs."""
    workload = read(tmp_path, f"{PODS}p,1000,1024,0,0,,0\nq,1000,1024,0,0,,3\n")
    assert list(workload.flavors) == ["c1000-m1024-g0"]
    assert workload.arrivals == (
        Arrival(0.0, "p", "c1000-m1024-g0"),
        Arrival(3.0, "q", "c1000-m1024-g0"),
    )


def test_arrivals_come_by_creation_time(tmp_path: Path) -> None:
    """Arrivals are sorted by creation time."""
    workload = read(tmp_path, f"{PODS}p,1000,0,0,0,,9\nq,1000,0,0,0,,3\n")
    assert [arrival.name for arrival in workload.arrivals] == ["q", "p"]


def test_no_memory_is_allowed_and_noted(tmp_path: Path) -> None:
    """A pod may request no memory, and the notes count such pods."""
    workload = read(tmp_path, f"{PODS}p,1000,0,0,0,,0\n")
    flavor = workload.flavors["c1000-m0-g0"]
    assert (flavor.memory_mb, flavor.extra_specs["resources:MEMORY_MB"]) == (1, "0")
    assert any("request no memory" in note for note in workload.notes)


def test_without_times_the_file_gives_the_order(tmp_path: Path) -> None:
    """Without creation times pods arrive one per second in the order of the file."""
    pods = "name,cpu_milli,memory_mib,num_gpu,gpu_milli\nz,1000,1,0,0\na,1000,1,0,0\n"
    workload = read(tmp_path, pods)
    assert [(arrival.at_s, arrival.name) for arrival in workload.arrivals] == [(0, "z"), (1, "a")]
    assert any("no times" in note for note in workload.notes)


def test_gzipped_files_are_read(tmp_path: Path) -> None:
    """A .csv.gz file is read if there is no .csv file."""
    for stem, text in (("node_list_gpu_node", NODES), ("pod_list_small", PODS)):
        path = tmp_path / f"openb_{stem}.csv.gz"
        path.write_bytes(gzip.compress(text.encode()))
    workload = read_openb(tmp_path, variant="small", nodes="gpu")
    assert workload.name == "openb-small-gpu"
    assert [host.name for host in workload.hosts] == ["n0", "n1"]


def test_missing_file_is_named_with_what_is_there(tmp_path: Path) -> None:
    """The error names the missing file and lists the variants in the folder."""
    write(tmp_path, PODS)
    with pytest.raises(
        OpenbTraceError, match=r"that folder has openb_pod_list_default\.csv"
    ) as caught:
        read_openb(tmp_path, variant="other")
    assert caught.value.path.name == "openb_pod_list_other.csv"


def test_missing_column_is_named(tmp_path: Path) -> None:
    """The error names every column that the header lacks."""
    with pytest.raises(OpenbTraceError, match="line 1: has no column gpu, model"):
        read(tmp_path, PODS, nodes="sn,cpu_milli,memory_mib\n")


@pytest.mark.parametrize(
    ("line", "column", "reason"),
    [
        ("p,many,1,0,0,,0", "cpu_milli", "'many' is not a whole number"),
        ("p,-5,1,0,0,,0", "cpu_milli", "'-5' is not a whole number"),
        ("p,1,1,0,0,,", "creation_time", "'' is not a whole number"),
        ("p,1,1,1,1001,,0", "gpu_milli", "1001 must be between 1 and 1000"),
        ("p,1,1,1,0,,0", "gpu_milli", "0 must be between 1 and 1000"),
        ("p,1,1,2,500,,0", "gpu_milli", "500 must be between 1 and 1000 for one GPU, and 1000 for"),
        (",1,1,0,0,,0", "name", "has no value"),
        ("p,1,1,0", "gpu_milli", "has 4 values for 7 columns"),
        ("q,1,1,0,0,,0", "name", "repeats 'q'"),
    ],
)
def test_bad_value_is_named(tmp_path: Path, line: str, column: str, reason: str) -> None:
    """The error names the file, line and column of the first invalid value."""
    with pytest.raises(OpenbTraceError, match=reason) as caught:
        read(tmp_path, f"{PODS}q,1,1,0,0,,0\n{line}\n")
    assert (caught.value.line, caught.value.column) == (3, column)
    assert f"openb_pod_list_default.csv, line 3, column {column}" in str(caught.value)


def test_too_many_values_are_refused(tmp_path: Path) -> None:
    """A line with more values than the header is refused."""
    with pytest.raises(OpenbTraceError, match="line 2: has 8 values for 7 columns"):
        read(tmp_path, f"{PODS}p,1,1,0,0,,0,extra\n")


def test_bad_quoting_is_refused(tmp_path: Path) -> None:
    """An unclosed quote is reported as an error of the file."""
    with pytest.raises(OpenbTraceError, match="is not valid CSV"):
        read(tmp_path, f'{PODS}"p,1,1,0,0,,0\n')


def test_gpu_host_must_say_its_model(tmp_path: Path) -> None:
    """A node with GPUs and no model is refused."""
    with pytest.raises(OpenbTraceError, match="line 2, column model: has no value"):
        read(tmp_path, PODS, nodes="sn,cpu_milli,memory_mib,gpu,model\nn,1000,1,2,\n")


@pytest.mark.parametrize(
    "raw", [b"not gzip", gzip.compress(b"x" * 99, mtime=0)[:-9]], ids=["not gzip", "cut off"]
)
def test_broken_gzip_is_refused(tmp_path: Path, raw: bytes) -> None:
    """A gzip file that cannot be unpacked is named in the error."""
    (tmp_path / "openb_node_list_all_node.csv.gz").write_bytes(raw)
    with pytest.raises(OpenbTraceError, match=r"all_node\.csv\.gz: cannot be read"):
        read_openb(tmp_path)
