"""ExactDiskFilter: what the flavor asks of disk is exactly what the host has free."""

from berth.scheduling.rules.exactness import exact_filter
from berth.scheduling.rules.quantities import DISK
from berth.scheduling.rules.rule import Filter

NAME = "ExactDiskFilter"


def build() -> Filter:
    """Make the filter; it has no options (nova-behaviour.md 2.6)."""
    return exact_filter(NAME, DISK)
