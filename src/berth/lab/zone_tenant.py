"""Requests instances from a tree of zones, as a tenant of its root does."""

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import httpx
import msgspec

from berth.domain.compute.decision import Decision, Verdict
from berth.domain.errors import UnavailableError
from berth.lab.workload import FlavorSpec
from berth.lab.zone_demo_plan import DemoRequest

Json = dict[str, Any]

Progress = Callable[[int, int, int], None]
"""Called after each request with the instances requested, placed and refused so far."""

# This is longer than `build_timeout_s` and `settle_s` together, after which a zone gives up.
_WAIT_S: Final = 120.0
_NOT_FOUND: Final = 404
_POLL_S: Final = 0.02
_BUILDING: Final = frozenset({"BUILD", "UNKNOWN"})


@dataclass(frozen=True, slots=True)
class RequestOutcome:
    """The outcome of one request; `zones` gives the number of its instances by zone, once known."""

    request_id: str
    reservation_id: str
    flavor: str
    count: int
    is_placed: bool
    took_s: float
    zones: Mapping[str, int] = field(default_factory=dict[str, int])


@dataclass(frozen=True, slots=True)
class TenantRefusal:
    """A refused request and the reason that the tenant sees; empty if none is shown."""

    request: RequestOutcome
    reason: str


class TreeTenant:
    """Creates instances at the root of a tree as a user, and reads decisions as its operator.

    Args:
        tenant: a client of the root with a user's account.
        operator: a client of the root with an administrator's account.
    """

    def __init__(self, tenant: httpx.Client, operator: httpx.Client) -> None:
        self._tenant = tenant
        self._operator = operator

    def make_flavors(self, flavors: Iterable[FlavorSpec]) -> None:
        """Create flavors at the root; the other zones need none of their own.

        Raises:
            UnavailableError: the root refuses or does not answer.
        """
        for one in flavors:
            fields: Json = {"id": one.name, "name": one.name, "vcpus": one.vcpus}
            fields |= {"ram": one.memory_mb, "disk": one.disk_gb}
            _ask(self._operator, "POST", "/v2.1/flavors", {"flavor": fields})
            if one.extra_specs:
                path = f"/v2.1/flavors/{one.name}/os-extra_specs"
                _ask(self._operator, "POST", path, {"extra_specs": one.extra_specs})

    def place_all(self, asks: Sequence[DemoRequest], progress: Progress) -> list[RequestOutcome]:
        """Place requests one after another, and return their outcomes.

        Raises:
            UnavailableError: see `place`.
        """
        outcomes: list[RequestOutcome] = []
        done = placed = 0
        for number, ask in enumerate(asks, start=1):
            outcome = self.place(ask, f"vm-{number:02d}")
            outcomes.append(outcome)
            done += ask.count
            placed += ask.count if outcome.is_placed else 0
            progress(done, placed, done - placed)
        return outcomes

    def place(self, ask: DemoRequest, name: str) -> RequestOutcome:
        """Request instances, all or none, wait for the decision, and return the outcome.

        Raises:
            UnavailableError: the root refuses the request as invalid, does not answer, or makes no
                decision within two minutes.
        """
        began_s = time.monotonic()
        server: Json = {"name": name, "flavorRef": ask.flavor, "networks": "none"}
        server["num_instances"] = ask.count
        answer = _ask(self._tenant, "POST", "/zones/servers", {"server": server})
        request_id: str = answer.headers["x-openstack-request-id"]
        decision = self.decision_of(request_id)
        return RequestOutcome(
            request_id=request_id,
            reservation_id=answer.json()["reservation_id"],
            flavor=ask.flavor,
            count=ask.count,
            is_placed=decision.verdict is Verdict.PLACED,
            took_s=time.monotonic() - began_s,
        )

    def decision_of(self, request_id: str) -> Decision:
        """Wait for the root's decision about a request, and return it.

        Raises:
            UnavailableError: there is no decision within two minutes, or the root does not answer.
        """
        path = f"/berth/v1/decisions/{request_id}"
        deadline_s = time.monotonic() + _WAIT_S
        # The answer 404 means "not decided yet"; the API has no call that waits for a decision.
        while time.monotonic() < deadline_s:
            answer = _send(self._operator, "GET", path)
            if answer.status_code != _NOT_FOUND:
                return msgspec.convert(_checked(answer).json(), Decision)
            time.sleep(_POLL_S)
        raise UnavailableError(
            f"the root made no decision about request {request_id} within {_WAIT_S:g} s"
        )

    def refused(self, ask: DemoRequest) -> TenantRefusal | None:
        """Place a request that exceeds the room, and return the refusal, or None if it fits.

        Raises:
            UnavailableError: see `place`.
        """
        outcome = self.place(ask, "too-many")
        if outcome.is_placed:
            return None
        servers = self._listed(outcome)
        fault: Json = servers[0].get("fault", {}) if servers else {}
        return TenantRefusal(outcome, fault.get("message", ""))

    def servers_of(self, outcome: RequestOutcome) -> list[Json]:
        """Wait until no server of a request is being built, and return those of all zones.

        After two minutes the servers are returned in their current state.

        Raises:
            UnavailableError: the root refuses the request or does not answer.
        """
        deadline_s = time.monotonic() + _WAIT_S
        while True:
            servers = self._listed(outcome)
            is_done = len(servers) == outcome.count and not any(map(_is_building, servers))
            if is_done or time.monotonic() > deadline_s:
                return servers
            time.sleep(_POLL_S)

    def _listed(self, outcome: RequestOutcome) -> list[Json]:
        path = f"/v2.1/servers/detail?reservation_id={outcome.reservation_id}"
        servers: list[Json] = _ask(self._tenant, "GET", path).json()["servers"]
        return servers


def _is_building(server: Json) -> bool:
    return server["status"] in _BUILDING


def _ask(http: httpx.Client, method: str, path: str, body: object = None) -> httpx.Response:
    return _checked(_send(http, method, path, body))


def _send(http: httpx.Client, method: str, path: str, body: object = None) -> httpx.Response:
    try:
        return http.request(method, path, json=body)
    except httpx.TransportError as error:
        raise UnavailableError(
            f"{method} {path} got no answer from {http.base_url}: {error}"
        ) from error


def _checked(answer: httpx.Response) -> httpx.Response:
    if answer.is_error:
        request, text = answer.request, answer.text[:500]
        reason = f"{request.method} {request.url.path} failed with {answer.status_code}: {text}"
        raise UnavailableError(reason)
    return answer
