"""Strategies for small fleets and requests with many equal values and occasional odd ones."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cache
from typing import TypeVar

from hypothesis import strategies as st

from berth.domain.compute.aggregate import AZ_KEY, Aggregate
from berth.domain.compute.flavor import Flavor, Image
from berth.domain.compute.instance import Instance, Task
from berth.domain.compute.request import Destination, Request
from berth.domain.compute.server_group import GroupPolicy, ServerGroup
from berth.domain.hardware.pci import PciPool
from berth.domain.inventory.resources import DISK_GB, MEMORY_MB, VCPU, Inventory
from berth.domain.ledger.change import Snapshot
from berth.testing.fleets import GPU, METRICS, TRAITS, ZONES, Box, asking, resident, snapshot_of

_SPECS: Mapping[str, Sequence[str]] = {
    "trait:CUSTOM_FAST": ("required", "forbidden"),
    "trait:CUSTOM_OLD": ("required", "forbidden"),
    "berth:any_trait": ("CUSTOM_FAST|HW_CPU_X86_AVX",),
    "resources:CUSTOM_GPU": ("0", "1", "2"),
    "resources:CUSTOM_NOWHERE": ("1",),
    "resources:MEMORY_MB": ("0", "2048"),
    "capabilities:hypervisor_type": ("QEMU", "s!= QEMU", "<in> EM", "<or> kvm <or> QEMU"),
    "capabilities:cpu_info:features": ("<in> avx", "<all-in> avx vmx"),
    "capabilities:vcpus_total": ("= 8", ">= 4", "== 4", "<= 4", "!= 8"),
    "capabilities:num_instances": ("0", "<= 1"),
    "capabilities:free_ram_mb": (">= 2048",),
    "rack": ("r1", "s== r1", "s>= r2"),
    "ssd": ("true", ">= 5", "<or> 3 <or> true", ">= many"),
    "aggregate_instance_extra_specs:ssd": ("true", "<in> ru", "== 3"),
    "other:rack": ("ignored",),
}

_IMAGES = (
    Image("i1", properties={"hw_architecture": "amd64"}),
    Image("i2", properties={"hw_architecture": "arm64", "hw_vm_mode": "hvm"}),
    Image("i3", properties={"img_hv_type": "kvm", "img_hv_requested_version": ">=6.0,<7"}),
    Image("i4", properties={"img_hv_requested_version": ">=99"}),
    Image("i5", properties={"trait:HW_CPU_X86_AVX": "required", "os_type": "linux"}),
)

# Metadata of aggregates besides availability zones: valid, malformed and empty values.
_METADATA: Sequence[Mapping[str, str]] = (
    {},
    {
        "cpu_allocation_ratio": "0.5",
        "ram_allocation_ratio": "0.1",
        "disk_allocation_ratio": "0.7",
        "ssd": "true",
    },
    {
        "cpu_allocation_ratio": "2",
        "ram_allocation_ratio": "1.5",
        "disk_allocation_ratio": "1e1",
        "max_io_ops_per_host": "1",
        "max_instances_per_host": "1.5",
    },
    {
        "cpu_allocation_ratio": "0",
        "ram_allocation_ratio": "many",
        "disk_allocation_ratio": "nan",
        "max_io_ops_per_host": "none",
        "max_instances_per_host": "",
    },
    {
        "ssd": "true, 7",
        "filter_tenant_id": "p2, p1",
        "instance_type": "g , f",
        "os_type": "windows, bsd",
    },
    {
        "ssd": " 3 ",
        "filter_tenant_id_too": "p2",
        "instance_type": "g",
        "hw_architecture": "arm64, ppc",
        "max_io_ops_per_host": "0",
    },
    {
        "filter_tenant_id": "",
        "instance_type": "",
        "os_type": "linux",
        "hw_architecture": "amd64",
        "max_instances_per_host": "1",
    },
)

_SUPPORTED = (
    (("x86_64", "kvm", "hvm"),),
    (("x86_64", "kvm", "hvm"), ("i686", "kvm", "hvm")),
    (("aarch64", "qemu", "hvm"),),
    (),
)

CELLS = ("cell-1", "cell-2")

_REPORTS: Sequence[Mapping[str, float]] = (
    {},
    {METRICS[0]: 1.0},
    {METRICS[0]: 1.0, METRICS[1]: 1.0},
    {METRICS[0]: -2.5, METRICS[1]: 40.0},
)

_POOLS = (
    (),
    (),
    (PciPool("10de", "1eb8", count=3),),
    (PciPool("10de", "1eb8", count=2), PciPool("8086", "0443", count=150)),
)

HOSTS_MAX = 6

# Hypothesis shrinks to 0, so True is drawn for 1: minimal examples keep the usual value.
_SELDOM_TRUE = st.integers(0, 7).map(lambda drawn: drawn == 1)

_T = TypeVar("_T")


def _inventories(sizes: Sequence[int], *, stepped: bool) -> list[Inventory]:
    """Return inventories of each size: plain, and with a ratio, a reserve, a limit or units."""
    made: list[Inventory] = []
    for total in sizes:
        plain = Inventory(total)
        made += [plain, plain, replace(plain, allocation_ratio=4.0)]
        made.append(replace(plain, reserved=total // 4, allocation_ratio=1.5))
        made.append(replace(plain, allocation_ratio=0.7, max_unit=total // 2 + 1))
        if stepped:
            made.append(replace(plain, step_size=2))
            made.append(replace(plain, min_unit=4, step_size=4, allocation_ratio=2.0))
    return made


@cache
def inventories(*, stepped: bool = True) -> st.SearchStrategy[dict[str, Inventory]]:
    """Draw the inventories of one host; `stepped` allows allocation units other than 1."""
    sizes = {VCPU: (1, 4, 8), MEMORY_MB: (1024, 4096, 8192), DISK_GB: (0, 40, 100)}
    plain = {
        name: st.sampled_from(_inventories(totals, stepped=stepped))
        for name, totals in sizes.items()
    }
    scarce = st.sampled_from(_inventories((1, 2, 4), stepped=stepped))
    return st.fixed_dictionaries(plain, optional={GPU: scarce})


def _seldom(strategy: st.SearchStrategy[_T], default: _T) -> st.SearchStrategy[_T]:
    usual = st.just(default)
    return st.integers(0, 7).flatmap(lambda drawn: strategy if drawn == 1 else usual)


# The strategies below are built once, because building one takes longer than drawing from it.

# Usage in quarters of the total. It may exceed the total, as after an operator lowers an inventory.
_SHARES = st.sampled_from((0, 0, 0, 0, 1, 2, 3, 4, 5))
_BOX_TRAITS = st.frozensets(st.sampled_from(TRAITS))
# A service is down after 60 s by default; a negative value means that the host's clock is ahead.
_SILENT_S = _seldom(st.sampled_from((59.0, 60.0, 61.0, -61.0, 9000.0)), 5.0)
_TYPES = st.sampled_from(("QEMU", "kvm"))
_VERSIONS = st.sampled_from((6_002_000, 7_000_000, 0))
_CPU_INFO: st.SearchStrategy[dict[str, list[str]]] = st.sampled_from(
    ({}, {"features": ["avx"]}, {"features": ["avx", "vmx"]})
)
_SUPPORTED_INSTANCES = st.sampled_from(_SUPPORTED)
_STATS: st.SearchStrategy[dict[str, str]] = st.sampled_from(({}, {"rack": "r1"}, {"rack": "r2"}))
_BOX_CELLS = st.sampled_from(("", *CELLS))
_FAILED_BUILDS = st.sampled_from((0, 0, 1, 3))
_FAILURE_LEVELS = st.sampled_from((0.0, 0.0, 0.5, 3.0))
_FAILED_S = st.sampled_from((0.0, 600.0))
_METRICS = st.sampled_from(_REPORTS)
_PCI_POOLS = st.sampled_from(_POOLS)
_BOOLEANS = st.booleans()
_MEMBERS_MAX = st.integers(1, 2)
_GROUPS = st.sampled_from([None, None, *(f"g-{policy}" for policy in GroupPolicy)])
_TASKS = st.sampled_from((None, Task.SPAWNING, Task.DELETING))
_SOME_IMAGE = st.sampled_from((None, *_IMAGES))


@st.composite
def boxes(draw: st.DrawFn, name: str, *, stepped: bool = True) -> Box:
    """Draw a box with the given name; `stepped` allows allocation units other than 1."""
    has = draw(inventories(stepped=stepped))
    used = {key: one.total * draw(_SHARES) // 4 for key, one in has.items()}
    return Box(
        name=name,
        inventories=has,
        used={key: amount for key, amount in used.items() if amount},
        traits=draw(_BOX_TRAITS),
        disabled=draw(_SELDOM_TRUE),
        forced_down=draw(_SELDOM_TRUE),
        silent_s=draw(_SILENT_S),
        hypervisor_type=draw(_TYPES),
        hypervisor_version=draw(_VERSIONS),
        cpu_info=draw(_CPU_INFO),
        supported_instances=draw(_SUPPORTED_INSTANCES),
        stats=draw(_STATS),
        cell=draw(_BOX_CELLS),
        failed_builds=draw(_FAILED_BUILDS),
        failure_level=draw(_FAILURE_LEVELS),
        failed_s=draw(_FAILED_S),
        metrics=draw(_METRICS),
        pci_pools=draw(_PCI_POOLS),
    )


@st.composite
def snapshots(draw: st.DrawFn, *, stepped: bool = True, least: int = 0) -> Snapshot:
    """Draw a small fleet with services, aggregates, server groups and instances."""
    names = [f"Host-{number}" for number in range(draw(_counts(least)))]
    fleet: list[Box] = [draw(_named(name, stepped=stepped)) for name in draw(_shuffled(*names))]
    second_node: bool = draw(_BOOLEANS)
    if fleet and second_node:
        fleet.append(replace(draw(_named(fleet[0].name, stepped=stepped)), node="node-b"))
    groups = [
        ServerGroup(f"g-{policy}", policy, policy, max_server_per_host=draw(_MEMBERS_MAX))
        for policy in GroupPolicy
    ]
    snapshot = snapshot_of(
        fleet,
        aggregates=draw(_aggregates(*names)),
        groups=groups,
        instances=draw(_residents(fleet)) if fleet else (),
    )
    # Half of the fleets lack the first service, because rules must handle hosts without one.
    if draw(_BOOLEANS):
        return snapshot
    return replace(snapshot, services=snapshot.services[1:])


@cache
def _counts(least: int) -> st.SearchStrategy[int]:
    return st.integers(least, HOSTS_MAX)


@cache
def _named(name: str, *, stepped: bool) -> st.SearchStrategy[Box]:
    return boxes(name, stepped=stepped)


@cache
def _shuffled(*names: str) -> st.SearchStrategy[list[str]]:
    return st.permutations(names)


@cache
def _aggregates(*names: str) -> st.SearchStrategy[list[Aggregate]]:
    # Aggregates may name hosts that do not exist.
    members = st.frozensets(st.sampled_from([*names, "elsewhere"]))
    zones = st.sampled_from(({}, {AZ_KEY: "az1"}, {AZ_KEY: "az2, az1"}, {AZ_KEY: " , "}))
    made = st.tuples(members, zones, st.sampled_from(_METADATA))
    return st.lists(made, max_size=3).map(
        lambda found: [
            Aggregate(number, f"agg-{number}", f"agg-{number}", hosts, {**zones, **metadata})
            for number, (hosts, zones, metadata) in enumerate(found)
        ]
    )


def _residents(fleet: Sequence[Box]) -> st.SearchStrategy[list[Instance]]:
    made = st.tuples(st.sampled_from(fleet), _GROUPS, _TASKS, _SOME_IMAGE)
    return st.lists(made, max_size=5).map(
        lambda found: [
            replace(resident(f"old-{number}", box, group_uuid=group_uuid, task=doing), image=image)
            for number, (box, group_uuid, doing, image) in enumerate(found)
        ]
    )


def flavors() -> st.SearchStrategy[Flavor]:
    """Draw a flavor that fits some boxes, with extra specs that some boxes satisfy."""
    specs: st.SearchStrategy[dict[str, str]] = st.one_of(
        st.just(dict[str, str]()),
        st.just(dict[str, str]()),
        st.lists(
            st.sampled_from([(key, value) for key, values in _SPECS.items() for value in values]),
            max_size=2,
        ).map(dict),
    )
    return st.builds(
        Flavor,
        flavor_id=st.just("1"),
        name=st.sampled_from(("f", "f", "g")),
        vcpus=st.sampled_from((0, 1, 1, 2, 3, 8)),
        memory_mb=st.sampled_from((0, 512, 512, 1024, 1500, 4096)),
        root_gb=st.sampled_from((0, 0, 10, 40)),
        ephemeral_gb=st.sampled_from((0, 0, 5)),
        swap_mb=st.sampled_from((0, 0, 1, 1024)),
        extra_specs=specs,
    )


_NAME = st.sampled_from([f"Host-{number}" for number in range(HOSTS_MAX)])
_NODE = st.just("node-b")
_NAMES = _seldom(
    st.lists(st.one_of(_NAME, _NAME.map(str.lower)), max_size=3, unique=True).map(tuple), ()
)
_HINTS = _seldom(
    st.lists(st.sampled_from([f"old-{n}" for n in range(6)]), max_size=2).map(tuple), ()
)
_FLAVORS = flavors()
_ASKED: Mapping[str, st.SearchStrategy[object]] = {
    "image": _seldom(st.sampled_from(_IMAGES), None),
    "availability_zone": _seldom(st.sampled_from(ZONES), None),
    "source_cell": _seldom(st.sampled_from(CELLS), ""),
    "project_id": _seldom(st.sampled_from(("p1", "p2")), ""),
    "retried": _seldom(st.lists(st.tuples(_NAME, _NAME), max_size=2).map(tuple), ()),
}
_GROUPED: Mapping[str, st.SearchStrategy[object]] = {
    "group_uuid": _seldom(st.sampled_from([f"g-{policy}" for policy in GroupPolicy]), None)
}
_NAMED: Mapping[str, st.SearchStrategy[object]] = {
    "destination": _seldom(st.builds(Destination, _NAME, st.one_of(st.none(), _NAME, _NODE)), None),
    "ignore_hosts": _NAMES,
    "force_hosts": _NAMES,
    "force_nodes": _seldom(st.lists(st.one_of(_NAME, _NODE), max_size=3).map(tuple), ()),
}


@st.composite
def requests(
    draw: st.DrawFn, *, count_max: int = 4, grouped: bool = True, named: bool = True
) -> Request:
    """Draw a request; each option is used occasionally.

    Args:
        draw: supplied by Hypothesis.
        count_max: maximum number of instances.
        grouped: whether the request may use a server group.
        named: whether the request may name hosts to force, ignore or target.
    """
    asked = dict(_ASKED)
    if grouped:
        asked |= _GROUPED
    if named:
        asked |= _NAMED
    hints = {hint: draw(_HINTS) for hint in ("different_host", "same_host", "other")}
    options = {option: draw(strategy) for option, strategy in asked.items()}
    count = draw(st.integers(1, count_max))
    flavor = draw(_FLAVORS)
    return replace(asking(flavor, count=count), hints=hints, **options)  # type: ignore[arg-type]
