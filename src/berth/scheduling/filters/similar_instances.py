"""SimilarInstancesFilter: the host has fewer similar instances than the limit.

Similar instances have the same project as the request, or the same value of another attribute.
"""

from collections.abc import Sequence

import numpy as np

from berth.domain.compute.decision import Relaxation
from berth.scheduling.rules.rule import (
    Filter,
    Query,
    Reads,
    Relax,
    bound_by,
    count_hosts,
    example_names,
    unlimited,
)
from berth.scheduling.rules.similar_instances import Similarity, similarity_of
from berth.tables.columnar.bitsets import Mask, Rows, Selection
from berth.tables.columnar.class_columns import Ints
from berth.tables.host.hosts import HostTable

NAME = "SimilarInstancesFilter"
_LIMIT = "max_similar_instances_per_host"


def build(*, attribute: str = "project", max_similar_instances_per_host: int = 1) -> Filter:
    """Build the filter.

    Args:
        attribute: what similar instances have in common with the request: `project`, `user`,
            `image`, `flavor`, or `metadata.KEY` for a value of metadata within the project.
        max_similar_instances_per_host: the maximum number of similar instances on a host,
            including those of the request.

    Raises:
        ValueError: there is no such attribute, or the limit is below 1.
    """
    limit, similar = max_similar_instances_per_host, similarity_of(attribute)
    if limit < 1:
        raise ValueError(f"{_LIMIT}: {limit} must be at least 1")

    def keep(hosts: HostTable, query: Query, rows: Selection) -> Mask | None:
        counts = similar.bind(hosts, query)
        return None if counts is None else counts.on_rows(rows) < limit

    def why(hosts: HostTable, query: Query, row: int) -> str:
        counts = similar.bind(hosts, query)
        count = 0 if counts is None else counts.on_row(row)
        noun = "instance" if count == 1 else "instances"
        return f"it has {count:,} {noun} {similar.noun}, and {_LIMIT} is {limit:,}"

    def repeats(hosts: HostTable, query: Query, rows: Rows) -> Ints:
        counts = similar.bind(hosts, query)
        if counts is None:
            return unlimited(hosts, query, rows)
        left: Ints = limit - counts.on_rows(rows).astype(np.int64)
        return left

    return Filter(
        name=NAME,
        keep=keep,
        why=why,
        relax=_relax_of(similar, limit),
        reads=Reads(request=similar.reads, columns=("instances",)),
        bound=bound_by(repeats),
        repeats=repeats,
        options={"attribute": attribute, _LIMIT: limit},
    )


def _relax_of(similar: Similarity, limit: int) -> Relax:
    def relax(hosts: HostTable, query: Query, rows: Rows) -> Sequence[Relaxation]:
        counts = similar.bind(hosts, query)
        if counts is None:
            return ()
        # A host passes only below its limit, so the limit must exceed the count.
        raises = counts.on_rows(rows).astype(np.int64) - limit + 1
        least = int(raises.min())
        winners = rows[raises == least]
        return [
            Relaxation(
                filter=NAME,
                subject=_LIMIT,
                text=f"{_LIMIT} raised by {least:,}: {count_hosts(winners.size)}",
                hosts=int(winners.size),
                change=least,
                examples=example_names(hosts, winners),
            )
        ]

    return relax
