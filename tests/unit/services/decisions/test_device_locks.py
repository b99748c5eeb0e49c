"""Tests for the guards and locks of hosts on which cells or devices are chosen."""

import asyncio
from collections.abc import Sequence

from berth.domain.compute.decision import Placement, ScoredHost
from berth.domain.hardware.assignment import Assignment, CellShare, DeviceShare
from berth.domain.ledger.write import Guard
from berth.services.decisions.device_locks import DeviceLocks, hardware_guard, hosts_with_choices


def placement(host: str, assignment: Assignment | None = None) -> Placement:
    """Return the placement of an instance on a host."""
    chosen = ScoredHost.of(host, host, 0.0, ())
    return Placement("i", host, host, host, 1, chosen, assignment=assignment)


CELLS = Assignment(numa=(CellShare(0, 1),))
DEVICES = Assignment(devices=(DeviceShare("p", 1),))


async def seen(turns: DeviceLocks, table_version: int, *hosts: str) -> list[Guard]:
    """Return the guards of a decision that chose cells on some hosts."""
    chosen = [placement(host, CELLS) for host in hosts]
    async with turns.guards(chosen, table_version) as guards:
        return guards


def test_hosts_of_which_something_was_chosen() -> None:
    """Only hosts with chosen cells or devices are returned, sorted and without repetition."""
    every: Sequence[Placement] = [
        placement("b", DEVICES),
        placement("a", CELLS),
        placement("a", CELLS),
        placement("c"),
        placement("d", Assignment(root={"VCPU": 1})),
    ]
    assert hosts_with_choices(every) == ["a", "b"]


async def test_a_decision_has_seen_what_its_table_held() -> None:
    """A decision has a guard for each host at the version of its table."""
    assert await seen(DeviceLocks(), 7, "b", "a") == [
        Guard(hardware_guard("a"), 7),
        Guard(hardware_guard("b"), 7),
    ]
    assert await seen(DeviceLocks(), 7) == []


async def test_and_what_its_process_has_committed_since() -> None:
    """A guard advances over the process's own commits if no other commit lies between."""
    turns = DeviceLocks()
    turns.note([Guard(hardware_guard("a"), 7)], 9)
    turns.note([Guard(hardware_guard("a"), 9)], 12)
    assert await seen(turns, 7, "a") == [Guard(hardware_guard("a"), 12)]
    assert await seen(turns, 8, "a") == [Guard(hardware_guard("a"), 12)]
    assert await seen(turns, 13, "a") == [Guard(hardware_guard("a"), 13)]
    assert await seen(turns, 6, "a") == [Guard(hardware_guard("a"), 6)]
    assert await seen(turns, 7, "b") == [Guard(hardware_guard("b"), 7)]
    turns.note([Guard(hardware_guard("a"), 20)], 22)
    assert await seen(turns, 12, "a") == [Guard(hardware_guard("a"), 12)]


async def test_only_so_much_is_remembered() -> None:
    """The number of remembered commits is limited."""
    turns = DeviceLocks()
    for number in range(5_000):
        turns.note([Guard(hardware_guard(str(number)), 1)], 2)
    assert len(turns._own) == 4096
    assert await seen(turns, 1, "0") == [Guard(hardware_guard("0"), 1)]
    for version in range(100):
        turns.note([Guard(hardware_guard("a"), version)], version + 1)
    assert await seen(turns, 0, "a") == [Guard(hardware_guard("a"), 0)]
    assert await seen(turns, 99, "a") == [Guard(hardware_guard("a"), 100)]


async def test_placements_on_one_host_wait_for_each_other() -> None:
    """Placements on the same host wait for each other without deadlocks; others do not wait."""
    turns = DeviceLocks()
    done: list[str] = []

    async def commit(name: str, *hosts: str) -> None:
        async with turns.guards([placement(host, CELLS) for host in hosts], 1):
            await asyncio.sleep(0)
            done.append(name)

    async with turns.guards([placement("a", CELLS)], 1):
        waiting = [
            asyncio.create_task(commit("a, b", "a", "b")),
            asyncio.create_task(commit("b, a", "b", "a")),
        ]
        await commit("c", "c")
        assert done == ["c"]
    await asyncio.wait_for(asyncio.gather(*waiting), 1)
    assert sorted(done) == ["a, b", "b, a", "c"]
    assert len(turns._locks) == 0
