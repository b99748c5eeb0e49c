"""DiskFilter: what the flavor asks of disk fits under the host's allocation ratio."""

from berth.scheduling.rules.overcommit import overcommit_filter
from berth.scheduling.rules.quantities import DISK
from berth.scheduling.rules.rule import Filter

NAME = "DiskFilter"


def build() -> Filter:
    """Make the filter; it has no options (nova-behaviour.md 2.6)."""
    return overcommit_filter(NAME, DISK)
