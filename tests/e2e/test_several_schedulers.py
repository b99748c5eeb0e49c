"""Four schedulers on one fleet, some of which are killed while they work."""

from concurrent.futures import ThreadPoolExecutor
from itertools import count
from pathlib import Path

import pytest

from berth.adapters.bus.rabbitmq import RabbitBroker
from tests.e2e.conftest import Part, Processes, Service
from tests.e2e.test_broker import settings_file, start_api, used_vcpus

pytestmark = [pytest.mark.postgres, pytest.mark.rabbitmq]

_SCHEDULERS = 4
_SERVERS = 60
_KILLED_AFTER = (10, 25, 40)


@pytest.mark.timeout(600)
@pytest.mark.parametrize("way", ["called", "pending"])
def test_nothing_is_lost_or_duplicated_when_schedulers_die(
    processes: Processes,
    service: Service,
    broker: RabbitBroker,
    fresh_postgres_url: str,
    tmp_path: Path,
    way: str,
) -> None:
    """Each create ends in one server whose resources count once, whichever scheduler is killed.

    This holds over the broker and without one, where schedulers read requests from the ledger.
    """
    ledger = fresh_postgres_url
    config = settings_file(tmp_path, broker, broker.url)
    if way == "pending":
        Path(config).write_text("")

    def start() -> Part:
        return processes.start("scheduler", "--ledger", ledger, "--config", config)

    start_api(processes, service, ledger, config)
    running = [start() for _ in range(_SCHEDULERS)]
    for part in running:
        part.wait_for_log("scheduler_started")
    done = count(1)

    def create(number: int) -> str:
        uuid = service.create("small", f"key-{number}")
        if next(done) in _KILLED_AFTER:
            running.pop(0).kill()
            running.append(start())
        return uuid

    with ThreadPoolExecutor(8) as pool:
        uuids = list(pool.map(create, range(_SERVERS)))
    assert len(set(uuids)) == _SERVERS
    servers = [service.wait_for_status(uuid, "ACTIVE", "ERROR") for uuid in uuids]
    assert {server["status"] for server in servers} == {"ACTIVE"}
    assert used_vcpus(service) == _SERVERS
    for part in running:
        # A scheduler that gets SIGTERM before it has started does not exit with code 0.
        part.wait_for_log("scheduler_started")
    assert [part.stop() for part in running] == [0] * _SCHEDULERS
