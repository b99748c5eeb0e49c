"""ImagePropertiesWeigher: instances on the host whose image is like the one asked for.

Its share is (1 + value / (|value| + 1)) / 2: 1/2 for a host without any such instance, more or
less than that by the signs of the ratios.
"""

from collections.abc import Mapping
from types import MappingProxyType

import numpy as np

from berth.scheduling.rules.rule import Query, Reads, Scores, Weigher
from berth.scheduling.rules.shares import tilted
from berth.tables.columnar.bitsets import Selection, count_of
from berth.tables.host.hosts import HostTable

NAME = "ImagePropertiesWeigher"

_ALL_ALIKE: Mapping[str, float] = MappingProxyType({})


def build(
    *, multiplier: float = 0.0, image_props_weight_setting: Mapping[str, float] = _ALL_ALIKE
) -> Weigher:
    """Make the weigher (nova-behaviour.md 2.7).

    The value is the sum over the image's properties of ratio x instances on the host whose image
    has the same value of it.

    Args:
        multiplier: above 0 packs instances of like images, below 0 spreads them.
        image_props_weight_setting: ratios by property; one that is not named does not count.
            Without any, all properties count alike.
    """
    ratios = dict(image_props_weight_setting)
    names = frozenset(ratios)

    def raw(hosts: HostTable, query: Query, rows: Selection) -> Scores | None:
        image = query.request.image
        asked = {} if image is None else _asked(image.properties, ratios)
        if not asked:
            return None
        images = hosts.occupants.images(names)
        values = np.zeros(count_of(rows), dtype=np.float64)
        for (name, value), ratio in asked.items():
            values += ratio * images.count(name, value, rows)
        return values

    def share(hosts: HostTable, query: Query, rows: Selection) -> Scores | None:
        values = raw(hosts, query, rows)
        return None if values is None else tilted(values, 1.0)

    return Weigher(
        name=NAME,
        raw=raw,
        reads=Reads(request=("image.properties",), columns=("instances",)),
        multiplier=multiplier,
        multiplier_key="image_props_weight_multiplier",
        share=share,
    )


def _asked(
    properties: Mapping[str, str], ratios: Mapping[str, float]
) -> dict[tuple[str, str], float]:
    """Return the ratio of each property and value that counts."""
    if not ratios:
        return dict.fromkeys(properties.items(), 1.0)
    return {item: ratios[item[0]] for item in properties.items() if ratios.get(item[0])}
