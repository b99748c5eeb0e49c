"""Tests for providers whose usage exceeds their capacity or their allocations."""

from dataclasses import replace

import pytest

from berth.adapters.ledger.engine.working_set import ProviderCapacity
from berth.domain.compute.aggregate import Aggregate
from berth.domain.inventory.provider import Provider
from berth.domain.inventory.resources import VCPU, Inventory
from berth.domain.ledger.discrepancy import DiscrepancyCode
from berth.domain.ledger.write import Put, Reallocate
from berth.testing.builders import make_aggregate, make_host, make_provider, make_share, make_uuid
from tests.unit.services.auditing.office import FULL, Office, open_office

OVER = DiscrepancyCode.OVER_CAPACITY


async def offer(office: Office, inventory: Inventory | None) -> None:
    """Set the VCPU inventory of the host, or remove it."""
    provider = make_provider(vcpus=2)
    rest = {name: one for name, one in provider.inventories.items() if name != VCPU}
    mine = {} if inventory is None else {VCPU: inventory}
    await office.ledger.write(Put(replace(provider, inventories=mine | rest)))


async def office_of_two(**ratios: float) -> Office:
    """Return an office with one host of four VCPUs, three of which are used."""
    office = await open_office(hosts=1, vcpus=4)
    for number in (1, 2, 3):
        await office.place(number)
    await office.ledger.write(Put(replace(make_host(), allocation_ratios=ratios)))
    return office


@pytest.mark.parametrize(
    ("inventory", "said"),
    [
        (Inventory(total=2), "its inventory or ratio was reduced (2 in all, 0 reserved, ratio 1"),
        (Inventory(total=4, reserved=2), "(4 in all, 2 reserved, ratio 1"),
        (Inventory(total=4, allocation_ratio=0.5), "set to 0.5 through the Placement API"),
        (None, "its agent no longer reports any"),
    ],
)
async def test_a_host_that_became_smaller_is_told(inventory: Inventory | None, said: str) -> None:
    """A host whose capacity fell below its usage is reported with the cause and not repaired."""
    office = await office_of_two(VCPU=1.0)
    await offer(office, inventory)
    found = await office.only(OVER, mends=True)
    assert (found.host, found.lost, found.mend) == ("host-1", {}, None)
    assert said in found.text


async def test_the_aggregate_that_changed_a_ratio_is_named() -> None:
    """The report names the aggregate that set the ratio and the ratio without it."""
    office = await office_of_two(VCPU=4.0)
    await offer(office, Inventory(total=2, allocation_ratio=4.0))
    assert (await office.audit()).discrepancies == ()
    aggregate: Aggregate = replace(make_aggregate(), metadata={"cpu_allocation_ratio": "1.0"})
    await office.ledger.write(Put(aggregate))
    await offer(office, Inventory(total=2))
    text = (await office.only(OVER)).text
    assert "VCPU 3 of 2: the ratio 1 comes from aggregate aggregate-1" in text
    assert "would be 4 (the host's own) without" in text


async def test_a_part_of_a_host_that_became_smaller_is_told() -> None:
    """A child provider whose capacity fell below its usage is reported for its host."""
    office = await office_of_two()
    child = Provider(make_uuid("child", 1), "gpu", parent_uuid=make_uuid("host", 1))
    share = make_share(1, on_1={VCPU: 1})
    held = {child.uuid: {"GPU": 3}}
    await office.ledger.write(
        Put(replace(child, inventories={"GPU": Inventory(total=4)})),
        Reallocate((replace(share, allocations=held),)),
    )
    assert (await office.audit()).discrepancies == ()
    await office.ledger.write(Put(replace(child, inventories={"GPU": Inventory(total=2)})))
    found = await office.only(OVER)
    assert found.host == "host-1"
    assert "its inventory was reduced (2 in all, 0 reserved, ratio 1)" in found.text


async def test_what_counts_as_used_and_nobody_holds_is_told() -> None:
    """Usage that no consumer holds is reported."""
    office = await office_of_two()
    rooms = office.ledger._working_set.capacities
    room = rooms[make_uuid("host", 1)]
    used = {name: amount + 1 for name, amount in room.used.items()}
    rooms[make_uuid("host", 1)] = ProviderCapacity(room.generation, room.limits, used)
    found = await office.only(DiscrepancyCode.USAGE_DIFFERS)
    assert found.lost == dict.fromkeys(FULL, 1)
