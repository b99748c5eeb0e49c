"""Random requests: flavors, images, hints and names, the odd ones too."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Final

from berth.domain.flavor import Flavor
from berth.domain.image import Image
from berth.domain.instance import Instance
from berth.domain.request import Destination, Request
from berth.scheduling.reduction import CHECK_TYPE, REBUILD
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
    QUERIES,
    REQUIREMENTS,
)

COUNT_MAX: Final = 3
_OLD: Final = tuple(f"old-{number}" for number in range(12))
_ADDRESSES = ("192.0.2.1", "192.0.2.77", "192.0.3.7", "10.0.0.1", "2001:db8::5")
_PREFIXES = ("/24", "/32", "/0", "/31", "/64", "/128", "/16")
_BAD_ADDRESSES = ("", "not-an-address", "192.0.2", "192.0.2.1/24", "::ffff:192.0.2.1")
_BAD_PREFIXES = ("", "24", "/33", "/129", "/x", "/-1", "/24/24")


def draw_request(draw: Draw, instances: Sequence[Instance], *, hardware: bool) -> Request:
    """Draw a request that seldom says more than two odd things at once.

    Args:
        draw: chance.
        instances: those there are; now and then one of them is moved.
        hardware: whether it asks for NUMA cells or PCI devices.
    """
    moved = draw.of(instances) if instances and draw.seldom(8) else None
    count = 1 if moved else draw.of((1, 1, 2, COUNT_MAX))
    fresh = tuple(f"new-{number}" for number in range(count))
    return Request(
        request_id="req-1",
        instance_uuids=(moved.uuid,) if moved else fresh,
        flavor=_hardware_flavor(draw) if hardware else _flavor(draw),
        project_id=draw.of(("p", "p", "q", "r", "", "größer")),
        image=_hardware_image(draw) if hardware and draw.seldom(4) else draw_image(draw),
        availability_zone=draw.of((None, None, "az1", "az2", "nova", "", "other")),
        hints=_hints(draw),
        group_uuid=moved.group_uuid if moved else draw.of((None, None, *GROUPS.values())),
        destination=_destination(draw),
        ignore_hosts=_names(draw),
        force_hosts=_names(draw, one_in=12),
        force_nodes=tuple(draw.some((*NAMES, *NODES), 3)) if draw.seldom(15) else (),
        retried=_retried(draw),
        source_cell=draw.of(("", "", *CELLS)),
    )


def _flavor(draw: Draw) -> Flavor:
    return Flavor(
        flavor_id=draw.of(("1", "1", "2")),
        name=draw.of(("small", "big", "größer", "Small")),
        vcpus=draw.of((0, 1, 1, 2, 4, 64)),
        memory_mb=draw.of((0, 1, 512, 1_024, 8_192)),
        root_gb=draw.of((0, 0, 10, 40)),
        ephemeral_gb=draw.of((0, 0, 5)),
        swap_mb=draw.of((0, 0, 0, 1_024, 1)),
        extra_specs=_extra_specs(draw),
    )


def _hardware_flavor(draw: Draw) -> Flavor:
    return replace(
        _flavor(draw),
        vcpus=draw.of(VCPUS),
        memory_mb=draw.of(MEMORY_MB),
        extra_specs=draw_hardware_specs(draw),
    )


def _hardware_image(draw: Draw) -> Image:
    return Image("image-1", properties=draw_hardware_properties(draw))


def _extra_specs(draw: Draw) -> Mapping[str, str]:
    specs = {key: draw.of(_requirements(draw)) for key in _keys(draw)}
    if draw.seldom(8):
        specs["trust:trusted_host"] = draw.of((*LEVELS, "", "Trusted"))
    if "hw:maxphysaddr_bits" in specs:
        specs["hw:maxphysaddr_bits"] = draw.of(("40", "46", "abc"))
    return specs


def _keys(draw: Draw) -> Sequence[str]:
    kinds: Sequence[Sequence[str]] = ((), CAPABILITY_KEYS, CAPABILITY_KEYS, AGGREGATE_KEYS)
    found = draw.some(draw.of(kinds), 2)
    return [*found, *draw.some(AGGREGATE_KEYS, 1)] if draw.seldom() else found


def _requirements(draw: Draw) -> Sequence[str]:
    return BAD_REQUIREMENTS if draw.seldom(10) else REQUIREMENTS


def _retried(draw: Draw) -> tuple[tuple[str, str], ...]:
    if not draw.seldom():
        return ()
    return tuple((name, draw.of((name, *NODES))) for name in draw.some(NAMES, 3))


def _hints(draw: Draw) -> Mapping[str, tuple[str, ...]]:
    hints: dict[str, tuple[str, ...]] = {}
    if draw.seldom(12):
        hints[CHECK_TYPE] = draw.of((REBUILD, REBUILD, ("other",), ()))
    for name in ("different_host", "same_host"):
        if draw.seldom(4):
            hints[name] = tuple(draw.some((*_OLD, ELSEWHERE), 3))
    if draw.seldom(4):
        hints["build_near_host_ip"] = (draw.of(_BAD_ADDRESSES if draw.seldom() else _ADDRESSES),)
    if draw.seldom(4):
        hints["cidr"] = (draw.of(_BAD_PREFIXES if draw.seldom() else _PREFIXES),)
    if draw.seldom(2):
        hints["query"] = (draw.of(BAD_QUERIES if draw.seldom(5) else QUERIES),)
    return hints


def _destination(draw: Draw) -> Destination | None:
    if not draw.seldom(15):
        return None
    return Destination(draw.of(NAMES), draw.of((None, "", *NODES, *NAMES)))


def _names(draw: Draw, one_in: int = 8) -> tuple[str, ...]:
    if not draw.seldom(one_in):
        return ()
    names = draw.some((*NAMES, ELSEWHERE), 3)
    return tuple(draw.of((name, name.upper(), name.lower())) for name in names)
