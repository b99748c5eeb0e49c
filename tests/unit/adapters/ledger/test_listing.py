"""Which instances a snapshot holds."""

from dataclasses import replace

import pytest

from berth.adapters.ledger.engine.listing import is_live
from berth.domain.compute.instance import Status, Task
from berth.testing.builders import make_instance


@pytest.mark.parametrize(
    ("status", "task", "expected"),
    [
        (Status.BUILD, Task.SCHEDULING, True),
        (Status.SHELVED_OFFLOADED, Task.UNSHELVING, True),
        (Status.SHELVED_OFFLOADED, None, False),
        (Status.ERROR, None, False),
        (Status.DELETED, None, False),
        (Status("HIBERNATED"), None, True),
        (Status.SHELVED_OFFLOADED, Task("hibernating"), True),
    ],
)
def test_what_is_on_no_host_is_held_while_it_waits(
    *, status: Status, task: Task | None, expected: bool
) -> None:
    """And when only a newer Berth can tell: one that this one writes must not be lost to that."""
    assert is_live(replace(make_instance(1), host=None, status=status, task=task)) is expected
