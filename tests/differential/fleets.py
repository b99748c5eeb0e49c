"""Random fleets of few, often similar hosts, with all kinds of odd values in their records."""

from collections.abc import Mapping, Sequence

from berth.domain.compute.aggregate import AZ_KEY, Aggregate
from berth.domain.compute.flavor import Flavor, Image
from berth.domain.compute.host import Attestation, Host, Service
from berth.domain.compute.instance import Instance, Status, Task
from berth.domain.compute.server_group import GroupPolicy, ServerGroup
from berth.domain.inventory.provider import Provider
from berth.domain.inventory.resources import AMOUNT_MAX, DISK_GB, MEMORY_MB, VCPU, Inventory
from berth.domain.ledger.change import Snapshot
from berth.testing.fleets import NOW_S
from tests.differential.drawing import Draw
from tests.differential.hardware import draw_assignment, draw_cells, draw_pools
from tests.differential.vocabulary import IMAGE_PROPERTIES, ODD_IMAGE_PROPERTIES

NAMES = ("alpha", "Beta", "beta", "gamma-1", "delta.example.org", "Ünit")
NODES = ("node-b", "Node-B")
ELSEWHERE = "elsewhere"
CELLS = ("", "a", "b")
GROUPS = {policy: f"group-{policy}" for policy in GroupPolicy}
LEVELS = ("trusted", "trusted", "untrusted", "unknown")
SPAN_S = (0.0, 0.0, 0.0, 5.0, 10.5, 11.0, 12.0, 59.0, 60.0, 60.5, 61.0, -60.0, -61.0, 9_000.0)

_TOTALS: Mapping[str, Sequence[int]] = {
    VCPU: (0, 1, 4, 8, 8, 64, 2**31, AMOUNT_MAX),
    MEMORY_MB: (0, 1, 512, 8_192, 8_192, 262_144, 2**40, AMOUNT_MAX),
    DISK_GB: (0, 1, 40, 100, 100, 10_000, AMOUNT_MAX // 1_024),
}
_RATIOS = (1.0, 1.0, 4.0, 16.0, 1.5, 0.5, 0.1, 1 / 3, 10_000.0)
_SUPPORTED = (
    (("x86_64", "kvm", "hvm"),),
    (("x86_64", "kvm", "hvm"), ("i686", "kvm", "hvm"), ("x86_64", "qemu", "hvm")),
    (("aarch64", "qemu", "hvm"),),
    (("x86_64", "xen", "xen"), ("x86_64", "xen", "hvm")),
    (),
)
_VERSIONS = (0, 0, 1, 999, 1_000, 6_002_000, 7_000_000, 7_000_001, 2_147_483_647)
_TYPES = ("QEMU", "kvm", "", "xen", "VMware vCenter Server")
_CPU_INFOS: Sequence[Mapping[str, object]] = (
    {},
    {"arch": "x86_64", "features": ["avx", "vmx"], "topology": {"cores": 4, "threads": 2}},
    {"arch": "aarch64", "features": [], "topology": {"cores": "16"}},
    {"model": "Ünïcode", "vendor": None, "maxphysaddr": {"mode": "emulate", "bits": 46}},
    {"maxphysaddr": {"mode": "passthrough", "bits": 39}, "topology": [1, 2]},
)
_STATS: Sequence[Mapping[str, str]] = (
    {},
    {},
    {"rack": "r1"},
    {"rack": "r2", "load": "0.5"},
    {"rack": "", "load": "NaN", "json": '{"a": {"b": "3"}, "n": 4}'},
    {"load": "inf", "json": "[1, 2]", "räck": "größer"},
    {"load": "-3", "json": "{not json", "rack": "r1,r2"},
)
_METRICS: Sequence[Mapping[str, float]] = (
    {},
    {"cpu.frequency": 2_000.0},
    {"cpu.frequency": 2_000.0, "cpu.idle.time": 0.0},
    {"cpu.frequency": 0.0, "cpu.idle.time": 123_456_789_012.0},
    {"cpu.frequency": -5.0, "cpu.idle.time": 7.0, "cpu.user.time": 1.0},
)
_IPS = ("192.0.2.1", "192.0.2.200", "192.0.3.7", "10.0.0.1", "2001:db8::1", "2001:db8:1::1")
_METADATA: Mapping[str, Sequence[str]] = {
    AZ_KEY: ("az1", "az2, az1", "", " , "),
    "ssd": ("true", "false", "true,false", "", "TRUE"),
    "rack": ("r1", "r2", "r1, r2", "10", "9"),
    "räck": ("größer",),
    "max_io_ops_per_host": ("0", "1", "2", "-3", "2.7", "abc", "", " 1 ", "1,2", "99999999999"),
    "max_instances_per_host": ("0", "1", "3", "-1", "1.0", "none", "1_0"),
    "instance_type": ("small", "big, small", "other", "", "Small", ",", "größer"),
    "filter_tenant_id": ("p", "q", "p,q", " q , p ", "", ","),
    "filter_tenant_id_2": ("p", "q"),
    "hw_architecture": ("x86_64", "aarch64", "x86_64,i686", "amd64"),
    "os_distro": ("ubuntu", "centos, debian", "", "größer"),
    "os_type": ("linux", "windows", "linux, bsd"),
    "img_hv_type": ("kvm", "qemu, kvm"),
    "hw_vm_mode": ("hvm", "xen"),
    "hw_video_ram": ("64", "128"),
    "hw_qemu_guest_agent": ("True", "yes", "False"),
    "not_a_property": ("x",),
    **dict.fromkeys(
        ("cpu_allocation_ratio", "ram_allocation_ratio", "disk_allocation_ratio"),
        ("1", "2.0", "0.5", "16", "0", "-1", "abc", "", "0.1", " 4 "),
    ),
}
_COMMON_IMAGES = (
    Image("image-1", properties={"os_distro": "ubuntu", "os_type": "linux", "hw_vm_mode": "hvm"}),
    Image("image-2", properties={"hw_architecture": "x86_64", "os_type": "windows"}),
    Image("image-3", properties={"hw_architecture": "x86_64", "img_hv_type": "kvm"}),
)
_OFTEN = (AZ_KEY, "ssd", "rack", "hw_architecture", "os_type")
_MULTIPLIERS = ("0", "1", "2.5", "-1", "-0.5", "1e9", "abc", "", " 3 ", "1,2", "0.1")
_WEIGHTS: Mapping[str, Sequence[str]] = dict.fromkeys(
    (
        "ram_weight_multiplier",
        "cpu_weight_multiplier",
        "disk_weight_multiplier",
        "io_ops_weight_multiplier",
        "metrics_weight_multiplier",
        "pci_weight_multiplier",
        "soft_affinity_weight_multiplier",
        "soft_anti_affinity_weight_multiplier",
        "build_failure_weight_multiplier",
        "cross_cell_move_weight_multiplier",
        "hypervisor_version_weight_multiplier",
        "num_instances_weight_multiplier",
        "image_props_weight_multiplier",
    ),
    _MULTIPLIERS,
)


def draw_snapshot(draw: Draw, *, hardware: bool) -> Snapshot:
    """Draw the snapshot of a small fleet.

    Args:
        draw: the random source.
        hardware: whether most hosts have NUMA cells and PCI devices.
    """
    names = () if draw.seldom(15) else draw.shuffled(NAMES)[: draw.of((1, 2, 3, 4, 5))]
    identities = [(name, name) for name in names]
    identities += [(name, draw.of(NODES)) for name in names if draw.seldom(5)]
    hosts = [_host(draw, name, node, hardware=hardware) for name, node in draw.shuffled(identities)]
    attested = {
        node: Attestation(draw.of(LEVELS), NOW_S + draw.of((60.0, 0.0, -1.0)))
        for node in sorted({node for _, node in identities})
        if not draw.seldom(3)
    }
    services = [_service(draw, name, attested) for name in names]
    return Snapshot(
        version=1,
        now_s=NOW_S,
        hosts=tuple(hosts),
        providers=tuple(_provider(draw, host) for host in hosts),
        services=tuple(service for service in services if not draw.seldom(12)),
        aggregates=tuple(_aggregates(draw, [host.name for host in hosts])),
        server_groups=tuple(
            ServerGroup(uuid, policy, policy, max_server_per_host=draw.of((1, 1, 2, 3)))
            for policy, uuid in GROUPS.items()
        ),
        instances=_instances(draw, hosts),
    )


def _host(draw: Draw, name: str, node: str, *, hardware: bool) -> Host:
    cells = draw_cells(draw) if hardware else ()
    return Host(
        uuid=f"{name}/{node}",
        name=name,
        node=node,
        hypervisor_type=draw.of(_TYPES),
        hypervisor_version=draw.of(_VERSIONS),
        host_ip=draw.of(_IPS),
        cpu_info=draw.of(_CPU_INFOS),
        supported_instances=draw.of(_SUPPORTED),
        stats=draw.of(_STATS),
        cell=draw.of(CELLS),
        metrics=draw.of(_METRICS),
        numa_cells=cells,
        pci_pools=draw_pools(draw, cells) if hardware else (),
    )


def _service(draw: Draw, name: str, attested: Mapping[str, Attestation]) -> Service:
    return Service(
        host=name,
        service_id=f"service-{name}",
        disabled=draw.seldom(),
        forced_down=draw.seldom(10),
        last_seen_s=NOW_S - draw.of(SPAN_S),  # registration is the first report
        failed_builds=draw.of((0, 0, 0, 1, 2, 1_000)),
        attestations=attested,
    )


def _provider(draw: Draw, host: Host) -> Provider:
    # A host with NUMA cells has inventories of CPUs and memory, with their ratios.
    present = [name for name in _TOTALS if host.numa_cells or not draw.seldom(20)]
    inventories = {name: _inventory(draw, name) for name in present}
    if draw.seldom():
        inventories["CUSTOM_GPU"] = Inventory(4)
    used = {name: _used(draw, one) for name, one in inventories.items()}
    return Provider(
        uuid=host.uuid,
        name=host.name,
        inventories=inventories,
        used={name: amount for name, amount in used.items() if amount},
    )


def _inventory(draw: Draw, name: str) -> Inventory:
    total = draw.of(_TOTALS[name])
    reserved = draw.of((0, 0, 0, total // 4, total))
    return Inventory(total=total, reserved=reserved, allocation_ratio=draw.of(_RATIOS))


def _used(draw: Draw, inventory: Inventory) -> int:
    total = inventory.total
    return draw.of((0, 0, 1, total // 3, total // 2, total, total + 1, total * 2))


def _aggregates(draw: Draw, names: Sequence[str]) -> list[Aggregate]:
    """Draw aggregates with few keys, so that a host often has two values of one key."""
    often = [key for key in _OFTEN if draw.seldom(3)]
    topics = {key: _METADATA[key] for key in (*often, *draw.some(list(_METADATA), 7))}
    weights = {key: _WEIGHTS[key] for key in draw.some(list(_WEIGHTS), 9)}
    return [
        Aggregate(
            number,
            f"aggregate-{number}",
            f"aggregate-{number}",
            frozenset(draw.some([*names, ELSEWHERE], 5)),
            {**_drawn(draw, topics, 6), **_drawn(draw, weights, 6)},
        )
        for number in range(1, 1 + draw.of((0, 1, 2, 3, 5)))
    ]


def _instances(draw: Draw, hosts: Sequence[Host]) -> tuple[Instance, ...]:
    taken: dict[str, set[int]] = {host.uuid: set() for host in hosts}
    has_cells = any(host.numa_cells for host in hosts)
    count = draw.of((3, 6, 9, 12) if has_cells else (0, 1, 3, 6, 9))
    popular = draw.of(tuple(GROUPS.values()))
    groups = (None, popular, popular, *GROUPS.values())
    return tuple(_instance(draw, number, hosts, taken, groups) for number in range(count))


def _instance(
    draw: Draw,
    number: int,
    hosts: Sequence[Host],
    taken: Mapping[str, set[int]],
    groups: Sequence[str | None],
) -> Instance:
    place = draw.of(hosts) if hosts and not draw.seldom(10) else None
    return Instance(
        uuid=f"old-{number}",
        name=f"old-{number}",
        project_id="p",
        user_id="u",
        request_id=f"req-{number}",
        reservation_id="r-1",
        flavor=Flavor(draw.of(("1", "1", "2")), "small", 1, 512),
        image=draw_image(draw),
        status=draw.of((Status.ACTIVE, Status.ACTIVE, Status.BUILD, Status.ERROR)),
        task=draw.of((None, None, Task.SPAWNING, Task.DELETING)),
        host=place.name if place else None,
        node=place.node if place else None,
        group_uuid=draw.of(groups),
        assignment=draw_assignment(draw, place, taken[place.uuid])
        if place and not draw.seldom(3)
        else None,
    )


def draw_image(draw: Draw) -> Image | None:
    """Draw an image, or None for an instance that boots from a volume."""
    if draw.seldom():
        return None
    if draw.seldom(3):
        return draw.of(_COMMON_IMAGES)
    properties = _drawn(draw, IMAGE_PROPERTIES, 4)
    if draw.seldom():
        properties |= _drawn(draw, ODD_IMAGE_PROPERTIES, 2)
    return Image(draw.of(("image-1", "image-2", "image-3")), properties=properties)


def _drawn(draw: Draw, words: Mapping[str, Sequence[str]], most: int) -> dict[str, str]:
    return {key: draw.of(words[key]) for key in draw.some(list(words), most)}
