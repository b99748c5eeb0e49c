"""The HTTP client with which replays use a running Berth, through the public API alone."""

import asyncio
import ssl
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Self

import httpx

from berth.domain.errors import BerthError, UnavailableError
from berth.domain.url_redaction import redact_url
from berth.lab.workload import FlavorSpec

# The microversion whose answers this client reads.
_VERSION = "compute 2.96"
_OK_MAX = 400
_CONFLICT = 409
_NOT_FOUND = 404
_UNAVAILABLE = 503
# Retries take ten seconds in total, long enough for a restart of the service during a replay.
_RETRIES = 40
_RETRY_S = 0.25
# A decision takes a few milliseconds, and a longer pause would dominate the time of a replay.
_POLL_S = 0.004

Json = dict[str, Any]


class ServiceError(BerthError):
    """The service answered with an error from which a replay cannot continue."""


@dataclass(frozen=True, slots=True)
class ServiceConnection:
    """The service's URL, and the account or the token that its authentication mode requires.

    `tls` says how certificates are verified; None by the system's authorities.
    """

    url: str
    user: str | None = None
    password: str | None = None
    token: str | None = None
    tls: ssl.SSLContext | None = None


class ServiceClient:
    """Creates, watches and deletes instances; repeats failed requests for ten seconds.

    A request is repeated if the connection fails or the service answers 503. Creates carry an
    idempotency key, so a repetition never creates an instance twice.

    Each method raises UnavailableError if all repetitions fail, and ServiceError if the service
    answers with another error.

    Args:
        connection: the URL and the account.
        connections_max: the maximum number of simultaneous connections.
    """

    def __init__(self, connection: ServiceConnection, *, connections_max: int = 32) -> None:
        auth = None
        if connection.user is not None:
            auth = httpx.BasicAuth(connection.user, connection.password or "")
        self._http = httpx.AsyncClient(
            base_url=connection.url,
            auth=auth,
            timeout=httpx.Timeout(60.0),
            headers={"OpenStack-API-Version": _VERSION}
            | ({"X-Auth-Token": connection.token} if connection.token else {}),
            verify=connection.tls or True,
            limits=httpx.Limits(max_connections=connections_max),
            trust_env=False,  # a proxy from the environment would distort the measured times
        )

    async def __aenter__(self) -> Self:
        """Return the client, which `__aexit__` closes."""
        return self

    async def __aexit__(self, *_: object) -> None:
        """Close all connections."""
        await self._http.aclose()

    async def ensure_flavor(self, spec: FlavorSpec) -> None:
        """Create a flavor whose id is its name, unless it exists."""
        body = {
            "id": spec.name,
            "name": spec.name,
            "vcpus": spec.vcpus,
            "ram": spec.memory_mb,
            "disk": spec.disk_gb,
        }
        answer = await self._send("POST", "/v2.1/flavors", {"flavor": body})
        if answer.status_code == _CONFLICT:
            return
        _check(answer)
        if spec.extra_specs:
            path = f"/v2.1/flavors/{spec.name}/os-extra_specs"
            _check(await self._send("POST", path, {"extra_specs": spec.extra_specs}))

    async def ensure_zone(self, zone: str, hosts: list[str]) -> None:
        """Create an aggregate that puts hosts in an availability zone, unless it exists."""
        answer = await self._send("GET", "/v2.1/os-aggregates")
        _check(answer)
        if any(one["name"] == zone for one in answer.json()["aggregates"]):
            return
        body = {"aggregate": {"name": zone, "availability_zone": zone}}
        created = await self._send("POST", "/v2.1/os-aggregates", body)
        _check(created)
        path = f"/v2.1/os-aggregates/{created.json()['aggregate']['id']}/action"
        for host in hosts:
            _check(await self._send("POST", path, {"add_host": {"host": host}}))

    async def create(self, body: Mapping[str, object], key: str) -> str:
        """Create servers and return the request's id; a repeated key returns the same id again."""
        answer = await self._send("POST", "/v2.1/servers", {"server": body}, key=key)
        _check(answer)
        return answer.headers["x-openstack-request-id"]

    async def decision_of(self, request_id: str, timeout_s: float = 60.0) -> Json:
        """Wait for the decision about a request, and return it.

        Raises:
            TimeoutError: there is no decision within `timeout_s` seconds.
        """
        path = f"/berth/v1/decisions/{request_id}"
        async with asyncio.timeout(timeout_s):
            while True:
                answer = await self._send("GET", path)
                if answer.status_code != _NOT_FOUND:
                    _check(answer)
                    decision: Json = answer.json()
                    return decision
                await asyncio.sleep(_POLL_S)

    async def delete(self, server: str, timeout_s: float = 60.0) -> None:
        """Delete a server and wait until its room is free.

        Raises:
            TimeoutError: the server still exists after `timeout_s` seconds.
        """
        path = f"/v2.1/servers/{server}"
        answer = await self._send("DELETE", path)
        async with asyncio.timeout(timeout_s):
            while answer.status_code != _NOT_FOUND:
                _check(answer)
                await asyncio.sleep(_POLL_S)
                answer = await self._send("GET", path)

    async def hosts(self) -> list[Json]:
        """Return all hosts with their inventories and usage."""
        found: list[Json] = (await self._json("/berth/v1/hosts"))["hosts"]
        return found

    async def _json(self, path: str) -> Json:
        answer = await self._send("GET", path)
        _check(answer)
        document: Json = answer.json()
        return document

    async def _send(
        self, method: str, path: str, body: object = None, *, key: str | None = None
    ) -> httpx.Response:
        headers = {} if key is None else {"Idempotency-Key": key}
        content: dict[str, Any] = {} if body is None else {"json": body}
        for _ in range(_RETRIES):
            try:
                answer = await self._http.request(method, path, headers=headers, **content)
            # The service may have carried out the request. The key makes a create idempotent, and a
            # repeated delete or read does no harm.
            except httpx.TransportError:
                await asyncio.sleep(_RETRY_S)
                continue
            if answer.status_code != _UNAVAILABLE:
                return answer
            await asyncio.sleep(_RETRY_S)
        raise UnavailableError(
            f"{redact_url(str(self._http.base_url))} did not answer, or answered 503, for "
            f"{_RETRIES * _RETRY_S:g} s; start the service with `berth up`, or pass the URL of "
            "another with --url"
        )


def _check(answer: httpx.Response) -> None:
    if answer.status_code >= _OK_MAX:
        request = answer.request
        raise ServiceError(
            f"{request.method} {request.url.path} failed with {answer.status_code}: "
            f"{answer.text[:500]}"
        )
