"""The VNC consoles of a host: tokens, channels, and requests that the bus delivers twice."""

import asyncio
import hashlib

import pytest

from berth.adapters.virt.fake import FakeDriver, FakeHost
from berth.agent.vnc_channels import IDLE_S_MAX, POLL_S, HostConsoles
from berth.domain.errors import DriverError, InvalidInputError, NotFoundError, UnavailableError
from berth.ports.gateway import (
    VNC_BYTES_MAX,
    VNC_CHANNELS_MAX,
    VNC_CHANNELS_PER_INSTANCE_MAX,
    VNC_TOKENS_MAX,
    VNC_TOKENS_PER_INSTANCE_MAX,
    VncReply,
    VncRequest,
    VncStep,
)
from berth.ports.virt import ByteStream
from berth.testing.builders import make_instance, make_uuid
from berth.testing.virtual_time import VirtualClock

VM = make_instance(1, host="host-1")
VERSION = b"RFB 003.008\n"


def hash_of(text: str) -> str:
    """Return the hash of a token."""
    return hashlib.sha256(text.encode()).hexdigest()


class Line:
    """A connection to a VNC server that sends what a test gives it."""

    def __init__(self) -> None:
        self.is_closed = False
        self.coming: asyncio.Future[bytes] | None = None

    async def read(self, bytes_max: int) -> bytes:
        """Return the next bytes of the test, like a socket: a cancelled call loses them."""
        assert bytes_max == VNC_BYTES_MAX
        assert self.coming is None or self.coming.done(), "two calls wait"
        self.coming = asyncio.get_running_loop().create_future()
        return await self.coming

    async def write(self, data: bytes) -> None:
        """Accept bytes."""

    def close(self) -> None:
        """End the connection."""
        self.is_closed = True


class GatedDriver(FakeDriver):
    """A driver that opens connections to VNC servers while its gate is open.

    Its connections are those of `FakeDriver`, or those in `lines`.
    """

    def __init__(self, host: FakeHost, clock: VirtualClock) -> None:
        super().__init__(host, clock)
        self.gate = asyncio.Event()
        self.gate.set()
        self.began = 0
        self.lines: list[Line] = []
        self.failure: BaseException | None = None

    async def open_vnc(self, instance_uuid: str) -> ByteStream:
        """See `VirtDriver.open_vnc`."""
        self.began += 1
        await self.gate.wait()
        if self.failure is not None:
            raise self.failure
        return self.lines.pop(0) if self.lines else await super().open_vnc(instance_uuid)


class Console:
    """The consoles of a host with one guest."""

    def __init__(self) -> None:
        self.clock = VirtualClock()
        self.driver = GatedDriver(FakeHost("host-1"), self.clock)
        self.host = HostConsoles("host-1", self.driver, self.clock)

    async def step(
        self, step: VncStep, number: int = 0, data: bytes = b"", channel: str = "c1"
    ) -> bytes:
        """Carry out a step with the token `t`, and return the bytes that it returns."""
        request = VncRequest(
            VM.uuid, step, hash_of("t"), lifetime_s=60.0, channel=channel, number=number, data=data
        )
        return (await self.host.vnc(request)).data


@pytest.fixture
async def console() -> Console:
    """Return a console whose token is valid."""
    made = Console()
    await made.driver.spawn(VM)
    await made.step(VncStep.GRANT)
    return made


async def test_a_token_is_valid_until_it_expires(console: Console) -> None:
    """It opens the console of its own guest only, as often as it is used within its lifetime."""
    await console.step(VncStep.CHECK)
    other = VncRequest(make_uuid("instance", 2), VncStep.CHECK, hash_of("t"))
    with pytest.raises(NotFoundError):
        await console.host.vnc(other)
    with pytest.raises(NotFoundError):
        await console.host.vnc(VncRequest(VM.uuid, VncStep.OPEN, hash_of("u"), channel="c1"))
    await console.step(VncStep.OPEN)
    await console.step(VncStep.OPEN, channel="c2")
    await console.clock.sleep(59)
    await console.step(VncStep.CHECK)
    await console.clock.sleep(1)
    for step in (VncStep.CHECK, VncStep.OPEN):
        with pytest.raises(NotFoundError) as caught:
            await console.step(step, channel="c3")
        assert hash_of("t") not in str(caught.value)


async def test_no_token_is_granted_without_a_running_guest(console: Console) -> None:
    """The guest must run, because the page would show nothing."""
    await console.driver.stop(VM.uuid, grace_s=0)
    with pytest.raises(DriverError):
        await console.step(VncStep.GRANT)


async def test_a_step_that_is_delivered_twice_takes_effect_once(console: Console) -> None:
    """The second delivery repeats the result; a gap closes the channel."""
    await console.step(VncStep.OPEN)
    await console.step(VncStep.OPEN)
    assert await console.step(VncStep.RECEIVE, 1) == VERSION
    assert await console.step(VncStep.RECEIVE, 1) == VERSION
    for _ in range(2):
        await console.step(VncStep.SEND, 1, VERSION)
    assert await console.step(VncStep.RECEIVE, 2) == b"\x01\x01"
    with pytest.raises(NotFoundError):
        await console.step(VncStep.SEND, 3, b"\x01")
    with pytest.raises(NotFoundError):
        await console.step(VncStep.RECEIVE, 3)
    await console.step(VncStep.CLOSE)


async def test_a_channel_ends_with_its_guest(console: Console) -> None:
    """A receive that waits for bytes ends when the guest leaves the host."""
    await console.step(VncStep.OPEN)
    await console.step(VncStep.RECEIVE, 1)
    waiting = asyncio.create_task(console.step(VncStep.RECEIVE, 2))
    await asyncio.sleep(0)
    await console.driver.destroy(VM.uuid)
    with pytest.raises(NotFoundError):
        await waiting
    with pytest.raises(NotFoundError):
        await console.step(VncStep.SEND, 1, VERSION)


async def test_a_guest_that_hangs_is_given_up(console: Console) -> None:
    """The caller gets an error; attempts at one guest do not add up, and the place gets free."""
    console.driver.gate.clear()
    began = console.driver.began
    with pytest.raises(DriverError, match="did not answer within 30 s"):
        await console.step(VncStep.OPEN)
    with pytest.raises(NotFoundError):
        await console.step(VncStep.OPEN)
    for _ in range(3):
        with pytest.raises(DriverError, match="did not answer within 30 s"):
            await console.step(VncStep.GRANT)
    assert console.driver.began - began == 2
    console.driver.gate.set()
    await asyncio.sleep(0.1)
    await console.step(VncStep.GRANT)
    await console.step(VncStep.OPEN)


async def test_an_unused_channel_is_closed(console: Console) -> None:
    """An API that died does not close its channels."""
    await console.step(VncStep.OPEN)
    await asyncio.sleep(0)
    await console.clock.sleep(IDLE_S_MAX / 2)
    assert await console.step(VncStep.RECEIVE, 1) == VERSION
    await console.clock.sleep(IDLE_S_MAX - 1)
    assert await console.step(VncStep.RECEIVE, 1) == VERSION
    await console.clock.sleep(IDLE_S_MAX + 1)
    with pytest.raises(NotFoundError):
        await console.step(VncStep.RECEIVE, 1)


def grant(number: int, *, token: str | None = None) -> VncRequest:
    """Return a request for a token of the n-th instance; its text is the number, unless given."""
    hashed = hash_of(token or str(number))
    return VncRequest(make_uuid("instance", number), VncStep.GRANT, hashed, lifetime_s=60.0)


def opening(number: int, channel: str) -> VncRequest:
    """Return a request to open a channel of the n-th instance."""
    uuid = make_uuid("instance", number)
    return VncRequest(uuid, VncStep.OPEN, hash_of(str(number)), channel=channel)


async def with_guests(console: Console, count: int) -> None:
    """Start guests with numbers from 10 on, each with a token."""
    for number in range(10, 10 + count):
        await console.driver.spawn(make_instance(number, host="host-1"))
        await console.host.vnc(grant(number))


async def outcomes(*requests: VncRequest, console: Console) -> list[VncReply | BaseException]:
    """Return the results or errors of simultaneous requests, whose connections open at once."""
    console.driver.gate.clear()
    asyncio.get_running_loop().call_later(1, console.driver.gate.set)
    return await asyncio.gather(*map(console.host.vnc, requests), return_exceptions=True)


async def test_the_channels_of_a_host_are_limited(console: Console) -> None:
    """Channels count from the moment at which they begin to open."""
    count = VNC_CHANNELS_MAX // VNC_CHANNELS_PER_INSTANCE_MAX + 1
    await with_guests(console, count)
    requests = [
        opening(10 + guest, f"c{number}")
        for number in range(VNC_CHANNELS_PER_INSTANCE_MAX)
        for guest in range(count)
    ]
    results = await outcomes(*requests, console=console)
    refused = [one for one in results if isinstance(one, UnavailableError)]
    assert len(results) - len(refused) == VNC_CHANNELS_MAX
    assert str(refused[0]) == "host host-1 has 64 open consoles; close some of them"


async def test_the_channels_of_an_instance_are_limited(console: Console) -> None:
    """One tenant does not use up the channels of a host; a closed channel makes room."""
    await with_guests(console, 2)
    requests = [opening(10, f"c{number}") for number in range(200)]
    *results, other = await outcomes(*requests, opening(11, "c"), console=console)
    refused = [one for one in results if isinstance(one, UnavailableError)]
    assert len(results) - len(refused) == VNC_CHANNELS_PER_INSTANCE_MAX
    assert f"instance {make_uuid('instance', 10)} has 8 open" in str(refused[0])
    assert other == VncReply()
    with pytest.raises(UnavailableError, match="close some"):
        await console.host.vnc(opening(10, "one-more"))
    await console.host.vnc(VncRequest(make_uuid("instance", 10), VncStep.CLOSE, channel="c0"))
    await console.host.vnc(opening(10, "one-more"))


@pytest.mark.parametrize("way", ["failure", "cancellation", "close"])
async def test_a_channel_that_does_not_open_frees_its_place(console: Console, way: str) -> None:
    """The place is free after an error, the end of the request, and a close during the opening."""
    driver = console.driver
    for number in range(3 * VNC_CHANNELS_PER_INSTANCE_MAX):
        driver.gate.clear()
        line = Line()
        driver.lines = [line]
        task = asyncio.create_task(console.step(VncStep.OPEN, channel=f"c{number}"))
        await asyncio.sleep(0)
        closing = None
        if way == "failure":
            driver.failure = DriverError("no such display")
        elif way == "cancellation":
            task.cancel()
        else:
            closing = asyncio.create_task(console.step(VncStep.CLOSE, channel=f"c{number}"))
            await asyncio.sleep(1)
            assert not closing.done(), "it waits for the connection"
        driver.gate.set()
        with pytest.raises((DriverError, NotFoundError, asyncio.CancelledError)):
            await task
        if closing is not None:
            await closing
        await asyncio.sleep(1)
        assert line.is_closed is (way != "failure")
    driver.failure, driver.lines = None, []
    for number in range(VNC_CHANNELS_PER_INSTANCE_MAX):
        await console.step(VncStep.OPEN, channel=f"c{number}")


async def test_deliveries_of_one_opening_share_a_connection(console: Console) -> None:
    """The second waits for the first, and still has the channel if the first is cancelled."""
    before = console.driver.began
    console.driver.gate.clear()
    first, second, third = (asyncio.create_task(console.step(VncStep.OPEN)) for _ in range(3))
    await asyncio.sleep(1)
    first.cancel()
    await asyncio.sleep(1)
    assert not second.done()
    console.driver.gate.set()
    await asyncio.gather(second, third)
    assert console.driver.began - before == 1
    assert await console.step(VncStep.RECEIVE, 1) == VERSION


async def test_simultaneous_tokens_share_a_connection(console: Console) -> None:
    """Requests for tokens open one connection to the guest at a time."""
    before = console.driver.began
    requests = [grant(1, token=f"t{number}") for number in range(10)]
    assert await outcomes(*requests, console=console) == [VncReply()] * 10
    assert console.driver.began - before == 1
    console.driver.failure = DriverError("no such display")
    results = await outcomes(*requests, console=console)
    assert [type(one) for one in results] == [DriverError] * 10


async def test_bytes_that_arrive_as_a_poll_ends_are_kept(console: Console) -> None:
    """They are the result of that RECEIVE or of the next one."""
    loop = asyncio.get_running_loop()
    line = Line()
    console.driver.lines = [line]
    await console.step(VncStep.OPEN)
    ends_s = loop.time() + POLL_S
    receiving = asyncio.create_task(console.step(VncStep.RECEIVE, 1))
    await asyncio.sleep(1)
    assert line.coming is not None
    # Both timers are due in the same turn of the loop; the bytes come first.
    loop.call_at(ends_s - 1e-7, line.coming.set_result, b"abc")
    data = await receiving
    if not data:
        data = await console.step(VncStep.RECEIVE, 2)
    assert data == b"abc"


async def test_bytes_that_arrive_between_polls_are_kept(console: Console) -> None:
    """One read goes on while no RECEIVE waits, and is cancelled when the channel is closed."""
    line = Line()
    console.driver.lines = [line]
    await console.step(VncStep.OPEN)
    assert await console.step(VncStep.RECEIVE, 1) == b""
    assert line.coming is not None
    line.coming.set_result(b"abc")
    assert await console.step(VncStep.RECEIVE, 2) == b"abc"
    cancelled = asyncio.create_task(console.step(VncStep.RECEIVE, 3))
    await asyncio.sleep(1)
    cancelled.cancel()
    await asyncio.sleep(1)
    line.coming.set_result(b"def")
    assert await console.step(VncStep.RECEIVE, 3) == b"def"
    waiting = asyncio.create_task(console.step(VncStep.RECEIVE, 4))
    await asyncio.sleep(1)
    await console.step(VncStep.CLOSE)
    with pytest.raises(NotFoundError):
        await waiting
    assert line.coming.cancelled()
    assert line.is_closed


async def test_tokens_and_bytes_are_limited(console: Console) -> None:
    """The oldest token of an instance with too many gives way, and others are unaffected."""
    await with_guests(console, 1)
    for number in range(VNC_TOKENS_PER_INSTANCE_MAX):
        await console.step(VncStep.CHECK)
        await console.host.vnc(grant(1, token=f"t{number}"))
    with pytest.raises(NotFoundError):
        await console.step(VncStep.CHECK)
    await console.host.vnc(opening(10, "c"))
    with pytest.raises(InvalidInputError):
        VncRequest(VM.uuid, VncStep.SEND, data=bytes(VNC_BYTES_MAX + 1))


async def test_the_tokens_of_a_host_are_limited(console: Console) -> None:
    """A new token replaces the oldest of the instance that has the most tokens."""
    full = VNC_TOKENS_MAX // VNC_TOKENS_PER_INSTANCE_MAX
    await with_guests(console, full)  # with the guest of the fixture, one more than fill the host
    for guest in range(10, 10 + full):
        for number in range(VNC_TOKENS_PER_INSTANCE_MAX - 1):
            await console.host.vnc(grant(guest, token=f"{guest}.{number}"))
    await console.step(VncStep.CHECK)
    lost = 0
    for guest in range(10, 10 + full):
        try:
            await console.host.vnc(opening(guest, "c"))
        except NotFoundError:
            lost += 1
        await console.host.vnc(VncRequest(make_uuid("instance", guest), VncStep.CLOSE, channel="c"))
    assert lost == 1
