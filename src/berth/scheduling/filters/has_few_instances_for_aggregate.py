"""AggregateNumInstancesFilter: the host has fewer instances than its aggregates allow.

The limit is the least max_instances_per_host in the metadata of the host's aggregates, or the
option when there is none.
"""

from berth.scheduling.rules.ceilings import INSTANCES, ceiling_filter
from berth.scheduling.rules.rule import Filter

NAME = "AggregateNumInstancesFilter"


def build(*, max_instances_per_host: int = 50) -> Filter:
    """Make the filter (nova-behaviour.md 2.6).

    Args:
        max_instances_per_host: instances that a host may have that no
            aggregate says otherwise of.

    Raises:
        ValueError: it is below 1.
    """
    return ceiling_filter(NAME, INSTANCES, max_instances_per_host, by_aggregate=True)
