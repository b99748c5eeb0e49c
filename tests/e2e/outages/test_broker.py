"""Outages of RabbitMQ: the API leaves requests in the ledger, and clients notice nothing."""

import time

import pytest

from berth.adapters.bus.rabbitmq import RabbitBroker
from tests.e2e.conftest import Processes, Service
from tests.e2e.outages.cloud import check_costs, cloud
from tests.e2e.outages.tenants import Tenants, check_settled

pytestmark = [
    pytest.mark.postgres,
    pytest.mark.rabbitmq,
    pytest.mark.slow,
    pytest.mark.timeout(600),
]

_AWAY_S = 6.0
# 400 is the answer to a resize to the present flavor; `Tenants.wrong` has any other 400.
_ALLOWED = {200, 202, 204, 400, 404, 409}


@pytest.mark.parametrize("way", ["closed", "silent"])
def test_orders_are_accepted_while_it_is_away(
    processes: Processes, service: Service, fresh_postgres_url: str, broker: RabbitBroker, way: str
) -> None:
    """Requests are accepted without the broker, and the API reconnects by itself."""
    with cloud(processes, service, fresh_postgres_url, broker) as made:
        with Tenants(service) as tenants:
            tenants.wait_for(10)
            before = made.costs()
            for relay in made.brokers.values():
                relay.close() if way == "closed" else relay.silence()
            time.sleep(_AWAY_S)
            tenants.wait_for(len(tenants.uuids) + 5)
            check_costs(before, made.costs())
            for relay in made.brokers.values():
                relay.open()
            made.wait_for_reconnect("api")
            tenants.wait_for(len(tenants.uuids) + 5)
        check_settled(made, tenants)
        assert set(tenants.answers) <= _ALLOWED


def test_orders_are_accepted_while_one_process_is_cut_off(
    processes: Processes, service: Service, fresh_postgres_url: str, broker: RabbitBroker
) -> None:
    """A scheduler without the broker takes the pending requests from the ledger."""
    with cloud(processes, service, fresh_postgres_url, broker) as made:
        with Tenants(service) as tenants:
            for name in ("api", "scheduler"):
                made.brokers[name].close()
                tenants.wait_for(len(tenants.uuids) + 10)
                made.brokers[name].open()
                made.wait_for_reconnect(name)
            tenants.wait_for(len(tenants.uuids) + 5)
        check_settled(made, tenants)
        assert set(tenants.answers) <= _ALLOWED
