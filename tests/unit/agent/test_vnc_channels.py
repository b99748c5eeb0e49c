"""The VNC consoles of a host: tokens, channels, and requests that the bus delivers twice."""

import asyncio
import hashlib

import pytest

from berth.adapters.virt.fake import FakeDriver, FakeHost
from berth.agent.vnc_channels import CHANNELS_MAX, IDLE_S_MAX, TOKENS_MAX, HostConsoles
from berth.domain.errors import DriverError, InvalidInputError, NotFoundError, UnavailableError
from berth.ports.gateway import VNC_BYTES_MAX, VncRequest, VncStep
from berth.testing.builders import make_instance, make_uuid
from berth.testing.virtual_time import VirtualClock

VM = make_instance(1, host="host-1")
VERSION = b"RFB 003.008\n"


def hash_of(text: str) -> str:
    """Return the hash of a token."""
    return hashlib.sha256(text.encode()).hexdigest()


class Console:
    """The consoles of a host with one guest."""

    def __init__(self) -> None:
        self.clock = VirtualClock()
        self.driver = FakeDriver(FakeHost("host-1"), self.clock)
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


async def test_channels_tokens_and_bytes_are_limited(console: Console) -> None:
    """Neither an API nor a user can make an agent keep more."""
    for number in range(CHANNELS_MAX):
        await console.step(VncStep.OPEN, channel=f"c{number}")
    with pytest.raises(UnavailableError, match="close some"):
        await console.step(VncStep.OPEN, channel="one-more")
    await console.step(VncStep.CLOSE, channel="c0")
    await console.step(VncStep.OPEN, channel="one-more")
    for number in range(TOKENS_MAX):
        await console.host.vnc(
            VncRequest(VM.uuid, VncStep.GRANT, hash_of(f"t{number}"), lifetime_s=60.0)
        )
    with pytest.raises(NotFoundError):
        await console.step(VncStep.CHECK)  # the oldest token
    with pytest.raises(InvalidInputError):
        VncRequest(VM.uuid, VncStep.SEND, data=bytes(VNC_BYTES_MAX + 1))
