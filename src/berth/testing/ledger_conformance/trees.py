"""Trees: claims on several providers of one host, each with its own capacity."""

# ruff: noqa: S101, PLR2004 - a conformance suite is made of asserts

from collections.abc import Mapping
from dataclasses import replace

from berth.domain.inventory.allocation import Allocation, Claim, Shortage
from berth.domain.inventory.provider import Provider, child_uuid
from berth.domain.inventory.resources import VCPU, Inventory
from berth.domain.ledger.change import Usage
from berth.domain.ledger.record import Kind
from berth.domain.ledger.write import Free, Put, Remove, Take
from berth.ports.ledger import Ledger
from berth.testing.builders import make_fleet, make_uuid
from berth.testing.fleets import GPU_MILLI
from berth.testing.ledger_conformance.fixtures import LedgerFixtures, commit, refused

ROOT = make_uuid("host", 1)
GPUS = tuple(
    Provider(child_uuid(ROOT, f"GPU {n}"), f"GPU {n}", ROOT, 0, {GPU_MILLI: Inventory(1000)})
    for n in range(2)
)
PLANT = tuple(Put(gpu) for gpu in GPUS)


def take(number: int, *milli: int, vcpus: int = 1) -> Take:
    """Return the claim of instance `number` on VCPUs of the host and on the GPUs, in order."""
    amounts: Mapping[str, Mapping[str, int]] = {ROOT: {VCPU: vcpus}} | {
        gpu.uuid: {GPU_MILLI: amount} for gpu, amount in zip(GPUS, milli, strict=False) if amount
    }
    consumer = make_uuid("instance", number)
    return Take(
        Claim(f"claim-{number}", tuple(Allocation(consumer, *one) for one in amounts.items()))
    )


async def used_of_tree(ledger: Ledger) -> list[int]:
    """Return the VCPUs in use on the host, and the usage of each GPU."""
    found: list[int] = []
    for uuid, name in ((ROOT, VCPU), *((gpu.uuid, GPU_MILLI) for gpu in GPUS)):
        provider = await ledger.get(Provider, uuid)
        assert provider is not None
        found.append(provider.used.get(name, 0))
    return found


class TreeTests(LedgerFixtures):
    """Tests of hosts with child providers."""

    async def test_children_are_stored_under_their_parent(self, ledger: Ledger) -> None:
        """Parent, inventories and traits are read back, from a snapshot as well."""
        gpu = replace(GPUS[0], traits=frozenset({"CUSTOM_A100"}))
        await commit(ledger, *make_fleet(1), (Put(gpu),))
        stored = await ledger.get(Provider, gpu.uuid)
        assert stored == replace(gpu, used={GPU_MILLI: 0})
        assert stored in (await ledger.snapshot(0.0)).providers

    async def test_a_claim_takes_from_every_provider(self, ledger: Ledger) -> None:
        """The claim takes its amount from each provider, and the feed reports the usage of each."""
        version = await commit(ledger, *make_fleet(1), PLANT)
        await commit(ledger, (take(1, 300, 1000),))
        assert await used_of_tree(ledger) == [1, 300, 1000]
        events = [one.event for one in await ledger.changes(version)]
        usages = {one.provider_uuid: one.used for one in events if isinstance(one, Usage)}
        # The root's usage is reported as well, without any of the children's class.
        assert {uuid: used.get(GPU_MILLI, 0) for uuid, used in usages.items()} == {
            ROOT: 0,
            GPUS[0].uuid: 300,
            GPUS[1].uuid: 1000,
        }

    async def test_a_child_without_room_refuses_the_whole_claim(self, ledger: Ledger) -> None:
        """Free capacity of another child or of the host does not help, and nothing is taken."""
        await commit(ledger, *make_fleet(1), PLANT, (take(1, 600, 100),))
        # The second GPU has 900 left, but each amount is bound to its provider.
        refusal = await refused(ledger, (take(2, 500, 500),))
        assert refusal.shortages == (Shortage(GPUS[0].uuid, GPU_MILLI, asked=500, left=400),)
        refusal = await refused(ledger, (take(3, 400, vcpus=16),))
        assert refusal.shortages == (Shortage(ROOT, VCPU, asked=16, left=15),)
        assert await used_of_tree(ledger) == [1, 600, 100]

    async def test_claims_of_one_batch_share_a_child(self, ledger: Ledger) -> None:
        """Each claim of a batch sees the earlier ones; a claim that does not fit is refused."""
        await commit(ledger, *make_fleet(1), PLANT)
        # Two claims of 400 fit into 1,000; the third claim must see both.
        outcomes = await ledger.commit([(take(number, 400),) for number in range(1, 4)])
        assert [hasattr(one, "version") for one in outcomes] == [True, True, False]
        assert await used_of_tree(ledger) == [2, 800, 0]

    async def test_freeing_releases_every_provider(self, ledger: Ledger) -> None:
        """Freeing a consumer releases its allocations on every provider."""
        await commit(ledger, *make_fleet(1), PLANT, (take(1, 300, 1000),))
        await commit(ledger, (Free(make_uuid("instance", 1)),))
        assert await used_of_tree(ledger) == [0, 0, 0]
        assert await ledger.allocations() == []

    async def test_a_child_in_use_cannot_be_removed(self, ledger: Ledger) -> None:
        """A child in use cannot be removed, nor its host with it; once freed, all can."""
        await commit(ledger, *make_fleet(1), PLANT, (take(1, 0, 10, vcpus=1),))
        uuids = [gpu.uuid for gpu in GPUS]
        gone = (
            Remove(Kind.HOST, ROOT),
            Remove(Kind.PROVIDER, ROOT),
            *(Remove(Kind.PROVIDER, uuid) for uuid in uuids),
        )
        # The children alone: the first is free, the second in use.
        refusal = await refused(ledger, gone[2:])
        assert uuids[1] in (refusal.conflict or "")
        await refused(ledger, gone)
        assert len(await ledger.all(Provider)) == 3
        await commit(ledger, (Free(make_uuid("instance", 1)),))
        await commit(ledger, gone)
        assert await ledger.all(Provider) == []
        refusal = await refused(ledger, (take(2, 100),))
        assert {one.left for one in refusal.shortages} == {0}
