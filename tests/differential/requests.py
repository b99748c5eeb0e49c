"""Random requests, with usual and odd flavors, images, hints and names."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Final

from berth.domain.compute.flavor import Flavor, Image
from berth.domain.compute.host import Host
from berth.domain.compute.request import Destination, Request
from berth.domain.ledger.change import Snapshot
from berth.scheduling.rules.reduction import CHECK_TYPE, REBUILD
from tests.differential.drawing import Draw
from tests.differential.fleets import CELLS, ELSEWHERE, GROUPS, LEVELS, NAMES, NODES, draw_image
from tests.differential.hardware import (
    MEMORY_MB,
    VCPUS,
    draw_hardware_properties,
    draw_hardware_specs,
)
from tests.differential.vocabulary import (
    AGGREGATE_KEYS,
    BAD_QUERIES,
    BAD_REQUIREMENTS,
    CAPABILITY_KEYS,
    PLAUSIBLE_SPECS,
    QUERIES,
    REQUIREMENTS,
)

COUNT_MAX: Final = 3
_ADDRESSES = ("192.0.2.1", "192.0.2.77", "192.0.3.7", "10.0.0.1", "2001:db8::5")
_PREFIXES = ("/24", "/32", "/0", "/31", "/64", "/128", "/16", "/255.255.0.0", "/ffff:ffff::")
_BAD_ADDRESSES = (
    *("", "not-an-address", "192.0.2", "192.0.2.", "192.0.2.1/24", "192.0.2.1/", "192.0.2.20"),
    *("::ffff:192.0.2.1", "fe80::1%eth0", "2001:db8::", "192.0.2.1,192.0.3.7"),
)
_BAD_PREFIXES = ("", "24", "0", "7", "1", "/33", "/129", "/x", "/-1", "/+4", "/24/24", "::1", "/")


def draw_request(draw: Draw, fleet: Snapshot, *, hardware: bool) -> Request:
    """Draw a request that rarely has more than two odd parts.

    Args:
        draw: the random source.
        fleet: the fleet; some requests move one of its instances.
        hardware: whether it asks for NUMA cells or PCI devices.
    """
    instances, hosts = fleet.instances, fleet.hosts
    used = tuple(one.group_uuid for one in instances if one.host)
    moved = draw.of(instances) if instances and draw.seldom(8) else None
    count = 1 if moved else draw.of((1, 1, 2, COUNT_MAX))
    fresh = tuple(f"new-{number}" for number in range(count))
    force_hosts = _names(draw, hosts, one_in=12)
    force_nodes = _nodes(draw, hosts) if draw.seldom(15) else ()
    hints = _hints(draw, [one.uuid for one in instances])
    if (force_hosts or force_nodes) and draw.seldom(3):
        hints = {**hints, CHECK_TYPE: REBUILD}
    return Request(
        request_id="req-1",
        instance_uuids=(moved.uuid,) if moved else fresh,
        flavor=_hardware_flavor(draw, fleet) if hardware else _flavor(draw, fleet),
        project_id=draw.of(("p", "p", "q", "r", "", "größer")),
        image=_hardware_image(draw) if hardware and draw.seldom(4) else draw_image(draw),
        availability_zone=_zone(draw, fleet),
        hints=hints,
        group_uuid=moved.group_uuid if moved else draw.of((None, None, *GROUPS.values(), *used)),
        destination=_destination(draw, hosts),
        ignore_hosts=_names(draw, hosts),
        force_hosts=force_hosts,
        force_nodes=force_nodes,
        retried=_retried(draw, hosts),
        source_cell=draw.of(("", "", *CELLS)),
    )


def _zone(draw: Draw, fleet: Snapshot) -> str | None:
    there = sorted({zone for one in fleet.aggregates for zone in one.availability_zones})
    if there and draw.seldom(2):
        return draw.of(there)
    return draw.of((None, None, None, "az1", "az2", "nova", "", "other"))


def _flavor(draw: Draw, fleet: Snapshot) -> Flavor:
    return Flavor(
        flavor_id=draw.of(("1", "1", "2")),
        name=draw.of(("small", "big", "größer", "Small")),
        vcpus=draw.of((0, 1, 1, 2, 4, 64)),
        memory_mb=draw.of((0, 1, 512, 1_024, 8_192)),
        root_gb=draw.of((0, 0, 10, 40)),
        ephemeral_gb=draw.of((0, 0, 5)),
        swap_mb=draw.of((0, 0, 0, 1_024, 1)),
        extra_specs=_extra_specs(draw, fleet),
    )


def _hardware_flavor(draw: Draw, fleet: Snapshot) -> Flavor:
    return replace(
        _flavor(draw, fleet),
        vcpus=draw.of(VCPUS),
        memory_mb=draw.of(MEMORY_MB),
        extra_specs=draw_hardware_specs(draw),
    )


def _hardware_image(draw: Draw) -> Image:
    return Image("image-1", properties=draw_hardware_properties(draw))


def _extra_specs(draw: Draw, fleet: Snapshot) -> Mapping[str, str]:
    specs = {key: draw.of(_requirements(draw)) for key in _keys(draw)}
    if draw.seldom(2):
        keys = draw.some(tuple(PLAUSIBLE_SPECS), 2)
        specs = {key: draw.of(_plausible(draw, key)) for key in keys} | _told_specs(draw, fleet)
    if draw.seldom(8):
        specs["trust:trusted_host"] = draw.of((*LEVELS, "", "Trusted"))
    if "hw:maxphysaddr_bits" in specs:
        specs["hw:maxphysaddr_bits"] = draw.of(("40", "46", "abc"))
    return specs


def _plausible(draw: Draw, key: str) -> Sequence[str]:
    return BAD_REQUIREMENTS if draw.seldom(10) else PLAUSIBLE_SPECS[key]


def _told_specs(draw: Draw, fleet: Snapshot) -> dict[str, str]:
    """Draw an extra spec about the metadata of an aggregate, often one that it meets."""
    told = [item for one in fleet.aggregates for item in sorted(one.metadata.items())]
    there = [(key, text) for key, text in told if key in ("ssd", "rack", "räck")]
    if not there or draw.seldom(3):
        return {}
    key, text = draw.of(there)
    first = text.partition(",")[0].strip()
    scope = draw.of(("aggregate_instance_extra_specs:", "aggregate_instance_extra_specs:", ""))
    return {f"{scope}{key}": draw.of((first, f"s== {first}", f"<or> {first}", f"s> {first}"))}


def _keys(draw: Draw) -> Sequence[str]:
    kinds: Sequence[Sequence[str]] = ((), CAPABILITY_KEYS, CAPABILITY_KEYS, AGGREGATE_KEYS)
    found = draw.some(draw.of(kinds), 2)
    return [*found, *draw.some(AGGREGATE_KEYS, 1)] if draw.seldom() else found


def _requirements(draw: Draw) -> Sequence[str]:
    return BAD_REQUIREMENTS if draw.seldom(10) else REQUIREMENTS


def _retried(draw: Draw, hosts: Sequence[Host]) -> tuple[tuple[str, str], ...]:
    if not draw.seldom():
        return ()
    elsewhere = [(name, draw.of((name, *NODES))) for name in NAMES]
    return tuple(draw.some([(one.name, one.node) for one in hosts] or elsewhere, 3))


def _hints(draw: Draw, uuids: Sequence[str]) -> Mapping[str, tuple[str, ...]]:
    hints: dict[str, tuple[str, ...]] = {}
    if draw.seldom(8):
        hints[CHECK_TYPE] = draw.of((REBUILD, REBUILD, ("other",), ()))
    for name in ("different_host", "same_host"):
        if draw.seldom(4):
            hints[name] = tuple(draw.some((*uuids, ELSEWHERE), 3))
    if draw.seldom(4):
        hints["build_near_host_ip"] = (draw.of(_BAD_ADDRESSES if draw.seldom() else _ADDRESSES),)
    if draw.seldom(4):
        hints["cidr"] = (draw.of(_BAD_PREFIXES if draw.seldom() else _PREFIXES),)
    if draw.seldom(2):
        hints["query"] = (draw.of(BAD_QUERIES if draw.seldom(5) else QUERIES),)
    return hints


def _destination(draw: Draw, hosts: Sequence[Host]) -> Destination | None:
    if not draw.seldom(12):
        return None
    if hosts and not draw.seldom(4):
        wanted = draw.of(hosts)
        return Destination(wanted.name, draw.of((None, "", wanted.node, wanted.node)))
    return Destination(draw.of(NAMES), draw.of((None, "", *NODES, *NAMES)))


def _names(draw: Draw, hosts: Sequence[Host], one_in: int = 8) -> tuple[str, ...]:
    if not draw.seldom(one_in):
        return ()
    there = tuple(dict.fromkeys(one.name for one in hosts))
    names = draw.some((*there, ELSEWHERE) if draw.seldom(2) else (*NAMES, ELSEWHERE), 3)
    return tuple(draw.of((name, name.upper(), name.lower())) for name in names)


def _nodes(draw: Draw, hosts: Sequence[Host]) -> tuple[str, ...]:
    there = tuple(one.node for one in hosts)
    return tuple(dict.fromkeys(draw.some((*there, draw.of(NODES), ELSEWHERE), 3)))
