"""Filters that turn what a flavor or an image says into traits that a host must have.

They do what Nova's request pre-filters do before Placement is asked (nova-behaviour.md 2.8): a
property
such as `hw_disk_bus=virtio` demands the trait COMPUTE_STORAGE_BUS_VIRTIO, named as in os-traits.
"""

from collections.abc import Callable, Mapping, Sequence

import numpy as np

from berth.domain.compute.decision import Relaxation
from berth.domain.errors import InvalidInputError
from berth.scheduling.rules.rule import Filter, Query, Reads, without
from berth.tables.columnar.bitsets import Mask, Rows, Selection, count_of
from berth.tables.host.hosts import HostTable

Demands = Callable[[Query], Mapping[str, str]]
"""(query) -> traits that a host must have, each with what demands it (`hw_disk_bus=virtio`)."""

_TRUE = frozenset({"1", "t", "true", "on", "y", "yes"})
_SHOWN_MAX = 80


def trait_filter(name: str, demands: Demands, *, request: tuple[str, ...]) -> Filter:
    """Make a filter that keeps hosts with every trait that is demanded.

    Args:
        name: of the filter.
        demands: what is demanded by a query; nothing when the filter does not concern it.
        request: what `demands` reads, as in `Reads`.
    """

    def keep(hosts: HostTable, query: Query, rows: Selection) -> Mask | None:
        traits = demands(query)
        if not traits:
            return None
        kept = np.ones(count_of(rows), dtype=np.bool_)
        for trait in traits:
            kept &= hosts.traits.has(trait, rows)
        return kept

    def why(hosts: HostTable, query: Query, row: int) -> str:
        mine = hosts.traits.get(row)
        asked = ((one, source) for one, source in demands(query).items() if one not in mine)
        return "; ".join(f"it lacks {trait}, which {source} demands" for trait, source in asked)

    def relax(hosts: HostTable, query: Query, rows: Rows) -> Sequence[Relaxation]:
        traits = demands(query)
        lacking = {trait: ~hosts.traits.has(trait, rows) for trait in traits}
        failed = np.sum(list(lacking.values()), axis=0)
        found: list[Relaxation] = []
        for trait, lacks in lacking.items():
            winners = rows[lacks & (failed == 1)]
            found.extend(without(name, traits[trait], traits[trait], hosts, winners))
        return found

    return Filter(
        name=name,
        keep=keep,
        why=why,
        relax=relax,
        reads=Reads(request=request, columns=("traits",)),
        once_per_request=True,
    )


def image_properties(query: Query) -> Mapping[str, str]:
    """Return the properties of the image; none without one."""
    image = query.request.image
    return {} if image is None else image.properties


def said(key: str, value: str) -> str:
    """Write a property in words, cut when it is long."""
    return f"{key}={value[:_SHOWN_MAX]}"


def trait_of(prefix: str, value: str) -> str:
    """Name the trait of a value as os-traits does: `ne2k-pci` is NE2K_PCI."""
    return f"{prefix}_{value.replace('-', '_').upper()}"


def asked_by_both(query: Query, key: str) -> tuple[str, str]:
    """Return what flavor and image say of a key, and who says it: `hw:KEY=x and hw_KEY=x`.

    Args:
        query: whose flavor and image.
        key: without its prefix (`sound_model`).

    Returns:
        The value, empty for none, and those who say so, in words.

    Raises:
        InvalidInputError: the two say different things.
    """
    said_by = _said_by(query, key)
    values = {value for _, value in said_by if value}
    if len(values) > 1:
        raise _conflict(said_by)
    sources = [said(name, value) for name, value in said_by if value]
    return next(iter(values), ""), " and ".join(sources)


def is_asked_by_either(query: Query, key: str) -> tuple[bool, str]:
    """Return whether flavor or image ask for something, and who does; see `asked_by_both`.

    Raises:
        InvalidInputError: one says yes and the other says no.
    """
    said_by = _said_by(query, key)
    answers = {_is_true(value) for _, value in said_by}
    if len(answers) > 1:
        raise _conflict(said_by)
    return answers == {True}, " and ".join(said(name, value) for name, value in said_by)


def _said_by(query: Query, key: str) -> list[tuple[str, str]]:
    """Return the extra spec and the image property of a key, those that are there."""
    both = (
        (f"hw:{key}", query.request.flavor.extra_specs.get(f"hw:{key}")),
        (f"hw_{key}", image_properties(query).get(f"hw_{key}")),
    )
    return [(name, value) for name, value in both if value is not None]


def _is_true(text: str) -> bool:
    return text.strip().lower() in _TRUE


def _conflict(said_by: Sequence[tuple[str, str]]) -> InvalidInputError:
    (spec, by_flavor), (name, by_image) = said_by
    return InvalidInputError(
        f"flavor.extra_specs.{spec}",
        f"is {by_flavor[:_SHOWN_MAX]!r}, but the image has {said(name, by_image)}; "
        "make them equal, or leave one out",
    )
