"""NumInstancesFilter: the host has fewer instances than the limit."""

from berth.scheduling.rules.ceilings import INSTANCES, ceiling_filter
from berth.scheduling.rules.rule import Filter

NAME = "NumInstancesFilter"


def build(*, max_instances_per_host: int = 50) -> Filter:
    """Make the filter (nova-behaviour.md 2.6).

    Args:
        max_instances_per_host: instances that a host may have.

    Raises:
        ValueError: it is below 1.
    """
    return ceiling_filter(NAME, INSTANCES, max_instances_per_host)
