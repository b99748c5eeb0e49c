"""Tests for held offers, which keep room for a parent for a while."""

import numpy as np

from berth.domain.compute.decision import Placement, ScoredHost
from berth.domain.inventory.resources import MEMORY_MB, VCPU
from berth.domain.zones.offer import OfferKey
from berth.services.replica.replica import Replica
from berth.services.zoning.offers.held_offers import HeldOffers, steady_s
from berth.testing.fleets import Box, asking, sized, snapshot_of, uuid_of
from berth.testing.virtual_time import VirtualClock
from tests.unit.services.wiring import running

AMOUNTS = {VCPU: 1, MEMORY_MB: 1024}
FIRST, SECOND = b"1" * 16, b"2" * 16


def replica_of(*vcpus: int) -> Replica:
    """Return a replica of hosts a, b and so on with these numbers of VCPUs."""
    replica = Replica()
    names = "abcdefgh"
    boxes = [Box(names[number], inventories=sized(count)) for number, count in enumerate(vcpus)]
    replica.load(snapshot_of(boxes))
    return replica


def placed(*names: str) -> list[Placement]:
    """Return placements on hosts."""
    return [
        Placement(f"new-{number}", name, name, uuid_of(name), 1, ScoredHost(name, name, 0.5))
        for number, name in enumerate(names)
    ]


def used(replica: Replica) -> int:
    """Return the VCPUs in use on all hosts."""
    columns = replica.hosts.resource(VCPU)
    assert columns is not None
    return int(np.sum(columns.used[: len(replica.hosts)]))


def held(
    offers: HeldOffers, select_id: bytes, *names: str, whom: str = "root", ends: float = 10
) -> int:
    """Hold offers on hosts for a parent, and return their number."""
    return offers.hold(select_id, whom, asking(), placed(*names), AMOUNTS, ends_s=ends)


def test_a_hold_counts_until_it_ends() -> None:
    """A hold counts in the replica until it ends."""
    replica = replica_of(8, 8)
    offers = HeldOffers(replica)
    assert held(offers, FIRST, "a", "b") == 2
    assert (used(replica), len(offers), offers.next_end_s) == (2, 2, 10)
    assert [one.value for one in offers.read()] == [2]
    assert offers.expire(9.9) == 0
    assert offers.expire(10) == 2
    assert (used(replica), len(offers), offers.next_end_s) == (0, 0, None)


def test_a_hold_is_taken_once() -> None:
    """A hold can be taken once."""
    replica = replica_of(8)
    offers = HeldOffers(replica)
    held(offers, FIRST, "a", "a")
    hold = offers.take(OfferKey(FIRST, 1))
    assert hold is not None
    assert (hold.host_uuid, used(replica)) == (uuid_of("a"), 1)
    assert offers.take(OfferKey(FIRST, 1)) is None
    assert offers.take(OfferKey(FIRST, 9)) is None
    assert offers.take(OfferKey(SECOND, 0)) is None
    assert offers.expire(10) == 1


def test_a_parent_releases_its_own() -> None:
    """A parent releases only its own holds."""
    replica = replica_of(8)
    offers = HeldOffers(replica)
    held(offers, FIRST, "a")
    held(offers, SECOND, "a", whom="other")
    assert offers.release(FIRST, "other") == 0
    assert offers.release(FIRST, "root") == 1
    assert offers.release(FIRST, "root") == 0
    assert used(replica) == 1


def test_nothing_wakes_for_holds_that_are_gone() -> None:
    """The next end ignores holds that were released or taken."""
    offers = HeldOffers(replica_of(8))
    held(offers, FIRST, "a", ends=10)
    held(offers, SECOND, "a", ends=20)
    offers.release(FIRST, "root")
    assert (offers.expire(1), offers.next_end_s) == (0, 20)
    offers.take(OfferKey(SECOND, 0))
    assert (offers.expire(2), offers.next_end_s) == (0, None)


def test_one_parent_may_have_a_share_of_what_is_free() -> None:
    """A parent can hold at most its share of the free room."""
    replica = replica_of(8)
    offers = HeldOffers(replica, share_max=0.5)
    assert held(offers, FIRST, *"aaaaaa") == 4
    assert held(offers, SECOND, "a") == 0
    assert held(offers, b"3" * 16, *"aaaa", whom="other") == 4
    offers.release(FIRST, "root")
    assert held(offers, SECOND, *"aaaa") == 4


def test_the_last_place_can_be_held() -> None:
    """The last place can be held in spite of a share below one."""
    replica = replica_of(1)
    offers = HeldOffers(replica, share_max=0.5)
    assert held(offers, FIRST, "a") == 1
    assert held(offers, SECOND, "a") == 0


def test_all_may_be_held_where_the_setting_says_so() -> None:
    """With a share of 1 all room can be held."""
    offers = HeldOffers(replica_of(4), share_max=1.0)
    assert held(offers, FIRST, *"aaaa") == 4


async def test_holds_end_in_their_time_by_themselves() -> None:
    """The loop ends each hold at its own time."""
    replica, clock = replica_of(8), VirtualClock()
    offers = HeldOffers(replica, share_max=1.0)
    begin_s = steady_s(clock)
    async with running(lambda: offers.run(clock, 10.0)):
        for after_s, select_id in ((4.0, FIRST), (1.0, SECOND)):
            await clock.sleep(after_s)
            held(offers, select_id, "a", ends=steady_s(clock) + 10.0)
        lengths: list[tuple[float, int]] = []
        for until_s in (13.9, 14.1, 14.9, 15.1):
            await clock.sleep(begin_s + until_s - steady_s(clock))
            lengths.append((until_s, len(offers)))
    assert lengths == [(13.9, 2), (14.1, 1), (14.9, 1), (15.1, 0)]
    assert used(replica) == 0
