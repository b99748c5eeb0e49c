"""Tests for writes that are decided on the provider table and repeated after races."""

from collections.abc import Sequence

import pytest

from berth.adapters.ledger.memory import MemoryLedger
from berth.domain.errors import ConflictError
from berth.domain.inventory.provider import Provider
from berth.domain.inventory.resources import StandardNames
from berth.domain.ledger.record import Kind
from berth.domain.ledger.write import (
    Add,
    Guard,
    Outcome,
    Put,
    Rejected,
    RejectionCause,
    Remove,
    Unit,
)
from berth.services.providers.provider_writes import (
    ProviderRefusedError,
    ProviderRevision,
    ProviderRevisions,
    RefusalRule,
    provider_at_version,
    save_decided,
)
from berth.services.replica.follower import Follower
from berth.services.replica.provider_replica import ProviderReplica
from tests.unit.api.cloud import FakeClock

GUARD = "something"


class Rival(MemoryLedger):
    """A ledger in which a rival commits first, or which returns given refusals."""

    def __init__(self, races: int = 0, refusals: Sequence[Rejected] = ()) -> None:
        super().__init__(now_s=lambda: 0.0)
        self.races = races
        self.refusals = list(refusals)

    async def commit(self, units: Sequence[Unit]) -> list[Outcome]:
        """Commit the rival's unit, then the given ones."""
        if self.refusals:
            return [self.refusals.pop(0)]
        if self.races:
            self.races -= 1
            rival = Put(Provider(f"rival-{self.races}", f"rival-{self.races}"))
            await super().commit([(Guard(GUARD, await self.version()), rival)])
        return await super().commit(units)


class World:
    """A ledger with a follower and the services that write to it."""

    def __init__(self, ledger: MemoryLedger) -> None:
        clock = FakeClock()
        self.ledger = ledger
        self.replica = ProviderReplica(StandardNames())
        self.follower = Follower(ledger, clock, [self.replica])
        self.revisions = ProviderRevisions(
            follower=self.follower, ledger=ledger, replica=self.replica, clock=clock
        )
        self.seen: list[int] = []

    def decide(self, seen: int) -> Unit:
        """Return a unit that adds a provider, and record the number of known providers."""
        self.seen.append(len(self.replica.table))
        return (Guard(GUARD, seen), Add(Provider("p", "p")))

    async def save(self, tries: int = 50) -> int:
        """Save the decided unit."""
        return await save_decided(self.follower, self.ledger, self.decide, tries)


async def test_a_decision_is_made_anew_on_what_the_faster_one_left() -> None:
    """A decision is repeated on the newest table after each lost race."""
    world = World(Rival(races=3))
    assert await world.save() == 4
    assert world.seen == [0, 1, 2, 3]


async def test_somebody_must_give_up_at_last() -> None:
    """After too many lost races the write is refused as contended."""
    with pytest.raises(ProviderRefusedError) as raised:
        await World(Rival(races=5)).save(tries=5)
    assert raised.value.why is RefusalRule.CONTENDED
    assert str(raised.value) == "too many concurrent changes; try again"


@pytest.mark.parametrize(
    ("cause", "why"),
    [
        (RejectionCause.MISSING, RefusalRule.NO_PROVIDER),
        (RejectionCause.GENERATION, RefusalRule.GENERATION),
        (RejectionCause.IN_USE, RefusalRule.INVENTORY_IN_USE),
    ],
)
async def test_a_refusal_with_a_cause_is_told_at_once(
    cause: RejectionCause, why: RefusalRule
) -> None:
    """A refusal with a cause is raised immediately with its subject."""
    refusal = Rejected(conflict="no", cause=cause, subject="p", names=("VCPU",))
    with pytest.raises(ProviderRefusedError) as raised:
        await World(Rival(refusals=[refusal])).save()
    assert (raised.value.why, raised.value.subject) == (why, "p")


async def test_another_refusal_is_looked_at_once_more() -> None:
    """Another refusal is decided once more, and raised if it is repeated."""
    no = Rejected(conflict="belongs to a host")
    assert await World(Rival(refusals=[no])).save() == 1
    with pytest.raises(ConflictError, match="belongs to a host"):
        await World(Rival(refusals=[no, no])).save()
    assert await World(Rival(refusals=[no, Rejected(conflict="other")])).save() == 1


async def test_nothing_to_do_writes_nothing() -> None:
    """A decision without writes commits nothing."""
    world = World(MemoryLedger())
    await world.save()
    assert await save_decided(world.follower, world.ledger, lambda _: ()) == 1
    assert await world.ledger.version() == 1


async def test_what_a_version_left_is_told_whatever_came_after() -> None:
    """A provider is read as of a version, whatever was committed afterwards."""
    world = World(MemoryLedger())
    await world.save()
    raised = await world.revisions.revise("p", 0, lambda old, _: ProviderRevision(old))
    assert raised.generation == 1
    await world.revisions.revise("p", None, lambda old, _: ProviderRevision(old))
    assert await provider_at_version(world.ledger, world.replica, 2, "p") == raised


async def test_a_change_of_nothing_tells_what_is_there() -> None:
    """A revision without changes returns the provider and keeps its generation."""
    world = World(MemoryLedger())
    await world.save()
    await world.revisions.revise("p", None, lambda old, _: ProviderRevision(old))
    same = await world.revisions.revise("p", 1, lambda _, __: ProviderRevision(None))
    assert (same.generation, await world.ledger.version()) == (1, 2)
    with pytest.raises(ProviderRefusedError) as raised:
        await world.revisions.revise("p", 0, lambda _, __: ProviderRevision(None))
    assert raised.value.why is RefusalRule.GENERATION


async def test_what_is_gone_is_not_changed() -> None:
    """Revising a removed provider is refused."""
    world = World(MemoryLedger())
    await world.save()
    await world.ledger.commit([(Remove(Kind.PROVIDER, "p"),)])
    with pytest.raises(ProviderRefusedError) as raised:
        await world.revisions.revise("p", None, lambda old, _: ProviderRevision(old))
    assert raised.value.why is RefusalRule.NO_PROVIDER
