"""The dashboards and alerts, on a real Prometheus that scrapes a running Berth."""

import json
import os
import re
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import pytest

from berth.cli.dashboards import BOARDS, Board
from berth.lab.loopback import free_port
from berth.ports import measures
from tests.e2e.conftest import Part, Processes, Service
from tests.prometheus import prometheus

RULES = Path(__file__).parents[2] / "deploy" / "prometheus" / "berth.rules.yml"
PARTS = ("api", "scheduler", "agent")
_READY_S = 120.0
# The metrics of what this Berth does not have: a broker, Keystone, child zones and trouble. A
# scheduler without agents on a broker gets no messages about instances.
_ABSENT = {
    measure.name
    for measure in (
        measures.AGENT_FINDINGS,
        measures.BROKER_UP,
        measures.BUS_REFUSALS,
        measures.CHILD_ZONES,
        measures.FAILED_BUILDS,
        measures.HTTP_CONNECTIONS_CLOSED,
        measures.INSTANCE_MESSAGES,
        measures.INSTANCE_RELOADS,
        measures.KEYSTONE_UP,
        measures.OFFERS_HELD,
        measures.RULE_FAILURES,
        measures.TOKENS,
        measures.ZONE_INSTANCES_UNWANTED,
    )
}


@dataclass
class Monitored:
    """A running Berth in three processes, and the Prometheus that scrapes them.

    Attributes:
        url: the address of Prometheus.
        parts: the processes of Berth by their names.
    """

    url: str
    parts: dict[str, Part]

    def get(self, path: str, **parameters: str) -> dict[str, Any]:
        """Return the data of a response of Prometheus's API.

        Raises:
            AssertionError: Prometheus rejects the request; the message has its reason.
        """
        url = f"{self.url}/api/v1/{path}"
        answer = httpx.get(url, params=parameters, trust_env=False, timeout=30.0)
        assert answer.is_success, answer.text
        document: dict[str, Any] = answer.json()
        assert not document.get("warnings"), document
        data: dict[str, Any] = document["data"]
        return data

    def query(self, expression: str) -> list[dict[str, Any]]:
        """Return the series of an instant query."""
        found: list[dict[str, Any]] = self.get("query", query=expression)["result"]
        return found

    def alerts(self) -> set[str]:
        """Return the names of the alerts that fire, or will if their cause lasts."""
        return {one["labels"]["alertname"] for one in self.get("alerts")["alerts"]}

    def until(self, asked: Callable[[], object]) -> None:
        """Call `asked` until it returns a true value.

        Raises:
            AssertionError: it took too long; the logs are in the message.
        """
        ends_s = time.monotonic() + _READY_S
        while time.monotonic() < ends_s:
            try:
                if asked():
                    return
            except httpx.TransportError:
                pass
            time.sleep(0.2)
        logs = [part.log.read_text("utf-8", "replace")[-2000:] for part in self.parts.values()]
        pytest.fail("\n---\n".join(logs))


def shown(expression: str) -> str:
    """Return an expression with the values of Grafana's variables."""
    return expression.replace("$__rate_interval", "1m").replace("$job", "berth.*")


@pytest.fixture(scope="module")
def monitored(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Monitored]:
    """Run a Berth that has placed and refused servers, and a Prometheus that has scraped it."""
    tool, folder = prometheus(), tmp_path_factory.mktemp("monitored")
    running, api = Processes(folder), f"127.0.0.1:{free_port()}"
    metrics = {part: f"127.0.0.1:{free_port()}" for part in PARTS}
    more = {"api": ("--listen", api), "agent": ("--fake-hosts", "3")}
    try:
        parts = {
            part: running.start(
                part,
                *more.get(part, ()),
                environment={**os.environ, "BERTH_METRICS_LISTEN": metrics[part]},
            )
            for part in PARTS
        }
        with scraping(tool, folder, [*metrics.values()]) as url:
            system = Monitored(url, parts)
            _work(system, Service(f"http://{api}"))
            yield system
    finally:
        running.stop_all()


@contextmanager
def scraping(tool: Path, folder: Path, targets: list[str]) -> Iterator[str]:
    """Run Prometheus with the rules and the targets; yield its URL."""
    jobs = [{"job_name": "berth", "static_configs": [{"targets": targets}]}]
    settings = {
        "global": {"scrape_interval": "1s", "evaluation_interval": "1s"},
        "rule_files": [str(RULES)],
        "scrape_configs": jobs,
    }
    config, port = folder / "prometheus.yml", free_port()
    config.write_text(json.dumps(settings), "utf-8")  # JSON is YAML
    words = (
        f"--config.file={config}",
        f"--storage.tsdb.path={folder / 'tsdb'}",
        f"--web.listen-address=127.0.0.1:{port}",
    )
    with (folder / "prometheus.log").open("wb") as log:
        process = subprocess.Popen([str(tool), *words], stdout=log, stderr=log, cwd=folder)
    try:
        yield f"http://127.0.0.1:{port}"
    finally:
        process.terminate()
        process.wait(30)


def _work(system: Monitored, service: Service) -> None:
    """Have servers placed and one refused, while Prometheus scrapes."""
    service.wait_until(lambda status: status["hosts"]["up"] == 3, system.parts["api"])
    system.until(lambda: len(system.query("berth_info")) == len(PARTS))
    flavor = service.flavor(vcpus=1, ram=512)
    large = service.flavor("large", vcpus=1000)
    # A rate needs two samples of a series, and so work before and after a scrape.
    for number in range(3):
        uuid = service.create(flavor, f"small-{number}")
        refused = service.create(large, f"large-{number}")
        service.wait_for_status(uuid, "ACTIVE")
        service.wait_for_status(refused, "ERROR")
        time.sleep(2.5)
    system.until(lambda: system.query("min(count_over_time(up[1m])) >= 8"))
    system.until(lambda: system.query("max(berth_flavor_slots) > 0"))


@dataclass(frozen=True)
class Seen:
    """What Prometheus showed while this Berth was in order.

    Attributes:
        empty: the queries of panels without any series.
        present: the names of all metrics of Berth.
        rules: the error of each rule; empty if there was none.
        alerts: the names of the alerts that fired, or would if their cause lasted.
    """

    empty: frozenset[str]
    present: frozenset[str]
    rules: dict[str, str]
    alerts: frozenset[str]


@pytest.fixture(scope="module")
def seen(monitored: Monitored) -> Seen:
    """Return what Prometheus shows before any test breaks something."""
    queries = [
        query.expression for board in BOARDS for one in board.panels for query in one.queries
    ]
    groups = monitored.get("rules")["groups"]
    return Seen(
        frozenset(one for one in queries if not monitored.query(shown(one))),
        frozenset(one["metric"]["__name__"] for one in monitored.query('{__name__=~"berth_.+"}')),
        {rule["name"]: rule.get("lastError", "") for one in groups for rule in one["rules"]},
        frozenset(monitored.alerts()),
    )


@pytest.mark.parametrize("board", BOARDS, ids=lambda board: board.uid)
def test_every_panel_shows_something(seen: Seen, board: Board) -> None:
    """Each query is valid, and has series if its metrics exist in this Berth."""
    queries = [query.expression for panel in board.panels for query in panel.queries]
    assert [one for one in queries if one in seen.empty and not _names(one) <= _ABSENT] == []


def _names(expression: str) -> set[str]:
    found = re.findall(r"\bberth_\w+", expression)
    return {re.sub(r"_(bucket|sum|count)$", "", name) for name in found}


def test_what_this_berth_lacks_has_no_series(seen: Seen) -> None:
    """The list of metrics that may be missing has none that has series."""
    assert not seen.present & _ABSENT


def test_the_rules_are_loaded_and_quiet(seen: Seen) -> None:
    """Prometheus evaluates each rule without an error, and a Berth in order raises no alert."""
    assert len(seen.rules) == RULES.read_text("utf-8").count("- alert: ")
    assert {name: error for name, error in seen.rules.items() if error} == {}
    # No host can hold the large flavor, which was refused on purpose, and the small one has so much
    # less memory per CPU than the hosts that most of it is of no use.
    assert seen.alerts <= {"BerthFlavorFull", "BerthRequestsRefused", "BerthCapacityStranded"}


def test_a_dead_scheduler_raises_the_alarm(seen: Seen, monitored: Monitored) -> None:
    """When the only scheduler is killed, the API and Prometheus both notice."""
    assert not seen.alerts & {"BerthNoScheduler", "BerthProcessDown"}
    monitored.parts["scheduler"].kill()
    monitored.until(lambda: monitored.alerts() >= {"BerthNoScheduler", "BerthProcessDown"})
    assert monitored.query("max(berth_schedulers) == 0")
