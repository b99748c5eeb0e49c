"""The frames of a session between an agent and the control plane, in MessagePack.

A session belongs to one host. Its frames are the same over every transport. Decoders are strict: a
frame with a wrong type, a missing field or a value out of bounds ends the session.

1. The control plane sends `Hello` with a nonce, and the agent answers with `Proof`, a signature of
   the nonce with the key of its host. The control plane sends `Welcome`.
2. The agent sends `Beat` periodically, `Call` to call a method of `HostGateway`, and `Cast` to send
   a message to all schedulers. The control plane answers each `Call` with `Reply`.
3. After `Watch` the control plane sends `View` frames: first a complete view of the host, then
   changes. It sends `Ask` for a query about the host or a guest, which the agent answers with
   `Answer`.
"""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final, TypeVar

import msgspec

from berth.adapters.bus.message_codec import ErrorDocument
from berth.domain.compute.instance import Instance
from berth.domain.compute.migration import Migration
from berth.domain.compute.step import Conclusion, LeftoverVerdict, Standing, StepOutcome
from berth.domain.errors import InvalidInputError
from berth.ports.gateway import HostGateway, HostNote, HostView
from berth.ports.virt import HostReport, Power

PROTOCOL: Final = 1
"""The version of the frames. Fields are added at the end of frames without a new version."""

AGENT_FRAME_BYTES_MAX: Final = 1024 * 1024
"""Maximum size of a frame from an agent."""

CONTROL_FRAME_BYTES_MAX: Final = 64 * 1024 * 1024
"""Maximum size of a frame from the control plane; a complete view of a host can be large."""

NONCE_BYTES: Final = 32

_NAME_MAX: Final = 255

# None in MessagePack. An empty `Raw` is not valid MessagePack, so it cannot be a field's default.
_NOTHING: Final = msgspec.Raw(b"\xc0")

T = TypeVar("T")


class Hello(msgspec.Struct, tag=0, array_like=True, frozen=True):
    """The first frame, from the control plane; `nonce` is new for each session."""

    protocol: int
    nonce: bytes


class Proof(msgspec.Struct, tag=1, array_like=True, frozen=True):
    """The identity of an agent: its host, and the signature of `proof_text` with the host's key.

    `session` is new at each start of the agent. `deletes_disks` tells whether its driver can
    delete stored disks.
    """

    protocol: int
    host: str
    session: str
    signature: bytes
    deletes_disks: bool = False


class Welcome(msgspec.Struct, tag=2, array_like=True, frozen=True):
    """The acceptance of an agent. `rotates_key` asks it to replace its key.

    `control_keys` are the public keys of the control plane (Ed25519, the one in use first), which
    the agent trusts from now on in place of those that it knew; it ignores an empty tuple.
    """

    rotates_key: bool = False
    control_keys: tuple[bytes, ...] = ()


class Beat(msgspec.Struct, tag=3, array_like=True, frozen=True):
    """A heartbeat. If it has `wants_echo`, the control plane answers it with a `Beat`."""

    wants_echo: bool = False


class Call(msgspec.Struct, tag=4, array_like=True, frozen=True):
    """A call of a method of the gateway; `args` is the encoded tuple of its arguments."""

    number: int
    method: str
    args: msgspec.Raw


class Reply(msgspec.Struct, tag=5, array_like=True, frozen=True):
    """The reply to the call with the same number: an error, or the encoded value."""

    number: int
    failure: ErrorDocument | None
    value: msgspec.Raw


class Watch(msgspec.Struct, tag=6, array_like=True, frozen=True):
    """The request to send views of the host from now on."""


class View(msgspec.Struct, tag=7, array_like=True, frozen=True):
    """The records that concern the host."""

    view: HostView


class Query(StrEnum):
    """The queries of the control plane to an agent; each names a method of `HostQueries`."""

    CONSOLE = "console"
    DIAGNOSTICS = "diagnostics"
    UPTIME = "uptime"
    VNC = "vnc"


class Ask(msgspec.Struct, tag=8, array_like=True, frozen=True):
    """A query about the host or a guest.

    `bytes_max` is the maximum length of a console's text, `value` the encoded argument of other
    queries that have one.
    """

    number: int
    instance_uuid: str
    bytes_max: int
    query: str = Query.CONSOLE
    value: msgspec.Raw = _NOTHING


class Answer(msgspec.Struct, tag=9, array_like=True, frozen=True):
    """The answer to the query with the same number: an error, a console's text, or a value."""

    number: int
    failure: ErrorDocument | None
    text: str = ""
    value: msgspec.Raw = _NOTHING


class Cast(msgspec.Struct, tag=10, array_like=True, frozen=True):
    """A message about the host's instances to all schedulers, with the name of its command."""

    command: str
    message: msgspec.Raw


AgentFrame = Proof | Beat | Call | Watch | Answer | Cast
"""A frame that an agent sends."""
ControlFrame = Hello | Welcome | Beat | Reply | View | Ask
"""A frame that the control plane sends."""

_ENCODER: Final = msgspec.msgpack.Encoder()
_AGENT: Final = msgspec.msgpack.Decoder(AgentFrame)
_CONTROL: Final = msgspec.msgpack.Decoder(ControlFrame)

encode = _ENCODER.encode
"""Return the bytes of a frame or a value."""


def raw(value: object) -> msgspec.Raw:
    """Return a value in encoded form, for use as a field of a frame."""
    return msgspec.Raw(_ENCODER.encode(value))


def agent_frame_of(data: bytes) -> AgentFrame:
    """Return the frame that is decoded from an agent's bytes.

    Raises:
        InvalidInputError: the bytes are not a frame, or there are too many of them.
    """
    frame: AgentFrame = _decoded(_AGENT, data, AGENT_FRAME_BYTES_MAX)
    return frame


def control_frame_of(data: bytes) -> ControlFrame:
    """Return the frame that is decoded from the control plane's bytes.

    Raises:
        InvalidInputError: the bytes are not a frame, or there are too many of them.
    """
    frame: ControlFrame = _decoded(_CONTROL, data, CONTROL_FRAME_BYTES_MAX)
    return frame


def _decoded(decoder: "msgspec.msgpack.Decoder[T]", data: bytes, bytes_max: int) -> T:
    if len(data) > bytes_max:
        reason = f"has {len(data)} bytes; at most {bytes_max} are allowed"
        raise InvalidInputError("frame", reason)
    try:
        return decoder.decode(data)
    except (msgspec.MsgspecError, ValueError, RecursionError) as error:
        raise InvalidInputError(
            "frame", f"cannot be decoded ({error}); run the same version of Berth everywhere"
        ) from error


def proof_text(host: str, session: str, nonce: bytes) -> bytes:
    """Return the bytes that an agent signs to prove its identity.

    The prefix keeps the signature from being valid for anything else that the key signs.
    """
    return b"\0".join((b"berth host session 1", host.encode(), session.encode(), nonce))


@dataclass(frozen=True, slots=True)
class Method:
    """A method of the gateway that agents may call.

    `args` is the type of the tuple of its arguments besides the host, `call` calls it, and `value`
    is the type of its result.
    """

    args: Any
    value: Any
    call: Callable[..., Awaitable[object]]


async def _register(gateway: HostGateway, host: str, reports: Sequence[HostReport]) -> None:
    for report in reports:
        check_own(host, report)
    await gateway.register(reports)


async def _report(gateway: HostGateway, host: str, report: HostReport) -> None:
    check_own(host, report)
    await gateway.report(report)


async def _instances(gateway: HostGateway, host: str) -> Sequence[Instance]:
    return await gateway.instances(host)


async def _standing(gateway: HostGateway, host: str, uuid: str) -> Standing:
    return await gateway.standing(host, uuid)


async def _move(gateway: HostGateway, host: str, uuid: str) -> Migration | None:
    return await gateway.move(host, uuid)


async def _conclude(gateway: HostGateway, host: str, outcome: StepOutcome) -> Conclusion:
    return await gateway.conclude(host, outcome)


async def _leftover_move(gateway: HostGateway, host: str, uuid: str) -> Migration | None:
    return await gateway.leftover_move(host, uuid)


async def _report_cleared(gateway: HostGateway, host: str, uuid: str) -> None:
    await gateway.report_cleared(host, uuid)


async def _report_power(
    gateway: HostGateway, host: str, uuid: str, revision: int, power: Power | None
) -> str | None:
    return await gateway.report_power(host, uuid, revision, power)


async def _report_crashes(
    gateway: HostGateway, host: str, uuid: str, revision: int, restarts: int, window_s: float
) -> bool:
    return await gateway.report_crashes(host, uuid, revision, restarts=restarts, window_s=window_s)


async def _judge_leftover(
    gateway: HostGateway, host: str, uuid: str, address: str
) -> LeftoverVerdict:
    return await gateway.judge_leftover(host, uuid, address=address)


async def _report_image_cleared(gateway: HostGateway, host: str, image_id: str) -> None:
    await gateway.report_image_cleared(host, image_id)


async def _save_notes(
    gateway: HostGateway,
    host: str,
    notes: Sequence[HostNote],
    begins_pass: bool,  # noqa: FBT001 - arguments travel without names
) -> None:
    await gateway.save_notes(host, notes, begins_pass=begins_pass)


def check_own(host: str, report: HostReport) -> None:
    """Reject the report of another host.

    Raises:
        InvalidInputError: the report is not about the host.
    """
    if report.host.name != host:
        reason = f"is {report.host.name[:_NAME_MAX]!r}, but the session is that of host {host!r}"
        raise InvalidInputError("host.name", reason)


METHODS: Final[Mapping[str, Method]] = {
    "register": Method(tuple[tuple[HostReport, ...]], None, _register),
    "report": Method(tuple[HostReport], None, _report),
    "instances": Method(tuple[()], tuple[Instance, ...], _instances),
    "standing": Method(tuple[str], Standing, _standing),
    "move": Method(tuple[str], Migration | None, _move),
    "conclude": Method(tuple[StepOutcome], Conclusion, _conclude),
    "leftover_move": Method(tuple[str], Migration | None, _leftover_move),
    "report_cleared": Method(tuple[str], None, _report_cleared),
    "report_power": Method(tuple[str, int, Power | None], str | None, _report_power),
    "report_crashes": Method(tuple[str, int, int, float], bool, _report_crashes),
    "judge_leftover": Method(tuple[str, str], LeftoverVerdict, _judge_leftover),
    "report_image_cleared": Method(tuple[str], None, _report_image_cleared),
    "save_notes": Method(tuple[tuple[HostNote, ...], bool], None, _save_notes),
}
"""The methods that agents may call, by name."""
