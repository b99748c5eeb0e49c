"""IoOpsFilter: the host is building fewer instances than the limit."""

from berth.scheduling.rules.ceilings import BUILDS, ceiling_filter
from berth.scheduling.rules.rule import Filter

NAME = "IoOpsFilter"


def build(*, max_io_ops_per_host: int = 8) -> Filter:
    """Make the filter (nova-behaviour.md 2.6).

    Args:
        max_io_ops_per_host: instances that may be built on a host at once.

    Raises:
        ValueError: it is below 0.
    """
    return ceiling_filter(NAME, BUILDS, max_io_ops_per_host)
