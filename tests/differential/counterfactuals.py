"""Berth's verdicts and values for a case with one thing changed.

With these an entry of the table of wanted differences is exact: if Berth reads that one thing as
Nova does, its answer is Nova's.
"""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import cast

from berth.domain.compute.aggregate import Aggregate
from berth.domain.compute.flavor import Image
from berth.domain.hardware.pci import aliases_of
from berth.domain.inventory.resources import MEMORY_MB, VCPU
from tests.differential.answers import Verdict, value_of, verdict_of
from tests.differential.cases import Case
from tests.property.reference_hardware import Place, fits

Images = Mapping[str, Mapping[str, str]]
"""Properties as Nova reads them: those of the request under an empty name, others by instance."""

_FALSE = ("False", "0")
"""Values that are false in Nova, in its spelling."""


def without_key(case: Case, key: str, is_dropped: Callable[[Sequence[str]], bool]) -> Case:
    """Return the case without a metadata key in the aggregates of some hosts.

    Args:
        case: the case.
        key: the metadata key.
        is_dropped: tells from the texts that a host has under the key whether it loses the key.
    """
    aggregates = case.snapshot.aggregates
    names = dict.fromkeys(host.name for host in case.snapshot.hosts)
    own = [one for name in names for one in _own(aggregates, name, key, is_dropped)]
    numbered = tuple(
        replace(one, aggregate_id=number, uuid=f"own-{number}", name=f"own-{number}")
        for number, one in enumerate(own, 1)
    )
    return replace(case, snapshot=replace(case.snapshot, aggregates=numbered))


def _own(
    aggregates: Sequence[Aggregate],
    name: str,
    key: str,
    is_dropped: Callable[[Sequence[str]], bool],
) -> Iterator[Aggregate]:
    """Yield copies of a host's aggregates that have only this host as a member."""
    mine = [one for one in aggregates if name in one.hosts]
    dropped = is_dropped([one.metadata[key] for one in mine if key in one.metadata])
    for one in mine:
        kept = {other: text for other, text in one.metadata.items() if other != key or not dropped}
        yield replace(one, hosts=frozenset({name}), metadata=kept)


def with_images(case: Case, images: Images, *, false_counts: bool) -> Case:
    """Return the case with the image properties that Nova reads.

    Args:
        case: the case.
        images: the properties that Nova reads.
        false_counts: whether properties that are `False` or 0 are kept.
    """

    def read(image: Image | None, uuid: str) -> Image | None:
        told = images.get(uuid, {}).items()
        kept = {name: value for name, value in told if false_counts or value not in _FALSE}
        return image and replace(image, properties=kept)

    return replace(
        case,
        request=replace(case.request, image=read(case.request.image, "")),
        snapshot=replace(
            case.snapshot,
            instances=tuple(
                replace(one, image=read(one.image, one.uuid)) for one in case.snapshot.instances
            ),
        ),
    )


def with_hint(case: Case, name: str, text: str) -> Case:
    """Return the case with another text of a hint."""
    hints = {**case.request.hints, name: (text,)}
    return replace(case, request=replace(case.request, hints=hints))


def with_specs(case: Case, extra_specs: Mapping[str, str]) -> Case:
    """Return the case with other extra specs."""
    flavor = replace(case.request.flavor, extra_specs=extra_specs)
    return replace(case, request=replace(case.request, flavor=flavor))


def verdict(case: Case, rule: str, host: int | None) -> Verdict:
    """Return the verdict of Berth's filter on a host of a case."""
    assert host is not None
    return verdict_of(case, rule, host)


def value(case: Case, rule: str, what: str, host: int | None) -> float:
    """Return the value of Berth's weigher for a host of a case."""
    assert host is not None
    return value_of(case, rule, what, host)


def devices_fit(case: Case, host: int, rule: str, *, in_order: bool = False) -> bool:
    """Tell whether a host has the cells and devices, by an exhaustive model.

    Args:
        case: the case.
        host: the index of the host.
        rule: the filter: that of devices ignores the cells.
        in_order: whether devices are taken alias by alias, as in Nova.
    """
    record, needs = case.snapshot.hosts[host], case.request.needs
    aliases = aliases_of(tuple(cast("Sequence[Mapping[str, str]]", case.settings["pci.alias"])))
    used = [
        one.assignment
        for one in case.snapshot.instances
        if one.assignment is not None and (one.host, one.node) == (record.name, record.node)
    ]
    root = next((one for one in case.snapshot.providers if one.uuid == record.uuid), None)
    ratios = [
        root.inventories[name].allocation_ratio if root and name in root.inventories else math.inf
        for name in (VCPU, MEMORY_MB)
    ]
    topology = None if rule == "PciPassthroughFilter" else needs.topology
    by_name = {alias.name: alias for alias in aliases}
    place = Place(record, used, *ratios)
    return fits(place, topology, needs.devices, by_name, in_order=in_order)
