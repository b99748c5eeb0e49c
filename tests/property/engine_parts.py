"""Random hosts and requests for the small cloud of `engine_world`."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from random import Random

from berth.domain.compute.flavor import Flavor, Image
from berth.domain.compute.host import Attestation
from berth.domain.compute.request import Request
from berth.domain.inventory.resources import AMOUNT_MAX, DISK_GB, MEMORY_MB, VCPU, Inventory
from berth.testing.fleets import GPU, GPU_MILLI, NOW_S, TRAITS, ZONES, Box, Child, gpus
from berth.testing.hardware_fleets import random_cells, random_flavor, random_image, random_pools

METRICS = ("cpu.percent", "temperature")

_READINGS = (0.0, 0.5, -3.0, 1e9, 1e300, -1e308, 1e308)
_SPECS: Sequence[Mapping[str, str]] = (
    {},
    {},
    {},
    {"trait:CUSTOM_FAST": "required"},
    {"resources:CUSTOM_GPU": "1"},
    {"capabilities:num_instances": "<= 2"},
    {"kind": "x"},
    {"trust:trusted_host": "trusted"},
    {"trust:trusted_host": "unknown"},
    {f"resources1:{GPU_MILLI}": "500"},
    {f"resources:{GPU_MILLI}": "250"},
    {f"resources{n}:{GPU_MILLI}": "1000" for n in (1, 2)} | {"group_policy": "isolate"},
    {f"resources{n}:{GPU_MILLI}": f"{n}50" for n in (2, 4)} | {"group_policy": "none"},
    {f"resources1:{GPU_MILLI}": "500", "trait1:CUSTOM_FAST": "required"},
)


def lean_box(box: Box) -> Box:
    """Return the host with VCPU as its only class, so that its table knows no other class."""
    used = {VCPU: box.used.get(VCPU, 0)}
    return replace(box, inventories={VCPU: Inventory(16)}, used=used, children=())


def random_box(draw: Random, name: str, node: str, *, hardware: bool) -> Box:
    """Draw a host; with `hardware`, often one with NUMA cells and devices."""
    inventories = {
        VCPU: Inventory(draw.choice((8, 8, 16)), allocation_ratio=draw.choice((1.0, 4.0))),
        MEMORY_MB: Inventory(draw.choice((8192, 16384)), reserved=draw.choice((0, 512))),
        DISK_GB: Inventory(draw.choice((100, 1000)), step_size=draw.choice((1, 1, 1, 10))),
    }
    if draw.random() < 0.2:
        inventories[GPU] = Inventory(4)
    if draw.random() < 0.03:
        inventories[draw.choice((VCPU, DISK_GB))] = Inventory(AMOUNT_MAX)
    if draw.random() < 0.03:
        del inventories[draw.choice((VCPU, MEMORY_MB, DISK_GB))]
    cells = random_cells(draw) if hardware and draw.random() < 0.7 else ()
    return Box(
        name,
        node=node,
        inventories=inventories,
        used={VCPU: draw.randint(0, 9), MEMORY_MB: 1024 * draw.randint(0, 8)},
        traits=frozenset(one for one in TRAITS if draw.random() < 0.5),
        disabled=draw.random() < 0.1,
        forced_down=draw.random() < 0.05,
        silent_s=draw.choice((0.0, 0.0, 30.0, 59.0, 61.0, 500.0)),
        hypervisor_version=draw.choice((6_002_000, 6_002_000, 7_000_000, -(2**62))),
        cell=draw.choice(("", "", "", "c1", "c2")),
        failed_builds=draw.choice((0, 0, 0, 1, 7)),
        failed_s=draw.choice((0.0, 5.0, 60.0)),
        metrics={one: draw.choice(_READINGS[:-3]) for one in METRICS if draw.random() < 0.8}
        | ({METRICS[0]: draw.choice(_READINGS)} if draw.random() < 0.05 else {}),
        numa_cells=cells,
        pci_pools=random_pools(draw, cells) if hardware else (),
        attestation=draw.choice(
            (None, Attestation("trusted", NOW_S + draw.choice((-1.0, 20.0, 200.0))))
        ),
        children=_children(draw),
    )


def _children(draw: Random) -> tuple[Child, ...]:
    if draw.random() < 0.7:
        return ()
    free = (draw.choice((0, 250, 500, 1000, 1000)) for _ in range(draw.randint(1, 3)))
    traits = frozenset({"CUSTOM_FAST"}) if draw.random() < 0.3 else frozenset[str]()
    return gpus(*free, traits=traits)


def random_request(draw: Random, number: int, groups: Sequence[str], *, hardware: bool) -> Request:
    """Draw a request, sometimes with one of the server groups."""
    flavor = Flavor(
        f"f{number}", "f", draw.choice((0, 1, 2)), draw.choice((0, 512, 2048)),
        root_gb=draw.choice((0, 10)), extra_specs=draw.choice(_SPECS),
    )  # fmt: skip
    image = draw.choice((None, Image("i", properties={"hw_architecture": "x86_64"})))
    if hardware and draw.random() < 0.6:
        flavor = replace(random_flavor(draw), flavor_id=f"f{number}")
        image = random_image(draw)
    return Request(
        "req",
        ("x",),
        flavor,
        project_id=draw.choice(("p1", "p2")),
        user_id=f"u{number % 3}",
        metadata={"tier": str(number % 2)},
        image=image,
        availability_zone=draw.choice((None, None, None, *ZONES)),
        group_uuid=draw.choice((None, None, *groups)),
        source_cell=draw.choice(("", "", "", "c1")),
    )
