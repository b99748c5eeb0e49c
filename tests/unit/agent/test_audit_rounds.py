"""Audit rounds: every host is audited repeatedly, at its own times."""

import asyncio
from itertools import pairwise
from random import Random

from berth.agent.audit_rounds import AuditRounds
from berth.testing.virtual_time import VirtualClock
from tests.unit.services.wiring import Told, running

INTERVAL_S = 60.0
HOSTS = [f"host-{number}" for number in range(50)]


class Looks:
    """A recorder of the audits of each host, in seconds since the beginning."""

    def __init__(self, seed: int = 1) -> None:
        self.clock = VirtualClock()
        self.began_ns = self.clock.ticks_ns()
        self.told = Told()
        self.at_s: dict[str, list[float]] = {host: [] for host in HOSTS}
        self.takes_s = 0.0
        self.fails = False
        self.most = self.now = 0
        self.rounds = AuditRounds(
            HOSTS,
            self.look,
            self.clock,
            self.told,
            interval_s=INTERVAL_S,
            randomness=Random(seed),
        )

    async def look(self, host: str) -> None:
        """Record an audit, which takes time and may fail."""
        self.at_s[host].append((self.clock.ticks_ns() - self.began_ns) / 1e9)
        self.now += 1
        self.most = max(self.most, self.now)
        try:
            await asyncio.sleep(self.takes_s)
            if self.fails:
                raise RuntimeError("a driver fails")
        finally:
            self.now -= 1

    async def work(self, seconds: float) -> None:
        """Run the rounds for this many seconds."""
        async with running(self.rounds.run):
            await asyncio.sleep(seconds)


async def test_each_host_is_looked_at_once_an_interval_more_or_less() -> None:
    """Each host is audited in the first interval, and then at intervals that vary by a tenth."""
    looks = Looks()
    await looks.work(10 * INTERVAL_S)
    for at_s in looks.at_s.values():
        assert at_s[0] <= INTERVAL_S + 1
        gaps = [later - earlier for earlier, later in pairwise(at_s)]
        assert all(0.9 * INTERVAL_S - 1 <= gap <= 1.1 * INTERVAL_S + 1 for gap in gaps)
        assert len(set(gaps)) > 1


async def test_hosts_do_not_all_come_at_once() -> None:
    """The first audits of the hosts are spread over the interval."""
    looks = Looks()
    await looks.work(INTERVAL_S + 1)
    tenths = [0] * 11
    for at_s in looks.at_s.values():
        tenths[int(at_s[0] * 10 / INTERVAL_S)] += 1
    assert all(tenths[:10])
    assert max(tenths) < len(HOSTS) / 3


async def test_the_same_randomness_gives_the_same_rounds() -> None:
    """The order of audits depends only on the seed."""
    orders: list[list[str]] = []
    for seed in (1, 1, 2):
        looks = Looks(seed)
        await looks.work(INTERVAL_S)
        orders.append(sorted(HOSTS, key=lambda host: looks.at_s[host]))
    assert orders[0] == orders[1] != orders[2]


async def test_a_slow_look_is_not_begun_again_and_holds_nobody_up_for_ever() -> None:
    """No host is audited twice simultaneously, and at most 16 audits run together."""
    looks = Looks()
    looks.takes_s = 3 * INTERVAL_S
    await looks.work(20 * INTERVAL_S)
    assert all(looks.at_s.values())
    assert 1 < looks.most <= 16
    for at_s in looks.at_s.values():
        gaps = [later - earlier for earlier, later in pairwise(at_s)]
        assert all(gap >= looks.takes_s for gap in gaps)


async def test_a_look_that_fails_is_told_and_made_again() -> None:
    """A failed audit is reported and repeated."""
    looks = Looks()
    looks.fails = True
    await looks.work(3 * INTERVAL_S)
    assert min(len(at_s) for at_s in looks.at_s.values()) >= 2
    assert set(looks.told.failed) == {"audit_failed"}
