"""UnaskedFeaturesWeigher: what is special about a host that the request does not ask for.

Special are traits that the operator made (`CUSTOM_…`), classes of devices of which some are free,
and free PCI devices. A host without GPUs has less of that than one with some, so with a multiplier
below 0 instances that need no GPU go elsewhere as long as they can, and the few hosts that have
something rare stay free for those who ask for it. What all hosts have counts the same for all of
them and changes nothing.

Its share is features / `many`, at most 1.
"""

from functools import partial

import numpy as np

from berth.domain.compute.needs import Needs
from berth.scheduling.rules.row_values import Matrix, row_values
from berth.scheduling.rules.rule import OfOne, Query, Raw, ReadOne, Reads, Scores, Weigher, by_array
from berth.scheduling.rules.whole_hosts import COMMON_CLASSES, WholeHosts, asked_of
from berth.tables.columnar.bitsets import Selection
from berth.tables.host.hosts import HostTable

_MOST = 1_000
NAME = "UnaskedFeaturesWeigher"
_NEEDS_READ = ("amounts", "devices", "groups", "traits_any", "traits_required")


def build(
    *,
    multiplier: float = -1.0,
    many: int = 8,
    trait_prefixes: tuple[str, ...] = ("CUSTOM_",),
    common_classes: tuple[str, ...] = COMMON_CLASSES,
) -> Weigher:
    """Make the weigher; it is Berth's own.

    Args:
        multiplier: below 0 keeps special hosts for those who ask for what they have.
        many: so many features and more have the share 1.
        trait_prefixes: a trait that begins with one of these is a feature.
        common_classes: resource classes that are no feature.

    Raises:
        ValueError: `many` is not 1 to 1,000.
    """
    if not 1 <= many <= _MOST:
        raise ValueError(f"many: {many} must be 1 to 1,000")
    raw, raw_of_one = _counting(trait_prefixes, frozenset(common_classes))

    def share(hosts: HostTable, query: Query, rows: Selection) -> Scores | None:
        counts = raw(hosts, query, rows)
        return None if counts is None else np.minimum(counts / many, 1.0)

    def share_of_one(hosts: HostTable, query: Query) -> ReadOne:
        read = raw_of_one(hosts, query)
        return lambda row: min(read(row) / many, 1.0)

    return Weigher(
        name=NAME,
        raw=raw,
        reads=Reads(
            request=tuple(f"needs.{field}" for field in _NEEDS_READ),
            columns=("host", "traits", "used", "instances"),
        ),
        multiplier=multiplier,
        floor=0.0,
        multiplier_key="unasked_features_weight_multiplier",
        share=share,
        raw_of_one=raw_of_one,
        share_of_one=share_of_one,
    )


def _counting(trait_prefixes: tuple[str, ...], common: frozenset[str]) -> tuple[Raw, OfOne]:
    """Return how features are counted, of many rows and of one."""
    key = f"{NAME} {' '.join(trait_prefixes)}"

    features = partial(_special_traits, trait_prefixes)

    def raw(hosts: HostTable, query: Query, rows: Selection) -> Scores | None:
        stamp = len(hosts.traits.names)
        counts: Scores = row_values(hosts, key, "traits", features, stamp=stamp)[0, rows].copy()
        for name in _traits_asked(query.needs):
            if name.startswith(trait_prefixes):
                counts -= hosts.traits.has(name, rows)
        asked = asked_of(query.needs)
        table = WholeHosts(hosts, rows)
        for name in table.classes:
            if name not in common and name not in asked:
                counts += table.free(name) > 0
        if hosts.pci.kinds and not query.needs.devices:
            counts += hosts.pci.free(rows) > 0
        return counts

    def raw_of_one(hosts: HostTable, query: Query) -> ReadOne:
        if len(hosts.trees) or hosts.pci.kinds or _traits_asked(query.needs):
            return by_array(raw, hosts, query)
        known = common | asked_of(query.needs).keys()
        unasked = [columns for name, columns in hosts.resources() if name not in known]

        def read(row: int) -> float:
            stamp = len(hosts.traits.names)
            count = row_values(hosts, key, "traits", features, stamp=stamp).item(0, row)
            for columns in unasked:
                count += columns.capacity.item(row) > columns.used.item(row)
            return count

        return read

    return raw, raw_of_one


def _special_traits(prefixes: tuple[str, ...], hosts: HostTable, rows: Selection) -> Matrix:
    """Count the traits of rows that begin with one of the prefixes, (1, K)."""
    special = (name for name in hosts.traits.names if name.startswith(prefixes))
    counts = hosts.traits.count_among(hosts.traits.words_of(special), rows)
    return counts.astype(np.float64).reshape(1, -1)


def _traits_asked(needs: Needs) -> frozenset[str]:
    groups = (group.traits_required for group in needs.groups)
    return needs.traits_required.union(*needs.traits_any, *groups)
