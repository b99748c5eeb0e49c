"""The API on real sockets: uvicorn, a SQLite ledger, and a file of users."""

import asyncio
import contextlib
import socket
from collections.abc import AsyncIterator
from pathlib import Path

import bcrypt
import httpx
import pytest
import uvicorn

from berth.adapters.http_server import config_of
from berth.adapters.ledger import open_ledger
from berth.api.app import build_app
from berth.api.auth.authentication import HttpBasic
from berth.api.limits import RequestLimits
from berth.config.auth_file import AuthFile
from tests.unit.api.cloud import FakeClock, Stack, Told

ADMIN = httpx.BasicAuth("admin", "secret")
BOB = httpx.BasicAuth("bob", "builder")
BODY = {"server": {"name": "vm", "flavorRef": "small"}}


@pytest.fixture
def users(tmp_path: Path) -> Path:
    """Return a file with an administrator and a user of the project `web`."""

    def line(user: str, password: str) -> str:
        return f"{user}:{bcrypt.hashpw(password.encode(), bcrypt.gensalt(4)).decode()}"

    path = tmp_path / "users"
    path.write_text(f"{line('admin', 'secret')}\n{line('bob', 'builder')} # project=web\n")
    return path


@pytest.fixture
async def cloud(fresh_sqlite_url: str, users: Path) -> AsyncIterator[Stack]:
    """Yield a cloud on a SQLite ledger."""
    auth = HttpBasic(AuthFile(users, FakeClock(), Told()), FakeClock(), key=b"k" * 32)
    limits = RequestLimits(body_bytes_max=10_000, body_timeout_s=0.3)
    ledger = await open_ledger(fresh_sqlite_url)
    cloud = Stack(auth=auth, limits=limits, ledger=ledger)
    await cloud.start()
    yield cloud
    await ledger.close()


@pytest.fixture
async def url(cloud: Stack) -> AsyncIterator[str]:
    """Serve the cloud on a free port and yield its URL."""
    listener = socket.create_server(("127.0.0.1", 0))
    server = uvicorn.Server(config_of(build_app(cloud.parts)))
    serving = asyncio.create_task(server.serve([listener]))
    while not server.started:  # noqa: ASYNC110 - uvicorn has no event for it
        await asyncio.sleep(0.01)
    yield f"http://127.0.0.1:{listener.getsockname()[1]}"
    server.should_exit = True
    await serving


@pytest.fixture
async def admin(url: str) -> AsyncIterator[httpx.AsyncClient]:
    """Yield a client of the administrator, who has created a flavor."""
    async with httpx.AsyncClient(base_url=url, auth=ADMIN, trust_env=False) as client:
        flavor = {"id": "small", "name": "small", "vcpus": 2, "ram": 4096, "disk": 20}
        assert (await client.post("/v2.1/flavors", json={"flavor": flavor})).status_code == 200
        yield client


async def test_a_server_is_made_and_kept(admin: httpx.AsyncClient, cloud: Stack) -> None:
    """The decision about a new server can be read as soon as the creation is answered."""
    answer = await admin.post("/v2.1/servers", json=BODY)
    assert answer.status_code == 202
    server = (await admin.get(answer.headers["location"])).json()["server"]
    assert server["OS-EXT-SRV-ATTR:host"].startswith("host-")
    decision = await admin.get(f"/berth/v1/decisions/{answer.headers['x-openstack-request-id']}")
    assert decision.json()["placements"][0]["host"] == server["OS-EXT-SRV-ATTR:host"]


async def test_users_are_known_by_their_password(admin: httpx.AsyncClient) -> None:
    """A user has the project from the file; a wrong password and a missing role are refused."""
    assert (await admin.get("/v2.1/servers", auth=httpx.BasicAuth("bob", "x"))).status_code == 401
    made = await admin.post("/v2.1/servers", json=BODY, auth=BOB)
    server = (await admin.get(made.headers["location"], auth=BOB)).json()["server"]
    assert (server["tenant_id"], server["user_id"]) == ("web", "bob")
    assert (await admin.get("/berth/v1/hosts", auth=BOB)).status_code == 403


async def test_many_at_once_never_overbook(admin: httpx.AsyncClient, cloud: Stack) -> None:
    """Of 40 requests for three hosts with room for eight each, 24 are placed."""
    calls = [admin.post("/v2.1/servers", json=BODY) for _ in range(40)]
    assert {answer.status_code for answer in await asyncio.gather(*calls)} == {202}
    listed = (await admin.get("/v2.1/servers/detail")).json()["servers"]
    placed = [one for one in listed if one["status"] == "BUILD"]
    failed = [one for one in listed if one["status"] == "ERROR"]
    assert (len(placed), len(failed)) == (24, 16)


async def test_repeats_at_once_make_one_server(admin: httpx.AsyncClient) -> None:
    """Ten concurrent requests with one idempotency key create one server."""
    key = {"Idempotency-Key": "once"}
    calls = [admin.post("/v2.1/servers", json=BODY, headers=key) for _ in range(10)]
    answers = await asyncio.gather(*calls)
    assert {answer.status_code for answer in answers} == {202}
    assert len({answer.json()["server"]["id"] for answer in answers}) == 1
    assert len((await admin.get("/v2.1/servers")).json()["servers"]) == 1


async def test_odd_names_are_kept(admin: httpx.AsyncClient) -> None:
    """Names and metadata with unusual characters are returned unchanged."""
    for name in ("ünï 😀", "'; DROP TABLE instances; --", "\ufffe\uffff", "%00\\u0000"):
        body = {"server": {"name": name, "flavorRef": "small", "metadata": {"k": name}}}
        made = await admin.post("/v2.1/servers", json=body)
        server = (await admin.get(made.headers["location"])).json()["server"]
        assert (server["name"], server["metadata"]["k"]) == (name, name)


async def raw(url: str, request: bytes) -> bytes:
    """Send bytes, and return what the server sends until the head ends, it closes, or 2 s pass."""
    host, _, port = url.removeprefix("http://").partition(":")
    reader, writer = await asyncio.open_connection(host, int(port))
    writer.write(request)
    await writer.drain()
    answer = b""
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(2):
            while chunk := await reader.read(65_536):
                answer += chunk
                if b"\r\n\r\n" in answer:
                    break
    writer.close()
    return answer


HEAD = b"POST /v2.1/servers HTTP/1.1\r\nHost: x\r\nAuthorization: Basic YWRtaW46c2VjcmV0\r\n"


@pytest.mark.parametrize(
    ("request_", "status"),
    [
        (HEAD + b"Content-Length: 20000\r\n\r\n", b"413"),
        (HEAD + b"Transfer-Encoding: chunked\r\n\r\n4e20\r\n" + b"x" * 20_000 + b"\r\n", b"413"),
        (HEAD + b"Content-Length: 100\r\n\r\n{", b"408"),
        (HEAD + b"Content-Length: 1\r\n\r\n{", b"400"),
        (b"GET /" + b"x" * 9000 + b" HTTP/1.1\r\nHost: x\r\n\r\n", b"414"),
        (b"GET / HTTP/1.1\r\nHost: x\r\n" + b"X-A: b\r\n" * 200 + b"\r\n", b"431"),
        (b"GET / HTTP/1.1\r\nHost: \xff\r\n\r\n", b"200"),
        (b"GET /v2.1/servers HTTP/1.1\r\n\r\n", b"401"),
        (b"\x16\x03\x01 no HTTP at all\r\n\r\n", b"400"),
    ],
)
async def test_hostile_requests_are_answered(
    url: str, cloud: Stack, request_: bytes, status: bytes
) -> None:
    """A malformed or oversized request gets its status, and no failure is reported."""
    assert (await raw(url, request_)).split(b" ")[1] == status
    assert cloud.told.failures == []
