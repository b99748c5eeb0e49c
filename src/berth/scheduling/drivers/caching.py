"""The caching scheduler: decisions from memory, as every driver of Berth makes them.

Nova's caching scheduler read all hosts once a minute, consumed them in memory and claimed nothing
until the next reading, so that two of them drifted apart (nova-behaviour.md 2.5). What was good
about it is
how Berth works anyway: decisions never ask a database, and a replica follows the ledger. What was
bad about it is not there: every claim commits before it is answered. So the name is a synonym of
the filter scheduler, for configurations that have it.
"""

from berth.scheduling.drivers.filter_scheduler import FilterScheduler


def build(*, incremental: bool = True) -> FilterScheduler:
    """Make the driver.

    Args:
        incremental: see the filter scheduler.
    """
    return FilterScheduler(name="caching", incremental=incremental)
