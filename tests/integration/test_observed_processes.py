"""Metrics, probes and spans of real processes."""

import json
import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import httpx
import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.trace.v1.trace_pb2 import Span

from berth.adapters.bus.rabbitmq import RabbitBroker
from berth.cli.main import main
from berth.lab.loopback import free_port
from tests.forks import forks

READY_S = 180.0
REQUEST_ID = "x-openstack-request-id"
SERVER = {"server": {"name": "a", "flavorRef": "f", "imageRef": "i", "networks": "none"}}
NEWEST = {"OpenStack-API-Version": "compute 2.90"}


@contextmanager
def berth(folder: Path, *words: str, **settings: str) -> Iterator[None]:
    """Run a process until the end of the body, and check that it exits with 0."""
    environ = {**os.environ, **settings, "BERTH_LOG_FORMAT": "json"}
    process = forks().start(words, environ, folder, folder / f"{words[0]}.log")
    try:
        yield
        process.send_signal(signal.SIGTERM)
        assert process.wait(20) == 0
    finally:
        process.kill()
        process.wait()


def until(asked: Callable[[], bool]) -> None:
    """Call `asked` until it returns True, or fail the test after `READY_S`."""
    ends_s = time.monotonic() + READY_S
    while time.monotonic() < ends_s:
        try:
            if asked():
                return
        except httpx.TransportError:
            pass
        time.sleep(0.1)
    pytest.fail("it did not come about in time")


def get(url: str) -> httpx.Response:
    """Send a GET request, ignoring proxy settings."""
    return httpx.get(url, trust_env=False)


class Collector:
    """A server that receives spans, like OpenTelemetry's collector."""

    def __init__(self) -> None:
        self.found: list[tuple[str, Span]] = []
        spans = self.found

        class Handler(BaseHTTPRequestHandler):
            """Stores the spans that it receives."""

            def do_POST(self) -> None:
                """Store each span with the name of its service."""
                length = int(self.headers["content-length"])
                body = self.rfile.read(length)
                if self.headers["content-encoding"] is None:
                    for group in ExportTraceServiceRequest.FromString(body).resource_spans:
                        name = {one.key: one.value for one in group.resource.attributes}
                        service = name["service.name"].string_value
                        for scope in group.scope_spans:
                            spans.extend((service, span) for span in scope.spans)
                self.send_response(200)
                self.end_headers()

            def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - as theirs
                """Log nothing."""

        self._server = HTTPServer(("127.0.0.1", 0), Handler)
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    @property
    def url(self) -> str:
        """The URL to which processes send spans."""
        return f"http://127.0.0.1:{self._server.server_port}/v1/traces"

    def close(self) -> None:
        """Stop the server."""
        self._server.shutdown()
        self._server.server_close()


@pytest.mark.parametrize("part", ["scheduler", "agent", "placement"])
def test_every_process_has_an_address_for_probes(tmp_path: Path, part: str) -> None:
    """A process serves its metrics and both probes at that address, and nothing else."""
    port = free_port()
    base = f"http://127.0.0.1:{port}"
    words = {
        "scheduler": ("scheduler",),
        "agent": ("agent", "--fake-hosts", "3"),
        "placement": ("placement", "--listen", "127.0.0.1:0"),
    }
    settings = {"BERTH_METRICS_LISTEN": f"127.0.0.1:{port}"}
    with berth(tmp_path, *words[part], **settings):
        until(lambda: get(f"{base}/readyz").status_code == 200)
        assert get(f"{base}/healthz").json() == {"status": "ok"}
        text = get(f"{base}/metrics").text
        assert "berth_ledger_up 1.0" in text
        assert ('berth_hosts{state="up"} 3.0' in text) == (part == "agent")
        assert ("berth_pending_requests 0.0" in text) == (part != "placement")
        assert get(f"{base}/v2.1/servers").status_code == 404


@pytest.fixture(params=["ledger", pytest.param("broker", marks=pytest.mark.rabbitmq)])
def bus(request: pytest.FixtureRequest) -> dict[str, str]:
    """Return settings for communication by the ledger alone, or also by a broker."""
    if request.param == "ledger":
        return {}
    broker: RabbitBroker = request.getfixturevalue("broker")
    return {"BERTH_BUS_URL": broker.url, "BERTH_BUS_PREFIX": broker.prefix}


def test_one_request_is_one_trace_through_all_processes(
    tmp_path: Path, bus: dict[str, str]
) -> None:
    """The spans of api, scheduler and agent form one trace, with or without a broker."""
    collector, port, ready = Collector(), free_port(), f"127.0.0.1:{free_port()}"
    base = f"http://127.0.0.1:{port}"
    settings = {"BERTH_TRACING_ENDPOINT": collector.url, **bus}
    with ExitStack() as stack:
        stack.callback(collector.close)
        with ExitStack() as processes:
            api = ("api", "--listen", f"127.0.0.1:{port}")
            for words in (api, ("agent", "--fake-hosts", "2")):
                processes.enter_context(berth(tmp_path, *words, **settings))
            watched = {"BERTH_METRICS_LISTEN": ready}
            processes.enter_context(berth(tmp_path, "scheduler", **settings, **watched))
            until(lambda: get(f"http://{ready}/readyz").status_code == 200)
            if bus:
                until(lambda: "berth_broker_up 1.0" in get(f"{base}/metrics").text)
            until(lambda: 'state="up"} 2.0' in get(f"{base}/metrics").text)
            with httpx.Client(base_url=base, headers=NEWEST, trust_env=False) as http:
                flavor = {"id": "f", "name": "f", "vcpus": 1, "ram": 512, "disk": 1}
                assert http.post("/v2.1/flavors", json={"flavor": flavor}).is_success
                made = http.post("/v2.1/servers", json=SERVER)
                assert made.status_code == 202, made.text
                decided = http.get(f"/berth/v1/decisions/{made.headers[REQUEST_ID]}")
                assert decided.is_success or not bus, "the scheduler was not called"
                where = f"/v2.1/servers/{made.json()['server']['id']}"
                until(lambda: http.get(where).json()["server"]["status"] == "ACTIVE")
        trace_id = made.headers[REQUEST_ID].removeprefix("req-").replace("-", "")
        found = [one for one in collector.found if one[1].trace_id.hex() == trace_id]
        assert {(service, span.name) for service, span in found} == {
            ("berth-api", "http"),
            ("berth-scheduler", "place"),
            ("berth-scheduler", "decide"),
            ("berth-scheduler", "claim"),
            ("berth-scheduler", "commit"),
            ("berth-agent", "agent spawning"),
        }
        spans = {span.name: span for _, span in found}
        above = {
            name: next(
                (o.name for o in spans.values() if o.span_id == span.parent_span_id), "nothing"
            )
            for name, span in spans.items()
        }
        assert above == {
            "http": "nothing",
            "place": "http",
            "decide": "place",
            "claim": "place",
            "commit": "claim",
            "agent spawning": "http",
        }


def test_berth_log_collects_the_lines_of_all_processes(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """One request has lines of the API, the scheduler and the agent, each in a file of its own."""
    port, ready = free_port(), f"127.0.0.1:{free_port()}"
    base = f"http://127.0.0.1:{port}"
    logs = tmp_path / "logs"
    logs.mkdir()

    def file_of(part: str) -> dict[str, str]:
        return {"BERTH_LOG_FILE": str(logs / f"{part}.log")}

    with ExitStack() as processes:
        api = ("api", "--listen", f"127.0.0.1:{port}")
        processes.enter_context(berth(tmp_path, *api, **file_of("api")))
        agent = ("agent", "--fake-hosts", "2")
        processes.enter_context(berth(tmp_path, *agent, **file_of("agent")))
        settings = {"BERTH_METRICS_LISTEN": ready, **file_of("scheduler")}
        processes.enter_context(berth(tmp_path, "scheduler", **settings))
        until(lambda: get(f"http://{ready}/readyz").status_code == 200)
        until(lambda: 'state="up"} 2.0' in get(f"{base}/metrics").text)
        with httpx.Client(base_url=base, headers=NEWEST, trust_env=False) as http:
            flavor = {"id": "f", "name": "f", "vcpus": 1, "ram": 512, "disk": 1}
            assert http.post("/v2.1/flavors", json={"flavor": flavor}).is_success
            made = http.post("/v2.1/servers", json=SERVER)
            assert made.status_code == 202, made.text
            request_id, where = made.headers[REQUEST_ID], made.json()["server"]["id"]
            until(lambda: status_of(http, where) == "ACTIVE")
            stopped = http.post(f"/v2.1/servers/{where}/action", json={"os-stop": None})
            until(lambda: status_of(http, where) == "SHUTOFF")
    lines = logged(request_id, logs, capsys)
    assert [line["event"] for line in lines if line["part"] == "agent"] == [
        "task_started",
        "task_ended",
    ]
    assert {(line["event"], line["part"]) for line in lines} == {
        ("http_request", "api"),
        ("decision_made", "scheduler"),
        ("task_started", "agent"),
        ("task_ended", "agent"),
    }
    decided = next(line for line in lines if line["event"] == "decision_made")
    assert (decided["verdict"], decided["instance"]) == ("placed", where)
    # The task of an action has the id of the action, not that of the create.
    done = logged(stopped.headers[REQUEST_ID], logs, capsys)
    assert [line["event"] for line in done] == ["http_request", "task_started", "task_ended"]
    assert done[-1]["outcome"] == "done"
    whole = logged(where, logs, capsys)
    assert {line["request_id"] for line in whole} >= {request_id, stopped.headers[REQUEST_ID]}


def status_of(http: httpx.Client, server: str) -> str:
    """Return the status of a server."""
    status: str = http.get(f"/v2.1/servers/{server}").json()["server"]["status"]
    return status


def logged(
    identifier: str, logs: Path, capsys: pytest.CaptureFixture[str]
) -> list[dict[str, object]]:
    """Return what `berth log` finds in a folder."""
    capsys.readouterr()
    assert main(["log", identifier, "--json", str(logs)]) == 0
    lines: list[dict[str, object]] = json.loads(capsys.readouterr().out)["lines"]
    return lines
