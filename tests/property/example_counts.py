"""How many examples a property test tries, compared with the others.

A number instead of a share would hold in `make fuzz` as well.
"""

from hypothesis import settings


def share(of_all: float) -> settings:
    """Return settings for a share of the examples that the profile sets; it may exceed 1."""
    return settings(max_examples=max(1, round(settings().max_examples * of_all)))


few = share(0.4)
"""For tests that find faults in the code that they are about with two fifths of the examples.

Their examples are whole clouds, which take long to make. Tests about searches need all of them.
"""

few_stores = share(0.2)
"""Likewise, for tests that open ledgers on disks or servers for each example."""

many = share(2)
"""For tests whose examples are short histories of things that happen at once."""
