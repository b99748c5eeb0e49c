"""ImagePropertiesWeigher: the instances on the host with an image like the request's.

The share is (1 + value / (|value| + 1)) / 2: 1/2 for a host without such instances, above or below
1/2 for others, depending on the signs of the ratios.
"""

from collections.abc import Mapping
from types import MappingProxyType

import numpy as np

from berth.scheduling.rules.measure import BoundMeasure, Computed, Rule, tilted
from berth.scheduling.rules.rule import Query, Reads, Scores, Weigher
from berth.tables.columnar.bitsets import Selection, count_of
from berth.tables.host.hosts import HostTable

NAME = "ImagePropertiesWeigher"

_ALL_ALIKE: Mapping[str, float] = MappingProxyType({})


def build(
    *, multiplier: float = 0.0, image_props_weight_setting: Mapping[str, float] = _ALL_ALIKE
) -> Weigher:
    """Build the weigher (nova-behaviour.md 2.7).

    For each property of the image, the value adds ratio x the number of instances on the host whose
    image has the same value of the property.

    Args:
        multiplier: above 0 packs instances of similar images, below 0 spreads them.
        image_props_weight_setting: the ratio of each property; other properties are ignored. If
            it is empty, every property has the ratio 1.
    """
    ratios = dict(image_props_weight_setting)
    names = frozenset(ratios)

    def bind(hosts: HostTable, query: Query) -> BoundMeasure | None:
        image = query.request.image
        asked = {} if image is None else _asked(image.properties, ratios)
        if not asked:
            return None

        def value(rows: Selection) -> Scores:
            images = hosts.occupants.images(names)
            values = np.zeros(count_of(rows), dtype=np.float64)
            for (name, text), ratio in asked.items():
                values += ratio * images.count(name, text, rows)
            return values

        return BoundMeasure((Computed(value),))

    def bind_share(hosts: HostTable, query: Query) -> BoundMeasure | None:
        measure = bind(hosts, query)
        if measure is None:
            return None
        return BoundMeasure((Computed(lambda rows: tilted(measure.of_rows(rows), 1.0)),))

    return Weigher(
        name=NAME,
        raw=Rule(bind),
        reads=Reads(request=("image.properties",), columns=("instances",)),
        multiplier=multiplier,
        multiplier_key="image_props_weight_multiplier",
        share=Rule(bind_share),
    )


def _asked(
    properties: Mapping[str, str], ratios: Mapping[str, float]
) -> dict[tuple[str, str], float]:
    """Return the ratio of each (property, value) of the image that has one."""
    if not ratios:
        return dict.fromkeys(properties.items(), 1.0)
    return {item: ratios[item[0]] for item in properties.items() if ratios.get(item[0])}
