"""The blocking and the asynchronous client."""

from collections.abc import Mapping
from functools import cached_property
from types import TracebackType
from typing import TYPE_CHECKING, Self, Unpack

import httpx

from berth.client.endpoint import (
    AsyncCredentials,
    Credentials,
    Options,
    exchange_for,
    http_options,
    parsed_url,
)
from berth.client.operations import Group, K, operation
from berth.client.requests import Json, Request, Steps, query_string, read_document
from berth.client.senders import Awaiting, Blocking

# A program pays only for the groups that it uses: a group is imported with its types at first use.
if TYPE_CHECKING:
    from berth.client.audit import Audit
    from berth.client.audit_log import AuditLog
    from berth.client.capacity import Candidates, Capacity
    from berth.client.decisions import Decisions
    from berth.client.host_keys import HostKeys
    from berth.client.hosts import Hosts
    from berth.client.instances import Instances
    from berth.client.maintenance import Drains, Maintenance
    from berth.client.status import FleetState, Policy, Status
    from berth.client.top import FleetLoad


class Service(Group[K]):
    """Berth's own API, `/berth/v1`: groups of operations by noun, and those that have no group."""

    @operation
    def status(self) -> "Steps[Status]":
        """Return versions, counts, and how far the process that answers is behind the ledger."""
        from berth.client.status import STATUS  # noqa: PLC0415 - see above

        return STATUS.ask()

    @operation
    def top(
        self, *, sort: str = "load", availability_zone: str | None = None, limit: int = 50
    ) -> "Steps[FleetLoad]":
        """Return the load of the fleet, the queue, the schedulers, and the busiest hosts.

        Args:
            sort: the order of the hosts: `load` (the largest used share of a resource class),
                `name`, `instances`, `tasks` or a resource class.
            availability_zone: limits the load to this zone; None for all hosts.
            limit: the maximum number of hosts in the response, 1,000 at most.
        """
        from berth.client.top import TOP  # noqa: PLC0415 - see above

        return TOP.ask(query={"sort": sort, "availability_zone": availability_zone, "limit": limit})

    @operation
    def capacity(
        self,
        flavor: str,
        *,
        availability_zone: str | None = None,
        image: str | None = None,
        limit: int | None = None,
    ) -> "Steps[Capacity]":
        """Return how many more servers of a flavor the scheduler would place.

        Args:
            flavor: the id of the flavor.
            availability_zone: count only in this zone; None for all.
            image: the id of the image of the servers.
            limit: the maximum number of hosts in the response; None for all.
        """
        from berth.client.capacity import CAPACITY  # noqa: PLC0415 - see above

        query = {
            "flavor": flavor,
            "availability_zone": availability_zone,
            "image": image,
            "limit": limit,
        }
        return CAPACITY.ask(query=query)

    @operation
    def request(
        self,
        method: str,
        path: str,
        *,
        query: Mapping[str, object] | str = "",
        body: object = None,
        headers: Mapping[str, str] | None = None,
    ) -> Steps[Json]:
        """Send a request that has no method here, and return the JSON object in the response.

        For the compute API, OpenStack's SDK is more convenient.

        Args:
            method: the HTTP method.
            path: the path below the address of the service, with its segments quoted.
            query: parameters, or a complete query string; None values are omitted.
            body: the document to send as JSON; None sends no body.
            headers: additional headers.

        Raises:
            UnreadableAnswerError: the response is not a JSON object.
        """
        request = Request(method, path, query_string(query), body, headers or {})
        content: bytes = yield request
        return read_document(content, request)

    @cached_property
    def hosts(self) -> "Hosts[K]":
        """Hosts."""
        from berth.client.hosts import Hosts  # noqa: PLC0415 - see above

        return Hosts(self.sender)

    @cached_property
    def maintenance(self) -> "Maintenance[K]":
        """Hosts in maintenance."""
        from berth.client.maintenance import Maintenance  # noqa: PLC0415 - see above

        return Maintenance(self.sender)

    @cached_property
    def drains(self) -> "Drains[K]":
        """Drains of hosts."""
        from berth.client.maintenance import Drains  # noqa: PLC0415 - see above

        return Drains(self.sender)

    @cached_property
    def host_keys(self) -> "HostKeys[K]":
        """Keys of hosts."""
        from berth.client.host_keys import HostKeys  # noqa: PLC0415 - see above

        return HostKeys(self.sender)

    @cached_property
    def decisions(self) -> "Decisions[K]":
        """Decisions."""
        from berth.client.decisions import Decisions  # noqa: PLC0415 - see above

        return Decisions(self.sender)

    @cached_property
    def candidates(self) -> "Candidates[K]":
        """Allocation candidates."""
        from berth.client.capacity import Candidates  # noqa: PLC0415 - see above

        return Candidates(self.sender)

    @cached_property
    def instances(self) -> "Instances[K]":
        """Records of servers."""
        from berth.client.instances import Instances  # noqa: PLC0415 - see above

        return Instances(self.sender)

    @cached_property
    def audit(self) -> "Audit[K]":
        """The audit of the ledger."""
        from berth.client.audit import Audit  # noqa: PLC0415 - see above

        return Audit(self.sender)

    @cached_property
    def audit_log(self) -> "AuditLog[K]":
        """The audit log."""
        from berth.client.audit_log import AuditLog  # noqa: PLC0415 - see above

        return AuditLog(self.sender)

    @cached_property
    def policy(self) -> "Policy[K]":
        """The policy of decisions."""
        from berth.client.status import Policy  # noqa: PLC0415 - see above

        return Policy(self.sender)

    @cached_property
    def state(self) -> "FleetState[K]":
        """The state of the fleet."""
        from berth.client.status import FleetState  # noqa: PLC0415 - see above

        return FleetState(self.sender)


class Client(Service[Blocking]):
    """The blocking client. Threads may share one; it keeps its connections until it is closed.

    Args:
        url: the address of the service, such as `http://127.0.0.1:8774`.
        auth: user and password for HTTP Basic, a token, or a function that returns a new token,
            which is called at first and again when the service refuses the token as expired.
        transport: what sends HTTP requests instead of sockets, for tests.
        options: see `Options`.

    Raises:
        ValueError: the address is not an HTTP URL.
        OSError: the file of CA certificates cannot be read, or has none.
    """

    def __init__(
        self,
        url: str,
        *,
        auth: Credentials | None = None,
        transport: httpx.BaseTransport | None = None,
        **options: Unpack[Options],
    ) -> None:
        address = parsed_url(url)
        http = httpx.Client(**http_options(address, auth, options), transport=transport)
        renew = auth if callable(auth) else None
        super().__init__(Blocking(http, exchange_for(address, auth, options), renew))

    def close(self) -> None:
        """Close all connections."""
        self.sender.http.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()


class AsyncClient(Service[Awaiting]):
    """The asynchronous client, for asyncio; all else is as for `Client`.

    Args:
        url: the address of the service.
        auth: see `Client`; the function may be a coroutine function.
        transport: what sends HTTP requests instead of sockets, for tests.
        options: see `Options`.

    Raises:
        ValueError: the address is not an HTTP URL.
        OSError: the file of CA certificates cannot be read, or has none.
    """

    def __init__(
        self,
        url: str,
        *,
        auth: AsyncCredentials | None = None,
        transport: httpx.AsyncBaseTransport | None = None,
        **options: Unpack[Options],
    ) -> None:
        address = parsed_url(url)
        http = httpx.AsyncClient(**http_options(address, auth, options), transport=transport)
        renew = auth if callable(auth) else None
        super().__init__(Awaiting(http, exchange_for(address, auth, options), renew))

    async def aclose(self) -> None:
        """Close all connections."""
        await self.sender.http.aclose()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.aclose()
