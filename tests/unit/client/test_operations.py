"""Every method of the client, against the real application and the OpenAPI document."""

import asyncio
import base64
import re
from dataclasses import replace
from pathlib import Path

import httpx
import pytest

from berth.client import AsyncClient, Client, ConflictError, NotFoundError, NoValidHostError
from berth.domain.compute.host import Service
from berth.domain.ledger.audit_trail import NO_ENTRIES, AuditEntry, chain
from berth.domain.ledger.write import Add, Put
from tests.unit.api.cloud import Stack
from tests.unit.client.document import CheckedTransport, operations

URL = "http://berth.test"
ROOT = Path(__file__).parents[3]
KEY = base64.b64encode(bytes(range(32))).decode()


@pytest.fixture
async def stack() -> Stack:
    """Return a service with three hosts and the flavor `small`."""
    stack = Stack()
    await stack.start()
    await stack.flavor()
    return stack


@pytest.fixture
def transport(stack: Stack) -> CheckedTransport:
    """Return the connection to the service, which checks requests and responses."""
    return CheckedTransport(stack.app)


@pytest.fixture
def berth(transport: CheckedTransport) -> AsyncClient:
    """Return a client of the service."""
    return AsyncClient(URL, transport=transport)


async def decide(berth: AsyncClient, stack: Stack) -> None:
    """Use what concerns decisions."""
    server = await stack.server()
    explained = await berth.decisions.explain(server)
    explained.raise_for_refusal()
    (decision,) = await berth.decisions.list(server=server, verdict="placed")
    assert decision == explained
    assert decision.placements[0].host.startswith("host-")
    assert (await berth.decisions.explain(decision.request_id, server=server)) == decision
    tried = await berth.decisions.decide("small", count=2, idempotency_key="k", hints={"a": "b"})
    assert (tried.verdict, len(tried.placements)) == ("placed", 2)
    body = {"server": {"name": "n", "flavorRef": "small", "min_count": 100}}
    refused = await berth.decisions.decide_create(body)
    with pytest.raises(NoValidHostError) as caught:
        refused.raise_for_refusal()
    assert caught.value.refusal.asked == 100
    assert caught.value.refusal.relaxations
    capacity = await berth.capacity("small", availability_zone="nova", limit=1)
    assert capacity.total > 0
    assert capacity.hosts is not None
    assert len(capacity.hosts) == 1
    found = await berth.candidates.explain(
        "resources=VCPU:1&resources_A=MEMORY_MB:1&group_policy=none"
    )
    assert (found.fleet.providers, found.ends_at) == (3, None)
    assert (await berth.candidates.explain({"resources": "VCPU:99"})).ends_at is not None


async def keep_hosts(berth: AsyncClient, stack: Stack) -> None:
    """Use what concerns hosts and their maintenance."""
    names = [host.name async for host in berth.hosts.list(page_size=2)]
    assert names == ["host-0", "host-1", "host-2"]
    for size in (3, None):
        assert [host.name async for host in berth.hosts.list(page_size=size)] == names
    assert [host async for host in berth.hosts.list(page_size=0)] == []
    host = await berth.hosts.set_ratios("host-0", {"VCPU": 4})
    assert host.inventories["VCPU"].allocation_ratio == 4.0
    assert await berth.hosts.get(host.uuid) == host
    begun = await berth.maintenance.begin("host-1", until_s=stack.clock.now_s() + 60, reason="disk")
    assert await berth.maintenance.list() == (begun,)
    planned = await berth.drains.plan("host-1", migrate="cold", moves_locked=True)
    assert (planned.migrate, planned.total) == ("cold", len(planned.servers))
    started = await berth.drains.start("host-1", parallel=2)
    assert started.drain is not None
    assert (started.drain.state, started.drain.is_over) == ("running", False)
    await berth.drains.stop("host-1")
    stopped = await berth.drains.wait("host-1", timeout_s=5)
    assert stopped == await berth.maintenance.get("host-1")
    assert stopped.drain is not None
    assert stopped.drain.state == "stopped"
    await berth.maintenance.end("host-1")
    with pytest.raises(NotFoundError) as caught:
        await berth.maintenance.get("host-1")
    assert (caught.value.status, caught.value.code) == (404, "itemNotFound")
    assert caught.value.request_id is not None
    assert caught.value.request_id.startswith("req-")


async def write_off(berth: AsyncClient, stack: Stack) -> None:
    """Use what concerns a host that is lost."""
    with pytest.raises(ConflictError, match="force-down"):
        await berth.hosts.plan_write_off("host-2")
    service = await stack.ledger.get(Service, "host-2")
    assert service is not None
    await stack.ledger.commit([(Put(replace(service, forced_down=True)),)])
    await stack.clock.sleep(3600)
    assert (await berth.hosts.plan_write_off("host-2")).is_done is False
    assert (await berth.hosts.write_off("host-2")).is_done is True


async def enroll(berth: AsyncClient) -> None:
    """Use what concerns the keys of hosts."""
    token = (await berth.host_keys.enroll("host-9", life_s=60)).token
    assert await berth.host_keys.redeem("host-9", token, KEY) == ()
    await berth.host_keys.rotate("host-9")
    (key,) = await berth.host_keys.list()
    assert (key.host, key.state, key.keys) == ("host-9", "rotating", (KEY,))
    await berth.host_keys.revoke("host-9")


async def bind(berth: AsyncClient, stack: Stack) -> None:
    """Use what concerns records of servers."""
    server = await stack.server()
    assert (await berth.instances.get(server)).task == "spawning"
    await stack.activate(server)
    record = await berth.instances.wait(server, timeout_s=5)
    assert (record.status, record.flavor.vcpus) == ("ACTIVE", 2)
    assert (await berth.instances.zone(server)).availability_zone is None
    bound = await berth.instances.bind_zone(server, "nova", force=True)
    assert bound.availability_zone == "nova"


async def observe(berth: AsyncClient, stack: Stack) -> None:
    """Use what concerns the service itself."""
    entries = [AuditEntry(1, f"op-{name}", user_id=name) for name in "abc"]
    await stack.ledger.commit([(Add(chain(NO_ENTRIES, entries)),)])
    numbers = [entry.number async for entry in berth.audit_log.list(page_size=2)]
    assert numbers == [3, 2, 1]
    later = [one async for one in berth.audit_log.list(after=1, page_size=1, since_ms=0)]
    assert [one.number for one in later] == [2, 3]
    assert (await berth.audit_log.get(3)) == later[-1]
    assert (await berth.audit_log.head()).hash == later[-1].hash
    report = await berth.audit.report(host="host-0", grace_s=0.5)
    assert report.audited.hosts == 1
    assert (await berth.audit.mend(task_s=1, request_s=1)).version >= report.version
    load = await berth.top(sort="VCPU", limit=1)
    assert (load.hosts.total, load.lag, len(load.busiest)) == (3, 0, 1)
    status = await berth.status()
    assert (status.hosts.total, status.lag) == (3, 0)
    assert (await berth.policy.reload()).policy == await berth.policy.get()
    state = await berth.state.get()
    assert [host["name"] for host in state.hosts] == ["host-0", "host-1", "host-2"]
    async with berth.state.stream() as pieces:
        content = b"".join([piece async for piece in pieces])
    assert content.startswith(b'{"version":')


async def test_every_operation_is_carried_out(
    stack: Stack, transport: CheckedTransport, berth: AsyncClient
) -> None:
    """Each operation of the document succeeds at least once, and all bodies fit their schemas."""
    await decide(berth, stack)
    await keep_hosts(berth, stack)
    await enroll(berth)
    await bind(berth, stack)
    await observe(berth, stack)
    await write_off(berth, stack)
    assert transport.done == {f"{method} {path}" for method, path, _ in operations()}


class Bridge(httpx.BaseTransport, httpx.AsyncBaseTransport):
    """Lets a client in another thread use an application of this event loop."""

    def __init__(self, inner: httpx.AsyncBaseTransport, loop: asyncio.AbstractEventLoop) -> None:
        self._inner = inner
        self._loop = loop

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        """Return the response to a request."""
        sending = self._inner.handle_async_request(request)
        answer = asyncio.run_coroutine_threadsafe(sending, self._loop).result(timeout=30)
        return httpx.Response(answer.status_code, headers=answer.headers, content=answer.content)

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        """Return the response to a request of another event loop."""
        return await asyncio.to_thread(self.handle_request, request)


async def test_the_blocking_client_does_the_same(transport: CheckedTransport) -> None:
    """Its methods return values, iterators and context managers without awaiting."""

    def use(berth: Client) -> None:
        with berth:
            assert berth.capacity("small").total > 0
            assert [host.name for host in berth.hosts.list(page_size=1)] == [
                f"host-{number}" for number in range(3)
            ]
            names = [host["name"] for host in berth.hosts.list.documents(page_size=2)]
            assert names == [f"host-{number}" for number in range(3)]
            assert berth.hosts.get.document("host-0")["name"] == "host-0"
            assert berth.host_keys.list() == ()
            with berth.state.stream() as pieces:
                assert b"".join(pieces).startswith(b'{"version":')
            with pytest.raises(NotFoundError, match="none could not be found"):
                berth.hosts.get("none")

    bridge = Bridge(transport, asyncio.get_running_loop())
    await asyncio.to_thread(use, Client(URL, transport=bridge))


PAGES = ("README.md", "docs/guides/client-library.md")
EXAMPLES = [
    block
    for page in PAGES
    for block in re.findall(r"```python\n(.*?)```", (ROOT / page).read_text("utf-8"), re.DOTALL)
    if "from berth.client import" in block
]


@pytest.mark.parametrize("example", EXAMPLES)
async def test_the_examples_of_the_documentation_run(
    example: str,
    transport: CheckedTransport,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Each printed example runs unchanged against a service in this process."""
    bridge = Bridge(transport, asyncio.get_running_loop())
    real = httpx.Client, httpx.AsyncClient

    def blocking(**options: object) -> httpx.Client:
        return real[0](**options | {"transport": bridge})  # type: ignore[arg-type]

    def asynchronous(**options: object) -> httpx.AsyncClient:
        return real[1](**options | {"transport": bridge})  # type: ignore[arg-type]

    monkeypatch.setattr(httpx, "Client", blocking)
    monkeypatch.setattr(httpx, "AsyncClient", asynchronous)
    await asyncio.to_thread(exec, example, {"__name__": "example"})
    out = capsys.readouterr().out
    assert "servers fit" in out or "hosts are up" in out
