"""Writes the audit log: collects entries in memory, and appends them to the chain in the ledger."""

import asyncio
from collections.abc import Sequence
from typing import Final

from berth.domain.errors import BerthError
from berth.domain.ledger.audit_trail import (
    LOST,
    NO_ENTRIES,
    PRUNED,
    AuditBlock,
    AuditEntry,
    AuditHead,
    chain,
    head_of,
    storable,
)
from berth.domain.ledger.record import Kind
from berth.domain.ledger.write import Add, Committed, Remove, Unit
from berth.ports.clock import Clock
from berth.ports.ledger import Ledger
from berth.ports.telemetry import Telemetry

_GATHER_S: Final = 0.25
_BLOCK_MAX: Final = 256
_QUEUE_MAX: Final = 20_000
_HEAD_VALID_S: Final = 60.0
_UPKEEP_S: Final = 3600.0
# A block may contain hundreds of entries with bodies, and is read as a whole.
_PRUNED_AT_ONCE: Final = 50
_MS_PER_S: Final = 1000


class AuditRecorder:
    """Appends the entries of this process to the audit log (docs/adr/0040-the-audit-log.md).

    Entries wait for a quarter of a second, so that many share one block and one commit; a request
    does not wait for them. Processes that append at the same time continue the same head, and the
    ledger accepts one of them; the others continue the new head.

    Args:
        ledger: stores the blocks.
        clock: the clock of the process.
        telemetry: receives the head of the chain every hour, and the number of lost entries.
        process: the name of the process in the entries that it makes itself.
        keep_s: seconds for which entries are kept; 0 keeps them for ever.
        queue_max: maximum number of entries in memory while the ledger is unavailable; further
            ones are dropped and counted.
    """

    def __init__(
        self,
        ledger: Ledger,
        clock: Clock,
        telemetry: Telemetry,
        *,
        process: str,
        keep_s: float = 0.0,
        queue_max: int = _QUEUE_MAX,
    ) -> None:
        self._ledger = ledger
        self._clock = clock
        self._telemetry = telemetry
        self._process = process
        self._keep_s = keep_s
        self._queue_max = queue_max
        self._queue: list[AuditEntry] = []
        self._lost = 0
        self._has_entries = asyncio.Event()
        self._head: AuditHead | None = None
        self._head_read_s = 0.0
        self._losses: int = ledger.losses
        # The block of a commit without an answer, and the further writes of its unit.
        self._in_doubt: tuple[AuditBlock, Unit] | None = None
        self._lock = asyncio.Lock()
        self._told: AuditHead | None = None

    def note(self, entry: AuditEntry) -> None:
        """Append an entry soon; this neither waits nor fails."""
        if len(self._queue) >= self._queue_max:
            if not self._lost:
                self._telemetry.warning("audit_entries_dropped", waiting=len(self._queue))
            self._lost += 1
            return
        self._queue.append(storable(entry))
        self._has_entries.set()

    async def run(self) -> None:
        """Append entries until cancelled.

        Raises:
            UnavailableError: the ledger cannot be reached; the entries wait for the next run.
            LedgerError: the ledger is damaged.
        """
        while True:
            if not self._queue:
                self._has_entries.clear()
                await self._has_entries.wait()
            await self._clock.sleep(_GATHER_S)
            await self.flush()

    async def maintain(self) -> None:
        """Every hour, remove old entries and log the head of the chain, until cancelled.

        Raises:
            UnavailableError: the ledger cannot be reached.
            LedgerError: the ledger is damaged.
        """
        while True:
            await self._clock.sleep(_UPKEEP_S)
            await self.prune()
            await self._tell_head()

    async def finish(self) -> None:
        """Append the remaining entries at the end of the process, as far as the ledger allows."""
        try:
            await self.flush()
            await self._tell_head()
        except BerthError as error:
            self._telemetry.failure("audit_entries_not_saved", error, count=len(self._queue))

    async def flush(self) -> None:
        """Append all entries that wait.

        Raises:
            UnavailableError: the ledger cannot be reached; the entries keep waiting.
            LedgerError: the ledger is damaged.
        """
        async with self._lock:
            while self._queue or self._lost:
                await self._append_some()

    async def prune(self) -> None:
        """Remove the blocks whose entries are all too old, and record this in the log.

        Raises:
            UnavailableError: the ledger cannot be reached.
            LedgerError: the ledger is damaged.
        """
        if not self._keep_s:
            return
        oldest_ms = int((self._clock.now_s() - self._keep_s) * _MS_PER_S)
        async with self._lock:
            while await self._prune_some(oldest_ms):
                pass

    async def _append_some(self) -> None:
        lost, entries = self._lost, self._queue[:_BLOCK_MAX]
        added = entries
        if lost:
            details = {"count": str(lost)}
            added = [*entries, self._own_entry(LOST, details)]
        head = await self._current_head()
        if head is None:
            return
        if await self._commit(chain(head, added), ()):
            self._settle(lost, len(entries))

    def _settle(self, lost: int, count: int) -> None:
        self._lost -= lost
        del self._queue[:count]

    async def _commit(self, block: AuditBlock, more: Unit) -> bool:
        """Commit a block with further writes; return whether it now ends the chain."""
        self._in_doubt = block, more
        [outcome] = await self._ledger.commit([(Add(block), *more)])
        self._in_doubt = None
        is_stored = isinstance(outcome, Committed)
        self._head = head_of(block) if is_stored else None
        self._head_read_s = self._clock.now_s()
        return is_stored

    async def _current_head(self) -> AuditHead | None:
        """Return the head of the chain, or None if the entries in doubt turn out to be in it."""
        if self._in_doubt is not None and await self._is_in_chain(*self._in_doubt):
            (block, _), self._in_doubt, self._head = self._in_doubt, None, None
            own = [one for one in block.entries if one.operation not in {LOST, PRUNED}]
            lost = next((one for one in block.entries if one.operation == LOST), None)
            self._settle(0 if lost is None else int(lost.details["count"]), len(own))
            return None
        self._in_doubt = None
        # A head that is days old could be that of blocks which another process has pruned.
        is_old = self._clock.now_s() - self._head_read_s > _HEAD_VALID_S
        if self._head is None or is_old or self._ledger.losses != self._losses:
            self._losses = self._ledger.losses
            newest = await self._ledger.audit_block()
            self._head = NO_ENTRIES if newest is None else head_of(newest)
            self._head_read_s = self._clock.now_s()
        return self._head

    async def _is_in_chain(self, block: AuditBlock, more: Unit) -> bool:
        """Return whether a block in doubt is in the chain, and will stay as it is.

        A commit whose connection was lost may still take effect later. So the same block is
        offered again while its place is free: one of both commits is accepted.
        """
        if await self._is_stored(block):
            return True
        newest = await self._ledger.audit_block()
        head = NO_ENTRIES if newest is None else head_of(newest)
        is_next = head.number + 1 == block.first
        if not is_next or chain(head, block.entries).hashes != block.hashes:
            return False
        [outcome] = await self._ledger.commit([(Add(block), *more)])
        return isinstance(outcome, Committed) or await self._is_stored(block)

    async def _is_stored(self, block: AuditBlock) -> bool:
        found = await self._ledger.audit_block(block.first)
        return found is not None and found.hashes == block.hashes

    async def _prune_some(self, oldest_ms: int) -> bool:
        """Remove some old blocks; return whether there may be more."""
        blocks = await self._ledger.audit_blocks(1, _PRUNED_AT_ONCE + 1)
        # The newest block always stays, since the next one continues it.
        old = self._old_ones(blocks[:-1], oldest_ms)
        if not old:
            return False
        head = await self._current_head()
        if head is None:
            return True
        through = head_of(old[-1])
        details = {"through": str(through.number), "hash": through.hash}
        removals = tuple(Remove(Kind.AUDIT_BLOCK, block.key) for block in old)
        entry = self._own_entry(PRUNED, details)
        if not await self._commit(chain(head, [entry]), removals):
            # Another process was faster; it prunes the rest.
            return False
        self._telemetry.event("audit_log_pruned", through=through.number)
        return len(old) == _PRUNED_AT_ONCE

    def _old_ones(self, blocks: Sequence[AuditBlock], oldest_ms: int) -> Sequence[AuditBlock]:
        """Return the first blocks, as far as their entries are too old.

        A clock that was ahead has given some entries a time in the future. They are as old as the
        entries that follow them.
        """
        now_ms = int(self._clock.now_s() * _MS_PER_S)
        count = 0
        for number, block in enumerate(blocks, 1):
            at_ms = block.entries[-1].at_ms
            if at_ms < oldest_ms:
                count = number
            elif at_ms <= now_ms:
                break
        return blocks[:count]

    def _own_entry(self, operation: str, details: dict[str, str]) -> AuditEntry:
        at_ms = int(self._clock.now_s() * _MS_PER_S)
        return AuditEntry(at_ms, operation, process=self._process, details=details)

    async def _tell_head(self) -> None:
        newest = await self._ledger.audit_block()
        if newest is None or head_of(newest) == self._told:
            return
        self._told = head_of(newest)
        number, text = self._told
        self._telemetry.event("audit_log_head", number=number, hash=text)
