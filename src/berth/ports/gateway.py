"""The gateway: the one way in which the agents of hosts reach the control plane.

An agent has no access to the ledger. It reports its host, the outcomes of its steps and its
findings; it receives only the instances and moves that concern its host. The gateway derives all
writes itself, and rejects reports about anything that does not belong to the host.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Final, Protocol

from berth.domain.compute.host_identity import HostKey
from berth.domain.compute.instance import Instance
from berth.domain.compute.migration import Migration
from berth.domain.compute.step import (
    ERROR_TEXT_MAX,
    Conclusion,
    LeftoverVerdict,
    Standing,
    StepOutcome,
)
from berth.domain.errors import InvalidInputError
from berth.ports.virt import GuestDiagnostics, HostReport, Power

_CODE_MAX = 64
_KEY_MAX = 255


@dataclass(frozen=True, slots=True)
class HostNote:
    """One fault that an agent has found on its host (`is_repaired` False) or repaired there.

    `code` is a `DiscrepancyCode`, `key` the UUID concerned.
    """

    code: str
    key: str
    text: str
    is_repaired: bool = False

    def __post_init__(self) -> None:
        """Reject texts that are too long.

        Raises:
            InvalidInputError: a text is too long; the error names the field.
        """
        for name, text, longest in (
            ("code", self.code, _CODE_MAX),
            ("key", self.key, _KEY_MAX),
            ("text", self.text, ERROR_TEXT_MAX),
        ):
            if len(text) > longest:
                reason = f"has {len(text)} characters; at most {longest} are allowed"
                raise InvalidInputError(name, reason)


@dataclass(frozen=True, slots=True)
class HostView:
    """Instances and moves that concern one host, as of a ledger version.

    A complete view (`is_complete`) has all of them. Any other view has only those that have changed
    since the previous view, including instances that have left the host.
    """

    version: int
    instances: tuple[Instance, ...] = ()
    migrations: tuple[Migration, ...] = ()
    is_complete: bool = False

    def with_instances(self, more: Iterable[Instance]) -> "HostView":
        """Return the view with further instances."""
        return replace(self, instances=(*self.instances, *more))


class HostGateway(Protocol):
    """Serves the agents of hosts. Each call names the host for which it is made.

    All methods raise `UnavailableError` if the control plane or its ledger cannot be reached. Even
    then, the call may have taken effect; repeating it is safe.
    """

    async def register(self, reports: Sequence[HostReport]) -> None:
        """Report hosts when their agents start; unknown hosts are added.

        Raises:
            InvalidInputError: a report is invalid; see `Hosts.register`.
            ConflictError: a UUID belongs to another host, or other processes kept changing the same
                hosts during every attempt; see `Hosts.register`.
        """
        ...

    async def heartbeat(self, hosts: Sequence[str]) -> None:
        """Report that the agents of the given hosts are alive now."""
        ...

    async def report(self, report: HostReport) -> None:
        """Report a host while its agent runs; the gateway then audits the host's allocations.

        The report is stored only if it differs from the ledger. A removed host stays removed.

        Raises:
            InvalidInputError: the report is invalid; see `Hosts.register`.
            ConflictError: the UUID belongs to another host, or other processes kept changing the
                host during every attempt; in the latter case, report it again later.
        """
        ...

    async def instances(self, host: str) -> Sequence[Instance]:
        """Return the instances on a host that are not deleted."""
        ...

    async def standing(self, host: str, instance_uuid: str) -> Standing:
        """Return the state of an instance, as far as it concerns the host."""
        ...

    async def move(self, host: str, migration_uuid: str) -> Migration | None:
        """Return a move from or to a host, or None if there is no such move."""
        ...

    async def conclude(self, host: str, outcome: StepOutcome) -> Conclusion:
        """Report the outcome of a step.

        Raises:
            InvalidInputError: the step cannot have this outcome.
        """
        ...

    async def leftover_move(self, host: str, migration_uuid: str) -> Migration | None:
        """Return a move whose guest the host must still destroy, or None if there is none."""
        ...

    async def report_cleared(self, host: str, migration_uuid: str) -> None:
        """Report that the guest that a move left on the host is destroyed."""
        ...

    async def report_power(
        self, host: str, instance_uuid: str, revision: int, power: Power | None
    ) -> str | None:
        """Report that the guest of an idle instance contradicts the instance's status.

        Args:
            host: the host of the guest.
            instance_uuid: the instance.
            revision: the revision of the instance that the guest contradicts.
            power: the power state of the guest; None if there is no guest.

        Returns:
            The response of the control plane, worded as the end of a sentence about the guest; None
            if there is none, for example because the instance has changed.
        """
        ...

    async def report_crashes(
        self, host: str, instance_uuid: str, revision: int, *, restarts: int, window_s: float
    ) -> bool:
        """Report that the guest of an instance keeps crashing.

        Args:
            host: the host of the guest.
            instance_uuid: the instance.
            revision: the revision of the instance whose guest was restarted last.
            restarts: the number of restarts.
            window_s: the number of seconds within which they happened.

        Returns:
            Whether the instance is now in ERROR; False if it has changed or has a move.

        Raises:
            InvalidInputError: `restarts` or `window_s` is out of bounds.
        """
        ...

    async def judge_leftover(
        self, host: str, instance_uuid: str, *, address: str
    ) -> LeftoverVerdict:
        """Return whether files or stored disks on a host are still needed.

        Args:
            host: the host that has them.
            instance_uuid: the instance to which they belonged.
            address: the address of stored disks; empty for files.
        """
        ...

    async def report_image_cleared(self, host: str, image_id: str) -> None:
        """Report that nothing of an image that is not needed is in the storage.

        Nothing is recorded for an image that exists.
        """
        ...

    async def save_notes(
        self, host: str, notes: Sequence[HostNote], *, begins_pass: bool = False
    ) -> None:
        """Record the faults that an agent has found or repaired.

        With `begins_pass`, a new pass over the whole host begins before these notes: findings that
        have not been reported since the previous pass began are dropped.
        """
        ...


class VncStep(StrEnum):
    """A step in the life of a VNC console."""

    GRANT = "grant"
    """Make a token valid, after checking that the guest's VNC server can be reached."""
    CHECK = "check"
    """Check that a token is valid."""
    OPEN = "open"
    """Open a channel to the VNC server of a guest with a valid token."""
    SEND = "send"
    """Send bytes to the VNC server."""
    RECEIVE = "receive"
    """Return the next bytes of the VNC server, or none if it sends none for some seconds."""
    CLOSE = "close"
    """Close the channel; succeed if it is closed already."""


VNC_BYTES_MAX: Final = 64 * 1024
"""Maximum number of bytes that one step sends or returns."""
VNC_LIFETIME_S_MAX: Final = 86_400.0
VNC_CHANNELS_MAX: Final = 64
"""Maximum number of channels on a host; further ones are refused."""
VNC_CHANNELS_PER_INSTANCE_MAX: Final = 8
"""Maximum number of channels of an instance, so that one tenant cannot use up those of a host."""
VNC_TOKENS_MAX: Final = 4_096
"""Maximum number of valid tokens on a host; a new one replaces one of the instance with most."""
VNC_TOKENS_PER_INSTANCE_MAX: Final = 32
"""Maximum number of valid tokens of an instance; a new one replaces the oldest."""
_VNC_KEY_MAX: Final = 64


@dataclass(frozen=True, slots=True)
class VncRequest:
    """One step of a VNC console of a guest.

    `token_hash` is the SHA-256 of the token in hexadecimal digits; hosts never see a token.
    `lifetime_s` is the time in seconds for which a new token is valid. `channel` names a connection
    to the VNC server. `number` counts the SEND steps, and separately the RECEIVE steps, of a
    channel from 1. A step that the bus delivers twice has no effect the second time, and repeats
    its result.
    """

    instance_uuid: str
    step: VncStep
    token_hash: str = ""
    lifetime_s: float = 0.0
    channel: str = ""
    number: int = 0
    data: bytes = field(default=b"", repr=False)

    def __post_init__(self) -> None:
        """Reject values that are too long or too large.

        Raises:
            InvalidInputError: the error names the field.
        """
        for name, text in (("token_hash", self.token_hash), ("channel", self.channel)):
            if len(text) > _VNC_KEY_MAX:
                raise InvalidInputError(name, f"must have at most {_VNC_KEY_MAX} characters")
        if len(self.data) > VNC_BYTES_MAX:
            raise InvalidInputError("data", f"must have at most {VNC_BYTES_MAX} bytes")
        if not 0 <= self.lifetime_s <= VNC_LIFETIME_S_MAX:
            raise InvalidInputError("lifetime_s", f"must be from 0 to {VNC_LIFETIME_S_MAX:.0f}")


@dataclass(frozen=True, slots=True)
class VncReply:
    """The result of a step: the bytes that a RECEIVE returns, of at most `VNC_BYTES_MAX`."""

    data: bytes = field(default=b"", repr=False)

    def __post_init__(self) -> None:
        """Reject too many bytes.

        Raises:
            InvalidInputError: there are more than `VNC_BYTES_MAX` bytes.
        """
        if len(self.data) > VNC_BYTES_MAX:
            raise InvalidInputError("data", f"must have at most {VNC_BYTES_MAX} bytes")


class HostQueries(Protocol):
    """Answers queries about a host and its guests.

    The methods raise DriverError like those of `VirtDriver`, and UnavailableError if the agent of
    the host does not answer.
    """

    async def console(self, instance_uuid: str, *, bytes_max: int) -> str:
        """See `VirtDriver.console`."""
        ...

    async def diagnostics(self, instance_uuid: str) -> GuestDiagnostics:
        """See `VirtDriver.diagnostics`."""
        ...

    async def uptime(self) -> str:
        """See `VirtDriver.uptime`."""
        ...

    async def vnc(self, request: VncRequest) -> VncReply:
        """Carry out one step of a VNC console.

        Raises:
            NotFoundError: the token is not valid, or the channel is closed.
            DriverError: the guest is not running.
            UnsupportedFeatureError: the guest has no VNC.
            UnavailableError: too many channels of the instance or the host are open.
        """
        ...


class HostSessions(Protocol):
    """Serves the sessions of agents, over any transport."""

    @property
    def gateway(self) -> HostGateway:
        """The gateway that serves the calls of agents."""
        ...

    def signer(self, host: str, message: bytes, signature: bytes) -> HostKey | None:
        """Return the valid key of a host with which a message was signed, or None."""
        ...

    def is_valid(self, host: str, key: HostKey) -> bool:
        """Return whether a key is one of the host's keys now."""
        ...

    def wants_rotation(self, host: str, key: HostKey) -> bool:
        """Return whether an agent that has authenticated with a key should replace that key."""
        ...

    async def settle(self, host: str, key: HostKey) -> None:
        """Make a key that an agent has used the only key of its host.

        Raises:
            ConflictError: the keys kept changing concurrently during every attempt.
            UnavailableError: the ledger cannot be reached; the other key also stays valid.
        """
        ...

    async def add_key(self, host: str, public_key: str) -> None:
        """Add the successor of a host's key.

        Raises:
            InvalidInputError: `public_key` is not an Ed25519 public key.
            ConflictError: the host has no valid key, or its keys kept changing concurrently during
                every attempt.
            UnavailableError: the ledger cannot be reached.
        """
        ...

    def note_alive(self, host: str) -> None:
        """Note that the agent of a host is alive now."""
        ...

    async def watch(
        self, host: str, deliver: Callable[[HostView], None], *, deletes_disks: bool
    ) -> Callable[[], None]:
        """Send a complete view of a host and then its changes; return a function that stops this.

        Args:
            host: the name of the host.
            deliver: receives the views on the event loop; it must not block.
            deletes_disks: whether the agent can delete the stored disks of instances on no host.

        Raises:
            UnavailableError: the ledger cannot be reached.
        """
        ...

    def serve_queries(self, host: str, queries: HostQueries) -> Callable[[], None]:
        """Serve queries about a host and its guests, until the returned function is called."""
        ...

    def cast_type(self, command: str) -> type | None:
        """Return the type of a message that agents may send to all schedulers, or None."""
        ...

    async def cast(self, host: str, command: str, message: object) -> None:
        """Send a message about a host's instances to all schedulers.

        Raises:
            InvalidInputError: the message is about another host.
            UnavailableError: the bus cannot be reached.
        """
        ...
