"""RamFilter: what the flavor asks of memory fits under the host's allocation ratio."""

from berth.scheduling.rules.overcommit import overcommit_filter
from berth.scheduling.rules.quantities import MEMORY
from berth.scheduling.rules.rule import Filter

NAME = "RamFilter"


def build() -> Filter:
    """Make the filter; it has no options (nova-behaviour.md 2.6)."""
    return overcommit_filter(NAME, MEMORY)
