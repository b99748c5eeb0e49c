"""A minute without the ledger or without the broker, with the default timeouts.

Only `make outages` waits that long; otherwise outage and timeouts take a quarter of that.
"""

import os
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

_IS_LONG = os.environ.get("BERTH_OUTAGES", "0") == "1"
_AWAY_S = 60.0 if _IS_LONG else 15.0
_TIMEOUT_S = 10.0 if _IS_LONG else 2.5


@pytest.mark.parametrize("what", ["ledger", "broker"])
def test_a_minute_is_got_over(
    processes: Processes, service: Service, fresh_postgres_url: str, broker: RabbitBroker, what: str
) -> None:
    """Every request is answered, none is lost, and all processes recover."""
    with cloud(processes, service, fresh_postgres_url, broker, timeout_s=_TIMEOUT_S) as made:
        with Tenants(service, threads=2) as tenants:
            tenants.wait_for(5)
            before = made.costs()
            away = made.ledgers if what == "ledger" else made.brokers
            for relay in away.values():
                relay.silence()
            time.sleep(_AWAY_S)
            check_costs(before, made.costs(), _AWAY_S if what == "ledger" else None)
            for relay in away.values():
                relay.open()
            if what == "broker":
                for name in made.brokers:
                    made.wait_for_reconnect(name)
            tenants.wait_for(len(tenants.uuids) + 5)
        assert (503 in tenants.answers) == (what == "ledger")
        check_settled(made, tenants)
