"""Claims in a batch: all or nothing each, summed over the batch, once a key."""

from berth.adapters.ledger import MemoryLedger
from berth.domain.inventory.allocation import Allocation, Claim
from berth.domain.inventory.provider import Provider
from berth.domain.inventory.resources import VCPU, Inventory
from berth.domain.ledger.write import Committed, Put, Rejected
from berth.services.requests.claims import claim_many


def claim(key: str, **amounts: int) -> Claim:
    """Return a gang that claims VCPUs of providers."""
    allocations = (
        Allocation(f"{key}-{provider}", provider, {VCPU: amount})
        for provider, amount in amounts.items()
    )
    return Claim(key, tuple(allocations))


async def test_a_batch_is_summed_and_gangs_are_whole() -> None:
    """The second claim finds what the first left; a gang that lacks one part takes none."""
    ledger = MemoryLedger()
    for name in ("one", "two"):
        await ledger.commit([(Put(Provider(name, name, inventories={VCPU: Inventory(4)})),)])
    first, gang, last, again = await claim_many(
        ledger,
        [
            claim("a", one=3),
            claim("b", two=4, one=2),
            claim("c", two=4),
            claim("a", one=3),
        ],
    )
    assert isinstance(first, Committed)
    assert isinstance(gang, Rejected)
    assert [(s.provider_uuid, s.asked, s.left) for s in gang.shortages] == [("one", 2, 1)]
    assert isinstance(last, Committed)
    assert again == Committed(first.version, repeated=True)
    used = {provider.uuid: provider.used for provider in await ledger.all(Provider)}
    assert used == {"one": {VCPU: 3}, "two": {VCPU: 4}}
