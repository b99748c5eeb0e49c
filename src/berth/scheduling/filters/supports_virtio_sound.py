"""VirtioSoundFilter: the host has virtio sound devices, when flavor or image ask for one.

Nova's pre-filter `virtio_sound_filter` (nova-behaviour.md 2.8).
"""

from collections.abc import Mapping

from berth.scheduling.rules.demanded_traits import asked_by_both, trait_filter
from berth.scheduling.rules.rule import Filter, Query

NAME = "VirtioSoundFilter"
_TRAIT = "COMPUTE_SOUND_MODEL_VIRTIO"


def build() -> Filter:
    """Make the filter; it has no options."""
    return trait_filter(NAME, _demands, request=("flavor.extra_specs", "image.properties"))


def _demands(query: Query) -> Mapping[str, str]:
    model, source = asked_by_both(query, "sound_model")
    return {_TRAIT: source} if model == "virtio" else {}
