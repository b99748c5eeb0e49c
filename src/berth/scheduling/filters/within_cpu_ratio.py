"""CoreFilter: what the flavor asks of CPUs fits under the host's allocation ratio."""

from berth.scheduling.rules.overcommit import overcommit_filter
from berth.scheduling.rules.quantities import CPUS
from berth.scheduling.rules.rule import Filter

NAME = "CoreFilter"


def build() -> Filter:
    """Make the filter; it has no options (nova-behaviour.md 2.6)."""
    return overcommit_filter(NAME, CPUS)
