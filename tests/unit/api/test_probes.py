"""Health, readiness and metrics, and the counting of requests."""

from dataclasses import replace

import httpx
import pytest
from starlette.types import ASGIApp

from berth.adapters.metrics_prometheus import PrometheusMetrics
from berth.api.app import build_app
from berth.api.auth.authentication import NoAuth
from berth.api.observed import Observed, RequestMetrics
from berth.api.probes import MetricsPage, Probes, nothing_else
from tests.unit.api.cloud import Stack

_METHODS = {"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "other"}


class Checked:
    """Readiness checks with given problems."""

    def __init__(self, *problems: str) -> None:
        self._problems = list(problems)

    async def problems(self) -> list[str]:
        """Return the given problems."""
        return self._problems


def client(app: ASGIApp) -> httpx.AsyncClient:
    """Return a client of an application."""
    transport = httpx.ASGITransport(app, raise_app_exceptions=False)
    return httpx.AsyncClient(transport=transport, base_url="http://berth.test")


def watched(stack: Stack, metrics: PrometheusMetrics) -> ASGIApp:
    """Return the API of a stack with metrics for administrators."""
    page = MetricsPage(metrics, NoAuth(frozenset({"admin"})))
    app = build_app(replace(stack.parts, page=page))
    return Observed(app, stack.clock, [RequestMetrics(metrics)])


async def test_readiness_is_public(stack: Stack) -> None:
    """Readiness needs no valid token."""
    answer = await stack.ask("GET", "/readyz", token=":")
    assert (answer.status, answer.body) == (200, {"status": "ready", "problems": []})


async def test_who_is_not_ready_says_why(stack: Stack) -> None:
    """A process that is not ready answers 503 with its problems, and is still healthy."""
    app = build_app(replace(stack.parts, checks=Checked("the ledger does not answer")))
    async with client(app) as http:
        answer = await http.get("/readyz")
        assert answer.status_code == 503
        problems = ["the ledger does not answer"]
        assert answer.json() == {"status": "not ready", "problems": problems}
        assert (await http.get("/healthz")).status_code == 200


async def test_metrics_are_for_administrators(stack: Stack) -> None:
    """Other users get 403, and other methods 405."""
    async with client(watched(stack, PrometheusMetrics())) as http:
        refused = await http.get("/metrics", headers={"X-Auth-Token": "eve:p"})
        assert refused.status_code == 403
        answer = await http.get("/metrics")
        assert answer.status_code == 200
        assert answer.headers["content-type"].startswith("text/plain; version=0.0.4")
        assert answer.headers["x-openstack-request-id"].startswith("req-")
        assert "berth_http_requests_total" in answer.text
        assert (await http.post("/metrics")).status_code == 405


async def test_without_metrics_there_is_no_page(stack: Stack) -> None:
    """Without a metrics page, the path gets 404."""
    assert (await stack.ask("GET", "/metrics")).status == 404


async def test_requests_are_counted_by_template(stack: Stack) -> None:
    """Requests are counted by route template, including those that no route matches."""
    metrics = PrometheusMetrics()
    async with client(watched(stack, metrics)) as http:
        for number in range(3):
            await http.get(f"/v2.1/flavors/{number}")
        await http.get("/v2.1/flavors")
        await http.get("/readyz")
        await http.get("/" + "x" * 20_000)
    text = (await metrics.expose()).decode()
    counted = 'berth_http_requests_total{{method="GET",route="{}",status="{}xx"}} {}.0\n'
    assert counted.format("/v2.1/flavors/{flavor_id}", 4, 3) in text
    assert counted.format("/v2.1/flavors", 2, 1) in text
    assert counted.format("/readyz", 2, 1) in text
    assert counted.format("other", 4, 1) in text


async def test_a_missing_feature_is_counted_apart_from_failures(stack: Stack) -> None:
    """A call that gets 501 is counted with that status, and not as 5xx."""
    metrics = PrometheusMetrics()
    async with client(watched(stack, metrics)) as http:
        response = await http.get("/v2.1/os-volumes")
    assert response.status_code == 501
    text = (await metrics.expose()).decode()
    assert 'status="501"} 1.0' in text
    assert 'status="5xx"' not in text


@pytest.mark.parametrize(
    "path",
    [
        "/v2.1/servers/%00",
        "/v2.1/%2e%2e/%2e%2e/etc/passwd",
        '/v2.1/servers/"}%0aberth_hosts 9',
        "/placement/resource_providers/ünï",
        "/v2.1/servers/" + "a" * 300,
        "//v2.1//flavors",
        "/v2.1/no/such/path",
    ],
)
@pytest.mark.parametrize("method", ["GET", "BREW", "X" * 60, 'G"}'])
async def test_nobody_makes_labels(stack: Stack, path: str, method: str) -> None:
    """Arbitrary paths and methods do not become labels."""
    metrics = PrometheusMetrics()
    async with client(watched(stack, metrics)) as http:
        await http.request(method, path)
    (line,) = [
        line
        for line in (await metrics.expose()).decode().splitlines()
        if line.startswith("berth_http_requests_total{")
    ]
    labels = dict(part.split("=") for part in line.split("{", 1)[1].rsplit("}", 1)[0].split(","))
    assert labels["method"].strip('"') in _METHODS
    assert labels["route"].strip('"') in {
        "other",
        "/v2.1/servers/{server_id}",
        "/placement/resource_providers/{uuid}",
    }
    assert labels["status"].strip('"') in {"4xx", "5xx", "501"}


async def test_an_address_of_their_own_has_probes_and_nothing_else() -> None:
    """A separate address for probes serves no other API."""
    page = MetricsPage(PrometheusMetrics())
    async with client(Probes(nothing_else, Checked(), page)) as http:
        assert (await http.get("/metrics")).status_code == 200
        assert (await http.get("/healthz")).json() == {"status": "ok"}
        assert (await http.get("/readyz")).json() == {"status": "ready", "problems": []}
        assert (await http.delete("/readyz")).status_code == 405
        assert (await http.get("/v2.1/servers")).status_code == 404
