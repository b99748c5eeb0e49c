"""Outages of PostgreSQL: for all processes, for one of them, and during transactions."""

import time

import httpx
import pytest

from tests.e2e.conftest import Processes, Service
from tests.e2e.outages.cloud import PARTS, check_costs, cloud
from tests.e2e.outages.tenants import Tenants, check_settled

pytestmark = [pytest.mark.postgres, pytest.mark.slow, pytest.mark.timeout(600)]

_AWAY_S = 6.0
"""The duration of the outage; it is longer than any wait with the timeouts of this cloud."""
_ALONE_S = 4.0
_CUTS = 30


@pytest.fixture
def ledger(fresh_postgres_url: str) -> str:
    """Return the URL of a database without TLS, so the proxies can read the statements."""
    return f"{fresh_postgres_url}?sslmode=disable"


@pytest.mark.parametrize("way", ["closed", "silent"])
def test_nothing_is_lost_while_it_is_away(
    processes: Processes, service: Service, ledger: str, way: str
) -> None:
    """Requests are answered with a reason, no process ends, and the cloud recovers by itself."""
    with cloud(processes, service, ledger) as made, Tenants(service) as tenants:
        tenants.wait_for(10)
        before = made.costs()
        for relay in made.ledgers.values():
            relay.close() if way == "closed" else relay.silence()
        time.sleep(_AWAY_S)
        check_costs(before, made.costs(), _AWAY_S)
        answer = httpx.get(f"{service.url}/readyz", trust_env=False, timeout=30.0)
        assert answer.status_code == httpx.codes.SERVICE_UNAVAILABLE
        assert "the ledger does not answer" in answer.text
        for relay in made.ledgers.values():
            relay.open()
        tenants.wait_for(len(tenants.uuids) + 10)
        tenants.stop()
        assert tenants.answers[httpx.codes.SERVICE_UNAVAILABLE] > 0
        check_settled(made, tenants)


def test_nothing_is_lost_while_one_process_is_cut_off(
    processes: Processes, service: Service, ledger: str
) -> None:
    """Creates are accepted while the scheduler or the agent has no ledger."""
    with cloud(processes, service, ledger) as made, Tenants(service, threads=2) as tenants:
        for name in PARTS:
            accepted = len(tenants.uuids)
            made.ledgers[name].silence()
            if name == "api":
                time.sleep(_ALONE_S)
            else:
                tenants.wait_for(accepted + 5)
            made.ledgers[name].open()
            tenants.wait_for(len(tenants.uuids) + 5)
        tenants.stop()
        made.costs()
        check_settled(made, tenants)


def test_nothing_happens_twice_when_answers_of_commits_are_lost(
    processes: Processes, service: Service, ledger: str
) -> None:
    """Each request takes effect once, whether an interrupted commit has arrived or not."""
    with cloud(processes, service, ledger) as made, Tenants(service) as tenants:
        for number in range(_CUTS):
            proxy = made.ledgers[PARTS[number % len(PARTS)]].proxy
            if number % 2:
                proxy.loses_answer_of = b"COMMIT"
            else:
                proxy.loses = b"COMMIT"
            time.sleep(0.2)
        for relay in made.ledgers.values():
            relay.proxy.loses = relay.proxy.loses_answer_of = None
        tenants.wait_for(len(tenants.uuids) + 5)
        tenants.stop()
        check_settled(made, tenants)
