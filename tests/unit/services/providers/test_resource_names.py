"""Tests for creating and renaming resource classes."""

from collections.abc import Sequence

import pytest

from berth.adapters.ledger.memory import MemoryLedger
from berth.domain.inventory.allocation import Allocation, Claim
from berth.domain.inventory.provider import Provider
from berth.domain.inventory.resources import Inventory, ResourceClass, StandardNames
from berth.domain.ledger.write import Outcome, Put, Take, Unit
from berth.services.providers import resource_names
from berth.services.providers.provider_writes import ProviderRefusedError, RefusalRule
from berth.services.providers.resource_names import ResourceNames
from berth.services.replica.follower import Follower
from berth.services.replica.provider_replica import ProviderReplica
from tests.unit.api.cloud import FakeClock

HAS = {"CUSTOM_A": Inventory(4), "VCPU": Inventory(8)}


@pytest.fixture
def ledger() -> MemoryLedger:
    """Return an empty ledger."""
    return MemoryLedger()


@pytest.fixture
def names(ledger: MemoryLedger) -> ResourceNames:
    """Return the use cases."""
    clock, replica = FakeClock(), ProviderReplica(StandardNames(("VCPU",), ("HW_A",)))
    follower = Follower(ledger, clock, [replica])
    return ResourceNames(follower=follower, ledger=ledger, replica=replica, clock=clock)


async def put(ledger: MemoryLedger, *uuids: str) -> None:
    """Put providers that have the class, without a record of the class."""
    for uuid in uuids:
        await ledger.commit([(Put(Provider(uuid, uuid, inventories=HAS)),)])


async def why_not(names: ResourceNames, old: str, new: str) -> RefusalRule:
    """Return the rule that refuses to rename a class."""
    with pytest.raises(ProviderRefusedError) as raised:
        await names.rename_class(old, new)
    return raised.value.why


async def test_a_renamed_class_is_renamed_wherever_it_is(
    names: ResourceNames, ledger: MemoryLedger
) -> None:
    """Renaming a class renames it in all providers and keeps its number and their generations."""
    await names.create_class("CUSTOM_A")
    await put(ledger, "p", "q")
    (before,) = await ledger.all(ResourceClass)
    await names.rename_class("CUSTOM_A", "CUSTOM_B")
    (after,) = await ledger.all(ResourceClass)
    assert (after.name, after.number) == ("CUSTOM_B", before.number)
    for provider in await ledger.all(Provider):
        assert provider.generation == 0
        assert list(provider.inventories) == ["CUSTOM_B", "VCPU"]


async def test_a_class_that_only_agents_know_is_renamed_too(
    names: ResourceNames, ledger: MemoryLedger
) -> None:
    """A class without a record is renamed, too."""
    await put(ledger, "p")
    await names.rename_class("CUSTOM_A", "CUSTOM_B")
    assert await ledger.all(ResourceClass) == []
    assert await names.ensure_class("CUSTOM_B") is False
    assert await names.ensure_class("CUSTOM_A") is True


async def test_what_an_agent_owns_stays_its_own(names: ResourceNames, ledger: MemoryLedger) -> None:
    """A renamed class stays owned by the agent."""
    owned = frozenset({"CUSTOM_A", "VCPU"})
    await ledger.commit([(Put(Provider("p", "p", inventories=HAS, owned_classes=owned)),)])
    await names.rename_class("CUSTOM_A", "CUSTOM_B")
    (provider,) = await ledger.all(Provider)
    assert provider.owned_classes == frozenset({"CUSTOM_B", "VCPU"})


async def test_what_is_used_keeps_its_name(names: ResourceNames, ledger: MemoryLedger) -> None:
    """A class with allocations cannot be renamed."""
    await put(ledger, "p")
    await ledger.commit([(Take(Claim("k", (Allocation("c", "p", {"CUSTOM_A": 1}),))),)])
    assert await why_not(names, "CUSTOM_A", "CUSTOM_B") is RefusalRule.CLASS_IN_USE


async def test_what_is_used_at_the_last_moment_keeps_its_name(
    names: ResourceNames, ledger: MemoryLedger, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A class that is claimed at the last moment cannot be renamed."""
    await put(ledger, "p")
    commit = ledger.commit

    async def claim_first(units: Sequence[Unit]) -> list[Outcome]:
        await commit([(Take(Claim("k", (Allocation("c", "p", {"CUSTOM_A": 1}),))),)])
        return await commit(units)

    monkeypatch.setattr(ledger, "commit", claim_first)
    assert await why_not(names, "CUSTOM_A", "CUSTOM_B") is RefusalRule.CLASS_IN_USE


async def test_a_class_of_very_many_providers_keeps_its_name(
    names: ResourceNames, ledger: MemoryLedger, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A class of too many providers cannot be renamed."""
    monkeypatch.setattr(resource_names, "RENAMED_MAX", 2)
    await put(ledger, "p", "q")
    await names.rename_class("CUSTOM_A", "CUSTOM_B")
    await ledger.commit([(Put(Provider("r", "r", inventories={"CUSTOM_B": Inventory(1)})),)])
    assert await why_not(names, "CUSTOM_B", "CUSTOM_C") is RefusalRule.CLASS_IS_SPREAD


async def test_names_that_stay(names: ResourceNames) -> None:
    """Standard, taken and unknown class names are refused."""
    await names.create_class("CUSTOM_A")
    assert await why_not(names, "VCPU", "CUSTOM_B") is RefusalRule.CLASS_IS_STANDARD
    assert await why_not(names, "CUSTOM_A", "VCPU") is RefusalRule.CLASS_EXISTS
    assert await why_not(names, "CUSTOM_X", "CUSTOM_B") is RefusalRule.NO_CLASS
    await names.rename_class("CUSTOM_A", "CUSTOM_A")
