"""Writing and reading the audit log."""

import asyncio
from collections.abc import Sequence

import pytest

from berth.adapters.ledger.memory import MemoryLedger
from berth.domain.errors import UnavailableError
from berth.domain.ledger.audit_trail import LOST, PRUNED, AuditEntry, ChainCheck, ChainedEntry
from berth.domain.ledger.write import Outcome, Unit
from berth.services.telemetry.audit_reading import (
    AuditFilter,
    audit_entry,
    audit_head,
    audit_page,
)
from berth.services.telemetry.audit_recorder import AuditRecorder
from berth.testing.virtual_time import VirtualClock, run_virtually
from tests.unit.services.telemetry.test_log_observer import Lines

ALL = AuditFilter()
DAY_S = 86_400.0


class ShakyLedger(MemoryLedger):
    """A ledger that fails as often as it is told to, before or after the commit."""

    before = 0
    after = 0

    async def commit(self, units: Sequence[Unit]) -> list[Outcome]:
        """See `Writer.commit`."""
        if self.before:
            self.before -= 1
            raise UnavailableError("away")
        outcomes = await super().commit(units)
        if self.after:
            self.after -= 1
            raise UnavailableError("the response was lost")
        return outcomes


def recorder(
    ledger: MemoryLedger, *, keep_s: float = 0.0, queue_max: int = 1000, lines: Lines | None = None
) -> AuditRecorder:
    """Return a recorder."""
    telemetry = lines or Lines()
    return AuditRecorder(
        ledger, VirtualClock(), telemetry, process="api@here", keep_s=keep_s, queue_max=queue_max
    )


def entry(name: str, at_ms: int = 0) -> AuditEntry:
    """Return an entry of an operation."""
    return AuditEntry(at_ms or int(VirtualClock().now_s() * 1000), name, user_id=f"u-{name}")


async def stored(ledger: MemoryLedger) -> list[ChainedEntry]:
    """Return all entries, oldest first, after checking the chain."""
    found = (await audit_page(ledger, ALL, limit=10_000, newest_first=False)).entries
    check = ChainCheck()
    for one in found:
        check.add(one.link)
    assert check.faults() == []
    return found


async def names(ledger: MemoryLedger) -> list[str]:
    """Return the operations of all entries, oldest first."""
    return [one.entry.operation for one in await stored(ledger)]


def test_entries_are_appended_in_their_order() -> None:
    """Entries reach the ledger soon, and those of one moment share a block."""

    async def main() -> None:
        ledger = MemoryLedger()
        made = recorder(ledger)
        running = asyncio.create_task(made.run())
        for name in ("a", "b"):
            made.note(entry(name))
        await asyncio.sleep(1)
        made.note(entry("c"))
        await asyncio.sleep(1)
        assert await names(ledger) == ["a", "b", "c"]
        assert [len(block.entries) for block in await ledger.audit_blocks(1, 9)] == [2, 1]
        running.cancel()

    run_virtually(main)


def test_processes_append_to_one_chain() -> None:
    """The entries of several processes form one chain, in which none is lost or doubled."""

    async def main() -> None:
        ledger = MemoryLedger()
        made = [recorder(ledger) for _ in range(3)]
        running = [asyncio.create_task(one.run()) for one in made]
        for number in range(30):
            made[number % 3].note(entry(f"{number:02d}"))
            await asyncio.sleep(0.05 * (number % 4))
        await asyncio.sleep(2)
        assert sorted(await names(ledger)) == [f"{number:02d}" for number in range(30)]
        for task in running:
            task.cancel()

    run_virtually(main)


@pytest.mark.parametrize(("before", "after"), [(1, 0), (0, 1), (2, 1)])
def test_an_outage_neither_loses_nor_doubles_entries(before: int, after: int) -> None:
    """After a failed commit the entries are appended once, whether it took effect or not."""

    async def main() -> None:
        ledger = ShakyLedger()
        made = recorder(ledger)
        made.note(entry("a"))
        made.note(entry("b"))
        ledger.before, ledger.after = before, after
        for _ in range(before + after):
            with pytest.raises(UnavailableError):
                await made.flush()
        await made.flush()
        made.note(entry("c"))
        await made.flush()
        assert await names(ledger) == ["a", "b", "c"]

    run_virtually(main)


class LateLedger(MemoryLedger):
    """A ledger whose first commit loses its connection, and takes effect only at the next one."""

    def __init__(self) -> None:
        super().__init__()
        self.late: list[Unit] | None = None
        self.commits = 0

    async def commit(self, units: Sequence[Unit]) -> list[Outcome]:
        """See `Writer.commit`."""
        self.commits += 1
        if self.commits == 1:
            self.late = list(units)
            raise UnavailableError("the connection was lost")
        late, self.late = self.late, None
        if late is not None:
            await super().commit(late)
        return await super().commit(units)


def test_a_commit_that_takes_effect_late_is_not_repeated() -> None:
    """The server may go on with a commit whose connection is lost; its entries appear once."""

    async def run() -> None:
        ledger = LateLedger()
        writes = recorder(ledger)
        writes.note(entry("first"))
        with pytest.raises(UnavailableError):
            await writes.flush()
        writes.note(entry("second"))
        await writes.flush()
        assert await names(ledger) == ["first", "second"]

    run_virtually(run)


def test_entries_from_the_future_do_not_stop_pruning() -> None:
    """A clock that was ahead made them; they are as old as the entries that follow them."""

    async def run() -> None:
        ledger = MemoryLedger()
        writes = recorder(ledger, keep_s=DAY_S)
        ahead_ms = int((VirtualClock().now_s() + 400 * DAY_S) * 1000)
        for one in (entry("old"), entry("ahead", ahead_ms), entry("after")):
            writes.note(one)
            await writes.flush()
        await asyncio.sleep(2 * DAY_S)
        for one in (entry("new"), entry("ahead", ahead_ms), entry("newest")):
            writes.note(one)
            await writes.flush()
        await writes.prune()
        assert await names(ledger) == ["new", "ahead", "newest", PRUNED]

    run_virtually(run)


def test_another_process_continues_after_a_commit_in_doubt() -> None:
    """A commit whose response was lost is recognised although the chain has grown since."""

    async def main() -> None:
        ledger = ShakyLedger()
        made, other = recorder(ledger), recorder(ledger)
        made.note(entry("a"))
        ledger.after = 1
        with pytest.raises(UnavailableError):
            await made.flush()
        other.note(entry("b"))
        await other.flush()
        made.note(entry("c"))
        await made.flush()
        assert await names(ledger) == ["a", "b", "c"]

    run_virtually(main)


def test_what_does_not_fit_in_memory_is_counted() -> None:
    """When too many entries wait, further ones are dropped, and the log says how many."""

    async def main() -> None:
        ledger, lines = MemoryLedger(), Lines()
        made = recorder(ledger, queue_max=2, lines=lines)
        for name in "abcde":
            made.note(entry(name))
        await made.flush()
        *kept, lost = await stored(ledger)
        assert [one.entry.operation for one in kept] == ["a", "b"]
        assert (lost.entry.operation, lost.entry.details) == (LOST, {"count": "3"})
        assert [line["event"] for line in lines.found] == ["audit_entries_dropped"]

    run_virtually(main)


def test_old_entries_are_pruned() -> None:
    """Blocks older than the limit are removed; the chain that is left has no faults."""

    async def main() -> None:
        ledger = MemoryLedger()
        made, other = recorder(ledger, keep_s=10 * DAY_S), recorder(ledger, keep_s=10 * DAY_S)
        for day in range(20):
            made.note(entry(f"day-{day}"))
            await made.flush()
            await asyncio.sleep(DAY_S)
        await made.prune()
        await other.prune()
        found = await names(ledger)
        assert found == [*(f"day-{day}" for day in range(10, 20)), PRUNED]
        await asyncio.sleep(100 * DAY_S)
        await other.prune()
        # The newest entry stays, because the chain continues it.
        assert await names(ledger) == [PRUNED, PRUNED]

    run_virtually(main)


def test_without_a_limit_nothing_is_pruned() -> None:
    """With 0, entries are kept for ever."""

    async def main() -> None:
        ledger = MemoryLedger()
        made = recorder(ledger)
        for name in "ab":
            made.note(entry(name, at_ms=1))
            await made.flush()
        await made.prune()
        assert await names(ledger) == ["a", "b"]

    run_virtually(main)


def test_the_head_is_logged() -> None:
    """The head of the chain is logged every hour if it has changed, and at the end."""

    async def main() -> None:
        ledger, lines = MemoryLedger(), Lines()
        made = recorder(ledger, lines=lines)
        running = asyncio.create_task(made.maintain())
        made.note(entry("a"))
        await made.flush()
        await asyncio.sleep(3 * 3600 + 1)
        made.note(entry("b"))
        await made.finish()
        heads = [line for line in lines.found if line["event"] == "audit_log_head"]
        assert [line["number"] for line in heads] == [1, 2]
        head = await audit_head(ledger)
        assert head is not None
        assert heads[-1]["hash"] == head.hash
        running.cancel()

    run_virtually(main)


def test_an_unavailable_ledger_does_not_stop_the_end_of_a_process() -> None:
    """At the end of the process, entries that cannot be saved are counted in the log."""

    async def main() -> None:
        ledger, lines = ShakyLedger(), Lines()
        made = recorder(ledger, lines=lines)
        made.note(entry("a"))
        ledger.before = 1
        await made.finish()
        [line] = lines.found
        assert (line["event"], line["count"]) == ("audit_entries_not_saved", 1)

    run_virtually(main)


async def filled(count: int) -> MemoryLedger:
    """Return a ledger with blocks of three entries."""
    ledger = MemoryLedger()
    made = recorder(ledger)
    for number in range(count):
        made.note(AuditEntry(number, f"op-{number % 2}", user_id=f"u-{number % 3}"))
        if number % 3 == 2:
            await made.flush()
    await made.flush()
    return ledger


@pytest.mark.parametrize("newest_first", [True, False])
def test_pages_have_every_entry_once(newest_first: bool) -> None:
    """The pages together have all entries that meet the conditions, in either order."""

    async def main() -> None:
        ledger = await filled(20)
        for conditions in (ALL, AuditFilter(user_id="u-1"), AuditFilter(since_ms=5, until_ms=9)):
            found: list[int] = []
            marker: int | None = None
            while True:
                page = await audit_page(
                    ledger, conditions, limit=3, marker=marker, newest_first=newest_first
                )
                found += [one.number for one in page.entries]
                marker = page.marker
                if marker is None:
                    break
            everything = await stored(ledger)
            wanted = [one.number for one in everything if conditions.admits(one)]
            assert found == (wanted[::-1] if newest_first else wanted)

    run_virtually(main)


def test_an_entry_is_found_by_its_number() -> None:
    """Each entry is found in its block; other numbers are not."""

    async def main() -> None:
        ledger = await filled(7)
        for number in range(1, 8):
            found = await audit_entry(ledger, number)
            assert found is not None
            assert found.number == number
        assert await audit_entry(ledger, 0) is None
        assert await audit_entry(ledger, 8) is None

    run_virtually(main)


def test_texts_that_are_not_unicode_do_not_stop_the_log() -> None:
    """Lone surrogates, as in names that are not UTF-8, are stored as escapes."""

    async def main() -> None:
        ledger = MemoryLedger()
        log = recorder(ledger)
        odd = "caf\udce9"
        log.note(AuditEntry(1, "policy_changed", roles=(odd,), details={odd: odd, "path": "é"}))
        log.note(entry("b"))
        await log.flush()
        first, second = (one.entry for one in await stored(ledger))
        assert first.roles == ("caf\\udce9",)
        assert first.details == {"caf\\udce9": "caf\\udce9", "path": "é"}
        assert second.operation == "b"

    run_virtually(main)
