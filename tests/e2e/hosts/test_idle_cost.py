"""What idle hosts cost the ledger: the same for a few and for many."""

import asyncio
import time
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import NamedTuple

import asyncpg
import pytest

from tests.e2e.hosts.separate_cloud import HOSTS, SeparateCloud, separate_cloud

pytestmark = [pytest.mark.postgres, pytest.mark.slow, pytest.mark.timeout(600)]

_WINDOW_S = 15.0
# An idle connection adds its transactions to the statistics of PostgreSQL up to ten seconds late,
# so those of the registrations would otherwise count in the window.
_CALM_S = 12.0
# On a busy machine, the work of the registrations may reach into the first window. It ends, but
# what idle hosts cost returns in each window.
_WINDOWS_MAX = 4


class Cost(NamedTuple):
    """The connections of all processes to the ledger, and what happened in a window."""

    connections: int
    transactions: int
    versions: int


async def _read(url: str) -> Cost:
    connection = await asyncpg.connect(url)
    try:
        row = await connection.fetchrow(
            "select (select count(*) from pg_stat_activity where datname = current_database()), "
            "xact_commit + xact_rollback, (select version from head) "
            "from pg_stat_database where datname = current_database()"
        )
    finally:
        await connection.close()
    assert row is not None
    return Cost(*row)


def cost_of_window(cloud: SeparateCloud) -> Cost:
    """Return the cost of a window in which nothing happens."""
    before = asyncio.run(_read(cloud.ledger))
    time.sleep(_WINDOW_S)
    after = asyncio.run(_read(cloud.ledger))
    return Cost(
        after.connections,
        after.transactions - before.transactions,
        after.versions - before.versions,
    )


def has_up(cloud: SeparateCloud, count: int) -> bool:
    """Return whether so many hosts are up."""
    return len(cloud.hosts_up()) == count


def start_agents(cloud: SeparateCloud, hosts: Sequence[str], *, of: int) -> None:
    """Start agents of these hosts, and return when all `of` hosts are up and calm."""
    for host in hosts:
        cloud.enroll(host)
        cloud.start_agent(host)
    cloud.wait_until(partial(has_up, cloud, of), "all are up")
    time.sleep(_CALM_S)


def is_about_the_same(few: Cost, many: Cost) -> bool:
    """Return whether many hosts cost what a few hosts cost."""
    # The connection pools of the two processes grow and shrink on their own, and a window may
    # contain one more round of each process than another window.
    return (
        many.connections <= few.connections + 2 and many.transactions <= 1.25 * few.transactions + 5
    )


def test_idle_hosts_cost_the_ledger_the_same_whatever_their_number(
    fresh_postgres_url: str, tmp_path: Path
) -> None:
    """Sixteen agents cause no more connections and transactions than four, and no versions.

    Before, four caused 16 transactions per second and sixteen 146, with four connections each.
    """
    more = [f"rack2-{number:02}" for number in range(1, 14)]
    with separate_cloud(tmp_path, fresh_postgres_url) as cloud:
        start_agents(cloud, more[:1], of=len(HOSTS) + 1)
        four = cost_of_window(cloud)
        start_agents(cloud, more[1:], of=len(HOSTS) + len(more))
        costs: list[Cost] = []
        while not (costs and is_about_the_same(four, costs[-1])) and len(costs) < _WINDOWS_MAX:
            costs.append(cost_of_window(cloud))
        assert is_about_the_same(four, costs[-1]), (four, costs)
        assert (four.versions, costs[-1].versions) == (0, 0)
