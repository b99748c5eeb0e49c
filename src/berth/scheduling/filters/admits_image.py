"""AggregateImagePropertiesIsolation: the host's aggregates are kept for no other kind of image.

When the image has a property of the name of a metadata key, the key must list its value on the
host's aggregates; images without that property, or with an empty one, are admitted. In Nova only
properties that it knows count since Liberty; here all do, as the name of a key says which
property it is about whoever defined it.
"""

from collections.abc import Iterator, Sequence

import numpy as np

from berth.domain.compute.decision import Relaxation
from berth.scheduling.rules.admission import admits, listed
from berth.scheduling.rules.rule import Filter, Query, Reads, without
from berth.tables.columnar.bitsets import Mask, Rows, Selection, count_of
from berth.tables.host.hosts import HostTable

NAME = "AggregateImagePropertiesIsolation"


def build(
    *,
    aggregate_image_properties_isolation_namespace: str = "",
    aggregate_image_properties_isolation_separator: str = ".",
) -> Filter:
    """Make the filter (nova-behaviour.md 2.6).

    Args:
        aggregate_image_properties_isolation_namespace: with it, only keys count that begin with
            it and the separator; property and key have the whole name all the same.
        aggregate_image_properties_isolation_separator: what follows the namespace.
    """
    namespace = aggregate_image_properties_isolation_namespace
    separator = aggregate_image_properties_isolation_separator
    law = _Isolation(prefix=namespace + separator if namespace else "")
    return Filter(
        name=NAME,
        keep=law.keep,
        why=law.why,
        relax=law.relax,
        reads=Reads(request=("image.properties",), columns=("aggregates",)),
        once_per_request=True,
        run_on_rebuild=True,
    )


class _Isolation:
    """The rule for keys with one prefix."""

    def __init__(self, prefix: str) -> None:
        self._prefix = prefix

    def keep(self, hosts: HostTable, query: Query, rows: Selection) -> Mask | None:
        if not self._properties(query):
            return None
        kept = np.ones(count_of(rows), dtype=np.bool_)
        for _, admitted in self._verdicts(hosts, query, rows):
            kept &= admitted
        return kept

    def why(self, hosts: HostTable, query: Query, row: int) -> str:
        properties = self._properties(query)
        unmet = [
            f"{key} {listed(hosts, [key], row)}, and the image has {properties[key]}"
            for key, admitted in self._verdicts(hosts, query, np.array([row]))
            if not admitted[0]
        ]
        return f"it is kept for images with {'; '.join(unmet)}"

    def relax(self, hosts: HostTable, query: Query, rows: Rows) -> Sequence[Relaxation]:
        verdicts = list(self._verdicts(hosts, query, rows))
        failed = np.sum([~admitted for _, admitted in verdicts], axis=0)
        found: list[Relaxation] = []
        for key, admitted in verdicts:
            winners = rows[~admitted & (failed == 1)]
            found.extend(without(NAME, key, f"the image property {key}", hosts, winners))
        return found

    def _properties(self, query: Query) -> dict[str, str]:
        """Return the image's properties that keys may be about."""
        image = query.request.image
        if image is None:
            return {}
        properties = image.properties.items()
        return {key: value for key, value in properties if value and key.startswith(self._prefix)}

    def _verdicts(
        self, hosts: HostTable, query: Query, rows: Selection
    ) -> Iterator[tuple[str, Mask]]:
        for key, value in self._properties(query).items():
            if hosts.memberships.with_key(key):
                yield key, admits(hosts, [key], value, rows)
