"""Slots are passed on in turns."""

import asyncio

from berth.api.auth.fair_slots import FairSlots


class Run:
    """Tasks that take slots, and the order in which they got one."""

    def __init__(self, slots: int) -> None:
        self.slots = FairSlots(slots)
        self.order: list[str] = []

    async def begin(self, *names: str) -> list[asyncio.Task[None]]:
        """Start a task for each name; the address is the first letter."""
        tasks = [asyncio.create_task(self._take(name)) for name in names]
        await asyncio.sleep(0)
        return tasks

    async def _take(self, name: str) -> None:
        await self.slots.acquire(name[0])
        self.order.append(name)

    async def release(self, times: int) -> None:
        """Release slots, one after another."""
        for _ in range(times):
            self.slots.release()
            await asyncio.sleep(0)


async def test_addresses_take_turns() -> None:
    """Each address gets one slot per round, and its own tasks keep their order."""
    run = Run(1)
    tasks = await run.begin("a1", "a2", "a3", "a4", "b1", "c1", "b2")
    await run.release(7)
    assert run.order == ["a1", "a2", "b1", "c1", "a3", "b2", "a4"]
    await asyncio.gather(*tasks)


async def test_a_cancelled_task_neither_keeps_nor_loses_a_slot() -> None:
    """A task may be cancelled while it waits, and at the moment at which it gets its slot."""
    run = Run(1)
    _, waiting, chosen, last = await run.begin("a1", "a2", "b1", "c1")
    waiting.cancel()
    await asyncio.sleep(0)
    run.slots.release()
    chosen.cancel()
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    assert (run.order, last.done()) == (["a1", "c1"], True)
    await run.release(1)
    assert (await run.begin("d1", "d2"))[1].done() is False
    assert run.order == ["a1", "c1", "d1"]
    await run.release(1)


async def test_a_slot_is_not_passed_on_to_a_task_that_is_being_cancelled() -> None:
    """A release right after a cancellation, before the task has left, reaches the next task."""
    run = Run(1)
    _, cancelled, last = await run.begin("a1", "b1", "c1")
    cancelled.cancel()
    run.slots.release()
    await asyncio.gather(last)
    assert (run.order, cancelled.cancelled()) == (["a1", "c1"], True)
    await run.release(1)
    assert (await run.begin("d1"))[0].done()
