"""Shrinking: a difference is reported with the smallest part of its case that still differs."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from typing import TypeVar

from berth.domain.compute.flavor import Image
from berth.domain.compute.request import Request
from berth.domain.ledger.change import Snapshot
from tests.differential.cases import Case

T = TypeVar("T")

# Providers are kept, because a host without one has no allocation ratios, another difference.
_COLLECTIONS = ("hosts", "services", "aggregates", "instances")


def shrink(case: Case, differs: Callable[[Case], bool]) -> Case:
    """Return the smallest case, found by removing parts one at a time, that still differs.

    Args:
        case: a case that differs.
        differs: tells whether both sides differ about a case.
    """
    while (smaller := next((one for one in _smaller(case) if differs(one)), None)) is not None:
        case = smaller
    return case


def _smaller(case: Case) -> Iterator[Case]:
    for snapshot in _smaller_fleets(case.snapshot):
        smaller = replace(case, snapshot=snapshot)
        yield replace(smaller, weighed=smaller.served)
    for request in _smaller_requests(case.request):
        yield replace(case, request=request)
    filters, weighers = case.order
    for fewer in _without_one(filters):
        yield replace(case, order=(fewer, weighers))
    for fewer in _without_one(weighers):
        yield replace(case, order=(filters, fewer))
    if len(case.filters) > 1 or len(case.weighers) > 1:
        for pair in case.filters:
            yield replace(case, filters=(pair,), weighers=())
        for pair in case.weighers:
            yield replace(case, filters=(), weighers=(pair,))


def _smaller_fleets(snapshot: Snapshot) -> Iterator[Snapshot]:
    for name in _COLLECTIONS:
        for fewer in _without_one(getattr(snapshot, name)):
            yield replace(snapshot, **{name: fewer})  # type: ignore[arg-type]
    for number, aggregate in enumerate(snapshot.aggregates):
        for metadata in _without_key(aggregate.metadata):
            less = replace(aggregate, metadata=metadata)
            yield replace(snapshot, aggregates=_with(snapshot.aggregates, number, less))
    for number, instance in enumerate(snapshot.instances):
        for image in _smaller_images(instance.image):
            less_of_it = replace(instance, image=image)
            yield replace(snapshot, instances=_with(snapshot.instances, number, less_of_it))


def _smaller_requests(request: Request) -> Iterator[Request]:
    if len(request.instance_uuids) > 1:
        yield replace(request, instance_uuids=request.instance_uuids[:-1])
    for specs in _without_key(request.flavor.extra_specs):
        yield replace(request, flavor=replace(request.flavor, extra_specs=specs))
    for hints in _without_key(request.hints):
        yield replace(request, hints=hints)
    for image in _smaller_images(request.image):
        yield replace(request, image=image)
    emptied: Mapping[str, object] = {
        "group_uuid": None,
        "destination": None,
        "ignore_hosts": (),
        "force_hosts": (),
        "force_nodes": (),
        "source_cell": "",
    }
    for name, nothing in emptied.items():
        if getattr(request, name) != nothing:
            yield replace(request, **{name: nothing})  # type: ignore[arg-type]


def _smaller_images(image: Image | None) -> Iterator[Image | None]:
    if image is not None:
        yield None
        for properties in _without_key(image.properties):
            yield replace(image, properties=properties)


def _without_one(items: tuple[T, ...]) -> Iterator[tuple[T, ...]]:
    for number in range(len(items)):
        yield items[:number] + items[number + 1 :]


def _without_key(items: Mapping[str, T]) -> Iterator[dict[str, T]]:
    for key in items:
        yield {other: value for other, value in items.items() if other != key}


def _with(items: tuple[T, ...], number: int, item: T) -> tuple[T, ...]:
    return (*items[:number], item, *items[number + 1 :])
