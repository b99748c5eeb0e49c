"""VNC consoles: tokens that open them, and the channel from the API to the agent of a guest's host.

A token consists of the id of the instance and a random id. Only its hash leaves the API, and only
the agent of the instance's host keeps it. So no token outlives the agent, and none is valid after
the instance has left the host.
"""

import hashlib
from contextlib import suppress
from dataclasses import dataclass
from typing import Final, Self
from uuid import UUID

from berth.domain.compute.instance import Instance, Status
from berth.domain.errors import (
    BerthError,
    InstanceStateError,
    InvalidInputError,
    NotFoundError,
    UnavailableError,
)
from berth.ports.bus import Bus, Command
from berth.ports.clock import Ids
from berth.ports.gateway import VNC_BYTES_MAX, VncReply, VncRequest, VncStep
from berth.ports.ledger import Ledger
from berth.services.crypto.base64url import raw_of, url_text_of

_TIMEOUT_S: Final = 10.0
_ID_BYTES: Final = 16

VNC: Command[VncRequest, VncReply] = Command("agent", "vnc", VncRequest, VncReply)
"""Carry out a step of a VNC console; served like `CONSOLE`."""


@dataclass(frozen=True, slots=True)
class ConsoleToken:
    """A token that opens the VNC console of an instance until it expires."""

    instance_uuid: str
    text: str

    @classmethod
    def new(cls, instance_uuid: str, ids: Ids) -> Self:
        """Return a new token for an instance, with 122 random bits.

        Raises:
            NotFoundError: the id of the instance is not a UUID.
        """
        try:
            parts = (UUID(instance_uuid), UUID(ids.uuid()))
        except ValueError as error:
            raise NotFoundError("instance", instance_uuid) from error
        return cls(instance_uuid, url_text_of(b"".join(one.bytes for one in parts)))

    @classmethod
    def parse(cls, text: str) -> Self:
        """Return the token with a text that a client sent.

        Raises:
            NotFoundError: the text is not that of a token; the error does not quote it.
        """
        try:
            data = raw_of(text)
        except ValueError:
            data = b""
        if len(data) != 2 * _ID_BYTES:
            raise no_token()
        return cls(str(UUID(bytes=data[:_ID_BYTES])), text)

    @property
    def hash(self) -> str:
        """The SHA-256 of the token in hexadecimal digits."""
        return hashlib.sha256(self.text.encode()).hexdigest()


def no_token() -> NotFoundError:
    """Return the error for a token that is not valid; it does not quote the token."""
    return NotFoundError("console", "with this token")


async def grant_console(
    bus: Bus, instance: Instance, ids: Ids, *, lifetime_s: float
) -> ConsoleToken:
    """Return a new token for the VNC console of an instance.

    Args:
        bus: reaches the agent.
        instance: the instance, as in the ledger.
        ids: makes the random part of the token.
        lifetime_s: seconds for which the token is valid.

    Raises:
        DriverError: the guest is not running.
        UnsupportedFeatureError: the guest has no VNC server.
        InstanceStateError: the instance has no host.
        UnavailableError: the agent of its host does not answer.
    """
    if instance.host is None:
        raise InstanceStateError("get vnc console", instance.uuid, "host", "none")
    token = ConsoleToken.new(instance.uuid, ids)
    request = VncRequest(instance.uuid, VncStep.GRANT, token_hash=token.hash, lifetime_s=lifetime_s)
    await _call(bus, instance.host, request)
    return token


async def console_host(bus: Bus, ledger: Ledger, token: ConsoleToken) -> str:
    """Return the host of the instance whose console a valid token opens.

    Raises:
        NotFoundError: the token is not valid.
        UnavailableError: the agent of the host does not answer.
    """
    host = await _host_of(ledger, token)
    request = VncRequest(token.instance_uuid, VncStep.CHECK, token_hash=token.hash)
    await _call(bus, host, request)
    return host


class VncChannel:
    """An open connection to the VNC server of a guest.

    `send` and `receive` may be called at the same time, but neither may be called twice at once.

    Args:
        bus: reaches the agent.
        host: the host of the guest.
        instance_uuid: the guest's instance.
        channel: the unique name of the channel.
    """

    def __init__(self, bus: Bus, host: str, instance_uuid: str, channel: str) -> None:
        self.host = host
        self.instance_uuid = instance_uuid
        self._bus = bus
        self._channel = channel
        self._sent = 0
        self._received = 0

    @classmethod
    async def open(cls, bus: Bus, host: str, ids: Ids, token: ConsoleToken) -> Self:
        """Open a channel for a token, on the host that `console_host` returned for it.

        Args:
            bus: reaches the agent.
            host: the host of the instance.
            ids: makes the name of the channel.
            token: the token that the client sent.

        Raises:
            NotFoundError: the token is not valid.
            DriverError: the guest is not running.
            UnavailableError: the agent does not answer, or has too many channels.
        """
        opened = cls(bus, host, token.instance_uuid, ids.uuid())
        try:
            await opened._step(VncStep.OPEN, token_hash=token.hash)
        except UnavailableError:
            # An agent that answers too late has opened the channel, which would keep its place.
            with suppress(BerthError):
                await opened.close()
            raise
        return opened

    async def send(self, data: bytes) -> None:
        """Send any number of bytes to the VNC server.

        Raises:
            NotFoundError: the channel is closed.
            UnavailableError: the agent does not answer.
        """
        for start in range(0, len(data), VNC_BYTES_MAX):
            self._sent += 1
            some = data[start : start + VNC_BYTES_MAX]
            await self._step(VncStep.SEND, number=self._sent, data=some)

    async def receive(self) -> bytes:
        """Return the next bytes from the VNC server; empty if it sends none for some seconds.

        Raises:
            NotFoundError: the channel is closed.
            UnavailableError: the agent does not answer.
        """
        self._received += 1
        return (await self._step(VncStep.RECEIVE, number=self._received)).data

    async def close(self) -> None:
        """Close the channel.

        Raises:
            UnavailableError: the agent does not answer; it closes unused channels by itself.
        """
        await self._step(VncStep.CLOSE)

    async def _step(
        self, step: VncStep, *, token_hash: str = "", number: int = 0, data: bytes = b""
    ) -> VncReply:
        request = VncRequest(
            self.instance_uuid,
            step,
            token_hash=token_hash,
            channel=self._channel,
            number=number,
            data=data,
        )
        return await _call(self._bus, self.host, request)


async def _host_of(ledger: Ledger, token: ConsoleToken) -> str:
    instance = await ledger.get(Instance, token.instance_uuid)
    if instance is None or instance.host is None or instance.status is Status.DELETED:
        raise no_token()
    return instance.host


async def _call(bus: Bus, host: str, request: VncRequest) -> VncReply:
    try:
        return await bus.call(VNC, request, timeout_s=_TIMEOUT_S, server=host)
    except UnavailableError as error:
        # The message of the bus names the host, which owners must not learn.
        text = (
            f"cannot open the console of instance {request.instance_uuid}: the agent of its host "
            "does not answer, has too many open consoles, or is of an older version; try again"
        )
        raise UnavailableError(text) from error
    except InvalidInputError as error:
        raise UnavailableError(
            f"cannot open the console of instance {request.instance_uuid}: the agent of its host "
            "gave an invalid answer; run the same version of Berth everywhere"
        ) from error
