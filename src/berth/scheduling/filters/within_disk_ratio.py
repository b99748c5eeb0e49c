"""DiskFilter: what the flavor asks of disk fits under the host's allocation ratio."""

from berth.scheduling.overcommit import overcommit_filter
from berth.scheduling.quantities import DISK
from berth.scheduling.rule import Filter

NAME = "DiskFilter"


def build() -> Filter:
    """Make the filter; it has no options (nova.md 2.6)."""
    return overcommit_filter(NAME, DISK)
