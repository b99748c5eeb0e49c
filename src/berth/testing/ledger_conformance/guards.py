"""Guards: of two units that decided on the same state, the second is refused as stale."""

# ruff: noqa: S101 - a conformance suite is made of asserts

from berth.domain.inventory.resources import VCPU
from berth.domain.ledger.write import Committed, Guard, Rejected
from berth.ports.ledger import Ledger
from berth.testing.builders import make_fleet, make_take
from berth.testing.ledger_conformance.claims import used_of
from berth.testing.ledger_conformance.fixtures import LedgerFixtures, commit, refused


class GuardTests(LedgerFixtures):
    """Tests of `Guard`."""

    async def test_a_guard_refuses_a_unit_that_read_before_the_last_change(
        self, ledger: Ledger
    ) -> None:
        """Of two units that read the same version the second is stale, even within one batch."""
        seen = await commit(ledger, *make_fleet(1, vcpus=9))
        first, second = await ledger.commit(
            [
                (Guard("group", seen), make_take(1, amounts={VCPU: 1})),
                (Guard("group", seen), make_take(2, amounts={VCPU: 1})),
            ]
        )
        assert isinstance(first, Committed)
        assert isinstance(second, Rejected)
        assert second.stale
        # Guards of different names do not affect each other.
        other = await commit(ledger, (Guard("other", seen), make_take(3, amounts={VCPU: 1})))
        stale = await refused(ledger, (Guard("group", seen), make_take(4, amounts={VCPU: 1})))
        assert stale.stale
        await commit(ledger, (Guard("group", other), make_take(4, amounts={VCPU: 1})))
        await commit(ledger, (Guard("other", other), make_take(5, amounts={VCPU: 1})))
        assert await used_of(ledger) == {VCPU: 4}

    async def test_a_refused_unit_passes_no_guard(self, ledger: Ledger) -> None:
        """A refused unit makes no other unit stale."""
        seen = await commit(ledger, *make_fleet(1, vcpus=1))
        # This unit is refused for lack of capacity, after its guard has passed.
        await refused(ledger, (Guard("g", seen), make_take(1, amounts={VCPU: 2})))
        await commit(ledger, (Guard("g", seen), make_take(2, amounts={VCPU: 1})))

    async def test_shared_uses_do_not_conflict(self, ledger: Ledger) -> None:
        """Shared guards do not conflict with each other, only with exclusive ones."""
        seen = await commit(ledger, *make_fleet(1))
        shared, alone = Guard("tree", seen, is_shared=True), Guard("tree", seen)
        first, second = await ledger.commit([(shared, make_take(1)), (shared, make_take(2))])
        assert isinstance(first, Committed)
        assert isinstance(second, Committed)
        assert (await refused(ledger, (alone, make_take(3)))).stale
        now = second.version
        version = await commit(ledger, (Guard("tree", now), make_take(3)))
        assert (await refused(ledger, (shared, make_take(4)))).stale
        late = Guard("tree", now, is_shared=True)
        assert (await refused(ledger, (late, make_take(4)))).stale
        await commit(ledger, (Guard("tree", version, is_shared=True), make_take(4)))
        assert (await refused(ledger, (Guard("tree", version), make_take(5)))).stale
        assert await used_of(ledger) == {VCPU: 4}

    async def test_a_unit_may_share_a_guard_twice(self, ledger: Ledger) -> None:
        """One unit may share a guard twice, as when it creates two providers of one tree."""
        shared = Guard("tree", 0, is_shared=True)
        await commit(ledger, (shared, shared))

    async def test_a_refused_unit_has_not_shared_a_guard(self, ledger: Ledger) -> None:
        """A refused shared guard makes no exclusive guard stale."""
        seen = await commit(ledger, *make_fleet(1, vcpus=1))
        shared = Guard("tree", seen, is_shared=True)
        await refused(ledger, (shared, make_take(1, amounts={VCPU: 2})))
        await commit(ledger, (Guard("tree", seen), make_take(1)))
