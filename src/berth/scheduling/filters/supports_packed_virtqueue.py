"""PackedVirtqueueFilter: the host has packed virtqueues, when flavor or image ask for them.

Nova's pre-filter `packed_virtqueue_filter` (nova-behaviour.md 2.8).
"""

from collections.abc import Mapping

from berth.scheduling.rules.demanded_traits import is_asked_by_either, trait_filter
from berth.scheduling.rules.rule import Filter, Query

NAME = "PackedVirtqueueFilter"
_TRAIT = "COMPUTE_NET_VIRTIO_PACKED"


def build() -> Filter:
    """Make the filter; it has no options."""
    return trait_filter(NAME, _demands, request=("flavor.extra_specs", "image.properties"))


def _demands(query: Query) -> Mapping[str, str]:
    asked, source = is_asked_by_either(query, "virtio_packed_ring")
    return {_TRAIT: source} if asked else {}
