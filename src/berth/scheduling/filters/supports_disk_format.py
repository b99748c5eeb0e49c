"""ImageTypeSupportFilter: the host can run images of this disk format.

Nova's pre-filter `require_image_type_support` (nova-behaviour.md 2.8): the image property
`disk_format`
demands the trait COMPUTE_IMAGE_TYPE_<FORMAT>.
"""

from collections.abc import Mapping
from dataclasses import replace

from berth.scheduling.rules.demanded_traits import image_properties, said, trait_filter, trait_of
from berth.scheduling.rules.rule import Filter, Query

NAME = "ImageTypeSupportFilter"
_FORMAT = "disk_format"


def build(*, query_placement_for_image_type_support: bool = True) -> Filter:
    """Make the filter.

    Args:
        query_placement_for_image_type_support: False switches it off.
    """

    def demands(query: Query) -> Mapping[str, str]:
        value = image_properties(query).get(_FORMAT, "")
        if not value or not query_placement_for_image_type_support:
            return {}
        return {trait_of("COMPUTE_IMAGE_TYPE", value): said(_FORMAT, value)}

    rule = trait_filter(NAME, demands, request=("image.properties",))
    switch = query_placement_for_image_type_support
    return replace(rule, options={"query_placement_for_image_type_support": switch})
