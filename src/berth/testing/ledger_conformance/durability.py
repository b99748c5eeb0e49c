"""Conformance tests of ledgers whose store outlives the process and may be opened repeatedly."""

# ruff: noqa: S101, PLR2004 - a conformance suite is made of asserts

import asyncio
from dataclasses import replace

from berth.domain.compute.host import Host
from berth.domain.compute.migration import Migration
from berth.domain.inventory.allocation import Consumer
from berth.domain.inventory.resources import VCPU
from berth.domain.ledger.record import Kind
from berth.domain.ledger.write import Committed, Free, Put
from berth.testing.builders import (
    make_action,
    make_decision,
    make_fleet,
    make_host,
    make_instance,
    make_migration,
    make_pending_request,
    make_take,
)
from berth.testing.ledger_conformance.claims import HOST_1, used_of
from berth.testing.ledger_conformance.fixtures import LedgerFactory, LedgerFixtures, commit
from berth.testing.ledger_conformance.transfers import LEAVES, MOVE, RETURNS, VM, arrives, holds


class DurableLedgerConformance(LedgerFixtures):
    """All conformance tests of a ledger whose store outlives the process."""

    async def test_a_reopened_ledger_is_the_same(self, open_ledger: LedgerFactory) -> None:
        """State, feed, claim keys and counters survive closing and opening."""
        ledger = await open_ledger()
        unit = (make_take(1), Put(make_instance(1)), Put(make_decision(1)))
        await commit(ledger, *make_fleet(3), unit, (Put(make_pending_request(2)),))
        snapshot, changes = await ledger.snapshot(0.0), await ledger.changes(0)
        assert await ledger.next_id(Kind.AGGREGATE) == 1
        await ledger.close()
        ledger = await open_ledger()
        assert await ledger.snapshot(0.0) == snapshot
        assert await ledger.changes(0) == changes
        assert await ledger.commit([(make_take(1),)]) == [Committed(4, repeated=True)]
        # If counters did not survive, new aggregates would get the ids of old ones.
        assert await ledger.next_id(Kind.AGGREGATE) == 2
        await ledger.close()

    async def test_a_move_goes_on_in_a_reopened_ledger(self, open_ledger: LedgerFactory) -> None:
        """Transferred allocations and the new holder's record survive, and can be moved back."""
        ledger = await open_ledger()
        begins = (LEAVES, arrives(2, 2), Put(make_migration(1)), Put(make_action(1)))
        await commit(ledger, *make_fleet(2), (make_take(1),), begins)
        held, consumers = await ledger.allocations(), await ledger.all(Consumer)
        await ledger.close()
        ledger = await open_ledger()
        assert await ledger.get(Migration, make_migration(1).uuid) == make_migration(1)
        assert await ledger.actions(VM) == [make_action(1)]
        assert await ledger.allocations() == held
        assert await ledger.all(Consumer) == consumers == [replace(MOVE, generation=1)]
        await commit(ledger, (Free(VM), RETURNS))
        await ledger.close()
        ledger = await open_ledger()
        assert await holds(ledger, VM) == {HOST_1: {VCPU: 1}}
        assert await ledger.all(Consumer) == []
        await ledger.close()

    async def test_ledgers_of_one_store_never_overcommit(self, open_ledger: LedgerFactory) -> None:
        """Two writers of one store share its capacity, its versions and its claim keys."""
        ledgers = [await open_ledger(), await open_ledger()]
        await commit(ledgers[0], *make_fleet(1, vcpus=10))
        # Every claim key is used through both ledgers, so each must know the keys of the other.
        answers = await asyncio.gather(
            *(ledgers[n % 2].commit([(make_take(n // 2 + 1),)]) for n in range(60))
        )
        outcomes = [a[0] for a in answers if isinstance(a[0], Committed)]
        fresh = [outcome.version for outcome in outcomes if not outcome.repeated]
        assert sorted(fresh) == list(range(2, 12))
        assert sorted(o.version for o in outcomes if o.repeated) == sorted(fresh)
        for ledger in ledgers:
            assert await used_of(ledger) == {VCPU: 10}
            versions = [change.version for change in await ledger.changes(1)]
            assert versions == list(range(2, 12))
        await asyncio.gather(*(ledger.close() for ledger in ledgers))

    async def test_a_commit_wakes_waiters_of_another_ledger(
        self, open_ledger: LedgerFactory
    ) -> None:
        """A commit through another ledger of the same store ends a wait."""
        mine, theirs = await open_ledger(), await open_ledger()
        for number in (1, 2):
            # There are two waits, because a query may end the first and a notification the second.
            waiting = asyncio.ensure_future(mine.wait(number - 1, 60.0))
            await asyncio.sleep(0)
            await commit(theirs, (Put(make_host(number)),))
            assert await waiting
            assert len(await mine.all(Host)) == number
        await asyncio.gather(mine.close(), theirs.close())

    async def test_numbers_are_drawn_once_over_all_ledgers(
        self, open_ledger: LedgerFactory
    ) -> None:
        """Two ledgers of one store never draw the same id."""
        ledgers = [await open_ledger(), await open_ledger()]
        drawn = await asyncio.gather(*(ledgers[n % 2].next_id(Kind.FLAVOR) for n in range(20)))
        assert sorted(drawn) == list(range(1, 21))
        await asyncio.gather(*(ledger.close() for ledger in ledgers))
