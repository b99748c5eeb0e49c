"""UnaskedFeaturesWeigher: what is special about a host that the request does not ask for.

Special are traits that the operator made (`CUSTOM_…`), classes of devices of which some are free,
and free PCI devices. A host without GPUs has less of that than one with some, so with a multiplier
below 0 instances that need no GPU go elsewhere as long as they can, and the few hosts that have
something rare stay free for those who ask for it. What all hosts have counts the same for all of
them and changes nothing.

Its share is features / `many`, at most 1.
"""

from typing import cast

import numpy as np

from berth.domain.flavor import Needs
from berth.scheduling.rule import Query, Reads, Scores, Weigher
from berth.scheduling.whole_hosts import COMMON_CLASSES, WholeHosts, asked_of
from berth.tables.bitsets import Selection
from berth.tables.hosts import HostTable

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
    common = frozenset(common_classes)

    def raw(hosts: HostTable, query: Query, rows: Selection) -> Scores | None:
        words = _features(hosts, trait_prefixes)
        asked = hosts.traits.words_of(_traits_asked(query.needs))
        unasked = [word & ~own for word, own in zip(words, asked, strict=True)]
        counts = hosts.traits.count_among(unasked, rows)
        ordinary = common | asked_of(query.needs).keys()
        table = WholeHosts(hosts, rows)
        for name in table.classes:
            if name not in ordinary:
                counts += table.of(name).free > 0
        if not query.needs.devices:
            counts += hosts.pci.free(rows) > 0
        return counts.astype(np.float64)

    def share(hosts: HostTable, query: Query, rows: Selection) -> Scores | None:
        counts = raw(hosts, query, rows)
        return None if counts is None else np.minimum(counts / many, 1.0)

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
    )


def _features(hosts: HostTable, prefixes: tuple[str, ...]) -> list[int]:
    """Return the set of all traits that are features, worked out once for so many names."""
    key = f"{NAME}: {' '.join(prefixes)}"
    kept = cast("tuple[int, list[int]] | None", hosts.caches.get(key))
    names = hosts.traits.names
    if kept is None or kept[0] != len(names):
        words = hosts.traits.words_of(name for name in names if name.startswith(prefixes))
        kept = hosts.caches[key] = (len(names), words)
    return kept[1]


def _traits_asked(needs: Needs) -> frozenset[str]:
    groups = (group.traits_required for group in needs.groups)
    return needs.traits_required.union(*needs.traits_any, *groups)
