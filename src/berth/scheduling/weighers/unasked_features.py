"""UnaskedFeaturesWeigher: the special features of a host that the request does not ask for.

Each of these is a feature: a trait that the operator defined (`CUSTOM_…`), a class of devices with
free capacity, and free PCI devices. A host with GPUs has more features than one without. With a
multiplier below 0, instances that need no GPU therefore avoid such a host as long as they can, and
the few hosts with rare features stay free for requests that need them. A feature that all hosts
have does not change the ranking.

The share is features / `many`, at most 1.
"""

from functools import partial
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from berth.domain.compute.needs import Needs
from berth.scheduling.rules.measure import (
    Arithmetic,
    BoundMeasure,
    Computed,
    MeasuredColumn,
    Rule,
    Value,
)
from berth.scheduling.rules.row_values import Matrix, row_values
from berth.scheduling.rules.rule import Query, Reads, Weigher
from berth.scheduling.rules.whole_hosts import COMMON_CLASSES, asked_of, rebound, whole_hosts
from berth.tables.columnar.bitsets import Selection
from berth.tables.host.hosts import HostTable

NAME = "UnaskedFeaturesWeigher"
_MANY_MAX: Final = 1_000
_NEEDS_READ: Final = ("amounts", "devices", "groups", "traits_any", "traits_required")


def build(
    *,
    multiplier: float = -1.0,
    many: int = 8,
    trait_prefixes: tuple[str, ...] = ("CUSTOM_",),
    common_classes: tuple[str, ...] = COMMON_CLASSES,
) -> Weigher:
    """Build the weigher, which Nova does not have.

    Args:
        multiplier: below 0 reserves special hosts for requests that need their features.
        many: the number of features at which the share reaches 1.
        trait_prefixes: a trait that begins with one of these is a feature.
        common_classes: resource classes that are not features.

    Raises:
        ValueError: `many` is not between 1 and 1,000.
    """
    if not 1 <= many <= _MANY_MAX:
        raise ValueError(f"many: {many} must be between 1 and 1,000")
    rule = _counting(trait_prefixes, frozenset(common_classes))
    return Weigher(
        name=NAME,
        raw=rule,
        reads=Reads(
            request=tuple(f"needs.{field}" for field in _NEEDS_READ),
            columns=("host", "traits", "used", "instances"),
        ),
        multiplier=multiplier,
        floor=0.0,
        multiplier_key="unasked_features_weight_multiplier",
        share=rule.then(lambda ops, count: ops.least(count / many, 1.0)),
    )


def _counting(trait_prefixes: tuple[str, ...], common: frozenset[str]) -> Rule:
    """Return the rule that counts the features that a request does not ask for."""
    key = f"{NAME} {' '.join(trait_prefixes)}"
    features = partial(_special_traits, trait_prefixes)

    def bind(hosts: HostTable, query: Query) -> BoundMeasure:
        asked = asked_of(query.needs)
        traits = [
            Computed(partial(hosts.traits.has, name))
            for name in _traits_asked(query.needs)
            if name.startswith(trait_prefixes)
        ]
        classes = [
            one
            for name, one in whole_hosts(hosts).items()
            if name not in common and name not in asked
        ]
        devices = [Computed(hosts.pci.free)] if hosts.pci.kinds and not query.needs.devices else []

        def count(ops: Arithmetic, special: Value, *values: Value) -> Value:
            total = special
            for has in values[: len(traits)]:
                total = total - has
            wholes = values[len(traits) : len(traits) + 2 * len(classes)]
            for capacity, used in zip(wholes[::2], wholes[1::2], strict=True):
                total = total + (capacity > used)
            for free in values[len(traits) + len(wholes) :]:
                total = total + (free > 0)
            return total

        columns: list[MeasuredColumn] = [_specials(hosts, key, features), *traits]
        columns += [column for one in classes for column in one]
        return BoundMeasure([*columns, *devices], count)

    return Rule(rebound(bind))


def _specials(hosts: HostTable, key: str, features: "partial[Matrix]") -> Computed:
    """Return the column of special traits, whose counts are kept until a row's traits change."""

    def kept() -> Matrix:
        # A new trait may be special, so the number of trait names is the stamp.
        return row_values(hosts, key, "traits", features, stamp=len(hosts.traits.names))

    def of(rows: Selection) -> NDArray[Any]:
        # The values are copied, because the kept ones must not be written to.
        return kept()[0, rows].copy()

    return Computed(of, lambda row: kept().item(0, row))


def _special_traits(prefixes: tuple[str, ...], hosts: HostTable, rows: Selection) -> Matrix:
    """Return, for each row, the number of traits that begin with one of the prefixes: (1, K)."""
    special = (name for name in hosts.traits.names if name.startswith(prefixes))
    counts = hosts.traits.count_among(hosts.traits.words_of(special), rows)
    return counts.astype(np.float64).reshape(1, -1)


def _traits_asked(needs: Needs) -> frozenset[str]:
    groups = (group.traits_required for group in needs.groups)
    return needs.traits_required.union(*needs.traits_any, *groups)
