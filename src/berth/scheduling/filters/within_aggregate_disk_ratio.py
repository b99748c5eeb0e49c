"""AggregateDiskFilter: what the flavor asks of disk fits under the ratio of the host's aggregates.

The ratio is the least disk_allocation_ratio in the metadata of the host's aggregates, or the
host's own when there is none.
"""

from berth.scheduling.rules.overcommit import overcommit_filter
from berth.scheduling.rules.quantities import DISK
from berth.scheduling.rules.rule import Filter

NAME = "AggregateDiskFilter"


def build() -> Filter:
    """Make the filter; it has no options (nova-behaviour.md 2.6)."""
    return overcommit_filter(NAME, DISK, by_aggregate=True)
