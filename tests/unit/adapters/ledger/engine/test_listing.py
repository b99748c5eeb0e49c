"""The choice of instances that a snapshot contains."""

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
def test_an_instance_without_a_host_is_live_while_it_waits(
    *, status: Status, task: Task | None, expected: bool
) -> None:
    """A state that only a newer Berth knows counts as live: the instance must not be lost."""
    assert is_live(replace(make_instance(1), host=None, status=status, task=task)) is expected
