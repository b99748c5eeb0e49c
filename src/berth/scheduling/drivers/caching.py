"""The caching scheduler: a synonym of the filter scheduler, for existing configurations.

Nova's caching scheduler read all hosts once a minute and placed instances in memory without claims,
so two of them drifted apart (nova-behaviour.md 2.5). Every driver of Berth decides from memory
as well, but on a replica that follows the ledger, and every claim is committed before the response.
"""

from berth.scheduling.drivers.filter_scheduler import FilterScheduler


def build(*, incremental: bool = True) -> FilterScheduler:
    """Build the driver.

    Args:
        incremental: see `filter_scheduler.build`.
    """
    return FilterScheduler(name="caching", incremental=incremental)
