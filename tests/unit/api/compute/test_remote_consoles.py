"""VNC consoles of servers: URLs, tokens, and the WebSocket that relays the screen."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import replace
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import pytest
from starlette.types import Message

from berth.adapters.system import SystemClock
from berth.adapters.virt.fake import FakeDriver, FakeHost
from berth.adapters.virt.fake.vnc import HEIGHT, WIDTH
from berth.agent.vnc_channels import HostConsoles
from berth.api.app import build_app
from berth.api.console_parts import ConsoleParts
from berth.api.console_socket import CHECKS_PER_ADDRESS_MAX
from berth.domain.compute.instance import Instance
from berth.domain.errors import UnavailableError
from berth.ports.gateway import VNC_CHANNELS_PER_INSTANCE_MAX, VncReply, VncRequest, VncStep
from berth.ports.virt import DriverFeature
from berth.services.gateway.host_queries import serve_queries
from berth.services.servers.vnc_consoles import ConsoleToken
from tests.unit.api.cloud import Answer, Stack

VERSION = b"RFB 003.008\n"
CREATE = {"remote_console": {"protocol": "vnc", "type": "novnc"}}


class GatedConsoles(HostConsoles):
    """Consoles of a host that carry out some steps only while a gate is open.

    If `is_unlimited`, any number of channels can open; they lead to no guest.
    """

    def __init__(self, host: str, driver: FakeDriver, clock: SystemClock) -> None:
        super().__init__(host, driver, clock)
        self.gate = asyncio.Event()
        self.gated: set[VncStep] = set()
        self.steps: list[VncStep] = []
        self.is_unlimited = False
        self.failure: Exception | None = None

    async def vnc(self, request: VncRequest) -> VncReply:
        """See `HostQueries.vnc`."""
        self.steps.append(request.step)
        if request.step in self.gated:
            await self.gate.wait()
        if request.step is VncStep.OPEN and self.failure is not None:
            raise self.failure
        if self.is_unlimited and request.step in {VncStep.OPEN, VncStep.RECEIVE, VncStep.CLOSE}:
            await asyncio.sleep(0.01)
            return VncReply()
        return await super().vnc(request)


async def with_guest(stack: Stack, *lacks: DriverFeature) -> tuple[str, FakeDriver]:
    """Return the id of a server, and the driver of its host, where its guest runs."""
    uuid, driver, _ = await with_gate(stack, *lacks)
    return uuid, driver


async def with_gate(stack: Stack, *lacks: DriverFeature) -> tuple[str, FakeDriver, GatedConsoles]:
    """Return the id of a server, the driver of its host, and the host's consoles."""
    uuid = await stack.server()
    instance = await stack.ledger.get(Instance, uuid)
    assert instance is not None
    assert instance.host is not None
    driver = FakeDriver(FakeHost(instance.host, lacks=frozenset(lacks)), SystemClock())
    consoles = GatedConsoles(instance.host, driver, SystemClock())
    serve_queries(stack.bus, instance.host, consoles)
    await driver.spawn(instance)
    return uuid, driver, consoles


def configure(stack: Stack, consoles: ConsoleParts) -> None:
    """Build the application with settings of consoles."""
    stack.app = build_app(replace(stack.parts, consoles=consoles))


async def create(stack: Stack, uuid: str, body: object = None) -> Answer:
    """Request a console."""
    path = f"/v2.1/servers/{uuid}/remote-consoles"
    return await stack.ask("POST", path, body or CREATE, version="2.6")


async def token_of(stack: Stack, uuid: str) -> str:
    """Return a token of a server's console."""
    answer = await create(stack, uuid)
    assert answer.status == 200, answer.body
    url: str = answer.body["remote_console"]["url"]
    return parse_qs(urlsplit(url).query)["token"][0]


class Browser:
    """A WebSocket client of the application."""

    def __init__(self) -> None:
        self.sent: asyncio.Queue[Message] = asyncio.Queue()
        self.told: asyncio.Queue[Message] = asyncio.Queue()
        self.rest = b""

    async def next(self) -> Message:
        """Return the next message of the server."""
        async with asyncio.timeout(5):
            return await self.told.get()

    def send(self, data: bytes) -> None:
        """Send a binary message."""
        self.sent.put_nowait({"type": "websocket.receive", "bytes": data})

    async def read(self, size: int) -> bytes:
        """Return the next bytes of the server."""
        while len(self.rest) < size:
            message = await self.next()
            assert message["type"] == "websocket.send", message
            self.rest += message["bytes"]
        data, self.rest = self.rest[:size], self.rest[size:]
        return data

    async def shake_hands(self) -> None:
        """Complete the handshake of RFB."""
        assert await self.read(12) == VERSION
        self.send(VERSION)
        assert await self.read(2) == b"\x01\x01"
        self.send(b"\x01")
        assert await self.read(4) == bytes(4)
        self.send(b"\x01")
        assert await self.read(4) == WIDTH.to_bytes(2) + HEIGHT.to_bytes(2)
        await self.read(16)
        await self.read(int.from_bytes(await self.read(4)))


@asynccontextmanager
async def browsing(
    stack: Stack, token: str, origin: str | None = None, address: str = "10.0.0.1"
) -> AsyncIterator[Browser]:
    """Connect a browser."""
    browser = Browser()
    browser.sent.put_nowait({"type": "websocket.connect"})
    headers = [(b"host", b"berth.test")]
    headers += [] if origin is None else [(b"origin", origin.encode())]
    scope = {
        "type": "websocket",
        "scheme": "ws",
        "path": "/",
        "query_string": f"token={token}".encode(),
        "headers": headers,
        "subprotocols": ["binary"],
        "client": (address, 40_000),
    }
    running = asyncio.ensure_future(stack.app(scope, browser.sent.get, browser.told.put))
    try:
        yield browser
    finally:
        browser.sent.put_nowait({"type": "websocket.disconnect", "code": 1000})
        async with asyncio.timeout(10):
            await running


async def wait_for(is_true: Callable[[], bool]) -> None:
    """Wait until a condition is true."""
    async with asyncio.timeout(5):
        while not is_true():  # noqa: ASYNC110 - nothing announces it
            await asyncio.sleep(0.01)


async def is_accepted(
    stack: Stack, token: str, origin: str | None = None, address: str = "10.0.0.1"
) -> bool:
    """Return whether a browser may connect."""
    async with browsing(stack, token, origin, address) as browser:
        answer = await browser.next()
        return bool(answer["type"] == "websocket.accept")


async def test_a_browser_uses_the_screen_of_a_guest(stack: Stack) -> None:
    """The WebSocket relays the protocol until the guest stops, and logs no token."""
    uuid, driver = await with_guest(stack)
    token = await token_of(stack, uuid)
    async with browsing(stack, token) as browser:
        accepted = await browser.next()
        assert (accepted["type"], accepted["subprotocol"]) == ("websocket.accept", "binary")
        await browser.shake_hands()
        browser.send(b"\x03\x00" + bytes(4) + WIDTH.to_bytes(2) + HEIGHT.to_bytes(2))
        assert len(await browser.read(16 + WIDTH * HEIGHT * 4)) > 64 * 1024, "several pieces"
        await driver.stop(uuid, grace_s=0)
        assert await browser.next() == {"type": "websocket.close", "code": 1000}
    assert stack.told.events[-2:] == ["console_opened", "console_closed"]
    assert token not in repr(stack.told)
    assert stack.told.failures == []


async def test_text_ends_the_connection(stack: Stack) -> None:
    """The protocol is binary."""
    uuid, _ = await with_guest(stack)
    async with browsing(stack, await token_of(stack, uuid)) as browser:
        await browser.next()
        browser.sent.put_nowait({"type": "websocket.receive", "text": "hello"})
        while (message := await browser.next())["type"] == "websocket.send":
            pass
        assert message == {"type": "websocket.close", "code": 1003}


@pytest.mark.parametrize(
    ("origin", "is_allowed"),
    [
        (None, True),
        ("http://berth.test", True),
        ("https://berth.test", True),
        ("https://pages.test:8443", True),
        ("https://dashboard.test", True),
        ("https://other.test", False),
        ("http://berth.test:81", False),
        ("null", False),
    ],
)
async def test_only_pages_of_known_origins_connect(
    stack: Stack, origin: str | None, is_allowed: bool
) -> None:
    """The API's own host, that of noVNC, and configured origins may use a token."""
    url = "https://pages.test:8443/vnc.html"
    origins = ("https://dashboard.test",)
    configure(stack, ConsoleParts(novnc_url=url, allowed_origins=origins))
    uuid, _ = await with_guest(stack)
    answer = await create(stack, uuid)
    shown = urlsplit(answer.body["remote_console"]["url"])
    assert shown.geturl().startswith(f"{url}?path=%3Ftoken%3D")
    (path,) = parse_qs(shown.query)["path"]
    token = path.removeprefix("?token=")
    assert await is_accepted(stack, token, origin) is is_allowed


async def test_an_invalid_token_does_not_connect(stack: Stack) -> None:
    """Neither a changed token does, nor that of a server that has been deleted."""
    uuid, driver = await with_guest(stack)
    token = await token_of(stack, uuid)
    assert await is_accepted(stack, token)
    for wrong in ("", f"bad{token}", token[:-1] + chr(ord(token[-1]) ^ 1), "x" * 5_000, "é"):
        assert not await is_accepted(stack, wrong)
    await driver.destroy(uuid)
    assert not await is_accepted(stack, token)
    assert (await stack.ask("DELETE", f"/v2.1/servers/{uuid}")).status == 204
    assert not await is_accepted(stack, token)


async def test_consoles_of_a_server_are_limited_from_the_request_on(stack: Stack) -> None:
    """Simultaneous requests cannot pass the limit; a console that is closed makes room."""
    uuid, _, host = await with_gate(stack)
    token = await token_of(stack, uuid)
    host.is_unlimited, host.gated = True, {VncStep.OPEN}
    async with AsyncExitStack() as browsers:
        opened = [
            await browsers.enter_async_context(browsing(stack, token, address=f"10.0.0.{number}"))
            for number in range(50)
        ]
        await wait_for(lambda: host.steps.count(VncStep.CHECK) == len(opened))
        host.gate.set()
        answers = [(await one.next())["type"] for one in opened]
        assert answers.count("websocket.accept") == VNC_CHANNELS_PER_INSTANCE_MAX
        assert host.steps.count(VncStep.OPEN) == VNC_CHANNELS_PER_INSTANCE_MAX
        assert "console_refused" in stack.told.events
        assert not await is_accepted(stack, token)
    assert await is_accepted(stack, token)


async def test_invalid_tokens_hold_no_place_of_a_server(stack: Stack) -> None:
    """While they are checked they count for the address that sends them."""
    uuid, _, host = await with_gate(stack)
    token = await token_of(stack, uuid)
    invalid = ConsoleToken.new(uuid, stack.parts.ids).text
    host.gated = {VncStep.CHECK}
    async with AsyncExitStack() as browsers:
        for number in range(4 * CHECKS_PER_ADDRESS_MAX):
            address = f"10.0.0.{number % 2}"
            flood = browsing(stack, invalid, address=address)
            await browsers.enter_async_context(flood)
        await wait_for(lambda: host.steps.count(VncStep.CHECK) == 2 * CHECKS_PER_ADDRESS_MAX)
        assert not await is_accepted(stack, token, address="10.0.0.1")
        host.gated = set()
        assert await is_accepted(stack, token, address="10.0.0.2")
        host.gate.set()
    assert await is_accepted(stack, token, address="10.0.0.1")


async def test_a_channel_that_may_have_opened_is_closed(stack: Stack) -> None:
    """An agent that answers too late would otherwise keep it for a minute."""
    uuid, _, host = await with_gate(stack)
    token = await token_of(stack, uuid)
    host.failure = UnavailableError("the agent does not answer")
    assert not await is_accepted(stack, token)
    assert host.steps[-2:] == [VncStep.OPEN, VncStep.CLOSE]
    assert [name for name, _, _ in stack.told.failures] == ["console_failed"]


async def test_the_action_ends_with_2_5(stack: Stack) -> None:
    """Its response has the type and the URL; newer clients use remote-consoles."""
    uuid, _ = await with_guest(stack)
    path, body = f"/v2.1/servers/{uuid}/action", {"os-getVNCConsole": {"type": "novnc"}}
    answer = await stack.ask("POST", path, body, version="2.5")
    assert answer.status == 200
    console = answer.body["console"]
    assert console["type"] == "novnc"
    assert console["url"].startswith("ws://berth.test/berth/v1/console?token=")
    assert (await stack.ask("POST", path, body, version="2.6")).status == 404
    unknown = {"os-getVNCConsole": {"type": "invalid"}}
    assert (await stack.ask("POST", path, unknown, version="2.5")).status == 400
    path = f"/v2.1/servers/{uuid}/remote-consoles"
    assert (await stack.ask("POST", path, CREATE, version="2.5")).status == 404


@pytest.mark.parametrize(
    ("protocol", "kind"),
    [
        ("spice", "spice-direct"),
        ("serial", "serial"),
        ("vnc", "xvpvnc"),
        ("vnc", "serial"),
        ("mks", "webmks"),
    ],
)
async def test_other_consoles_get_400(stack: Stack, protocol: str, kind: str) -> None:
    """The error of unavailable types names the one that Berth has."""
    uuid, _ = await with_guest(stack)
    body = {"remote_console": {"protocol": protocol, "type": kind}}
    answer = await create(stack, uuid, body)
    assert answer.status == 400
    assert "novnc" in answer.body["badRequest"]["message"]


async def test_the_state_of_the_guest_decides(stack: Stack) -> None:
    """Without an agent there is 503, with a stopped guest 409, and without VNC 400."""
    absent = await stack.server()
    assert (await create(stack, absent)).status == 503
    uuid, driver = await with_guest(stack)
    await driver.stop(uuid, grace_s=0)
    answer = await create(stack, uuid)
    assert answer.status == 409
    assert "not ready" in answer.body["conflictingRequest"]["message"]


async def test_a_host_without_vnc_gets_400(stack: Stack) -> None:
    """The type of console is unavailable."""
    uuid, _ = await with_guest(stack, DriverFeature.VNC)
    answer = await create(stack, uuid)
    assert answer.status == 400
    assert "Unavailable console type novnc" in answer.body["badRequest"]["message"]


async def test_administrators_see_what_a_token_opens(stack: Stack) -> None:
    """Others get 403, unknown tokens 404, and versions before 2.31 get 400."""
    uuid, _ = await with_guest(stack)
    instance = await stack.ledger.get(Instance, uuid)
    assert instance is not None
    path = f"/v2.1/os-console-auth-tokens/{await token_of(stack, uuid)}"
    answer = await stack.ask("GET", path, version="2.99")
    assert answer.body == {
        "console": {
            "instance_uuid": uuid,
            "host": instance.host,
            "port": 0,
            "internal_access_path": None,
        }
    }
    assert (await stack.ask("GET", path, version="2.30")).status == 400
    assert (await stack.ask("GET", f"{path}x", version="2.31")).status == 404
    assert (await stack.ask("GET", path, version="2.31", token="alice:web")).status == 403


async def test_the_api_serves_the_files_of_novnc(stack: Stack, tmp_path: Path) -> None:
    """The URL then leads to its page, which connects to the same host."""
    folder = tmp_path / "novnc"
    folder.mkdir()
    (folder / "vnc_lite.html").write_text('{"a": "page"}')
    (tmp_path / "secret").write_text("{}")
    configure(stack, ConsoleParts(novnc_dir=folder))
    uuid, _ = await with_guest(stack)
    url = (await create(stack, uuid)).body["remote_console"]["url"]
    assert url.startswith("http://berth.test/novnc/vnc_lite.html?path=%3Ftoken%3D")
    assert (await stack.ask("GET", "/novnc/vnc_lite.html")).body == {"a": "page"}
    for missing in ("/novnc/", "/novnc/none.js", "/novnc/%2e%2e/secret", "/novnc/..%2fsecret"):
        assert (await stack.ask("GET", missing)).status == 404
    assert (await stack.ask("POST", "/novnc/vnc_lite.html")).status == 405
