"""What can go wrong, each named after the rule that was broken.

Every message says what was wrong, where, and what to do. Adapters at the edge turn these into
HTTP statuses and exit codes; nothing here knows about either.
"""

from typing import Final

from berth.domain.build_failure import FailureCause
from berth.domain.decision import Refusal
from berth.domain.footprint import Excess


class BerthError(Exception):
    """Base of all errors that Berth raises on purpose."""


class InvalidInputError(BerthError):
    """A value given from outside breaks a rule.

    Args:
        field: path of the offending value, as the sender wrote it (`server.min_count`).
        reason: what is wrong with it and what would be right.
    """

    def __init__(self, field: str, reason: str) -> None:
        super().__init__(f"{field}: {reason}")
        self.field = field
        self.reason = reason


class NotFoundError(BerthError):
    """Nothing of that kind has that key.

    Args:
        noun: the kind, in the words of the glossary (`flavor`).
        key: what was asked for.
    """

    def __init__(self, noun: str, key: str) -> None:
        super().__init__(f"no {noun} {key!r}")
        self.noun = noun
        self.key = key


class ConflictError(BerthError):
    """The record changed, or exists already, or is in use; read it again and decide anew."""


class InstanceStateError(ConflictError):
    """An instance is not in a state in which something may be done with it.

    Args:
        action: what was asked (`start`).
        instance_uuid: of which instance.
        attribute: `vm_state`, `task_state` or whatever stands in the way.
        state: what it is.
    """

    def __init__(self, action: str, instance_uuid: str, attribute: str, state: str) -> None:
        super().__init__(
            f"Cannot {action!r} instance {instance_uuid} while it is in {attribute} {state}"
        )
        self.action = action
        self.instance_uuid = instance_uuid
        self.attribute = attribute
        self.state = state


class InstanceLockedError(ConflictError):
    """An instance is locked, and whoever asks is no administrator.

    Args:
        instance_uuid: which.
    """

    def __init__(self, instance_uuid: str) -> None:
        super().__init__(f"Instance {instance_uuid} is locked")
        self.instance_uuid = instance_uuid


class QuotaExceededError(BerthError):
    """A project would have more than it may; nothing was kept.

    Args:
        excess: of what, and by how much.
    """

    def __init__(self, excess: tuple[Excess, ...]) -> None:
        # The words that clients know from Nova, in its order.
        rows = sorted(excess, key=lambda one: _CLIENT_NAMES[one.name])
        names = ", ".join(_CLIENT_NAMES[one.name] for one in rows)
        asked, used, limits = (", ".join(str(one[column]) for one in rows) for column in (1, 2, 3))
        super().__init__(
            f"Quota exceeded for {names}: Requested {asked}, but already used {used} of {limits} "
            f"{names}"
        )
        self.excess = excess


_CLIENT_NAMES: Final = {
    "instances": "instances",
    "vcpus": "cores",
    "memory_mb": "ram",
    "server_groups": "server_groups",
    "group_members": "server_group_members",
}
"""What clients call what a quota limits."""


class PolicyError(BerthError):
    """A policy file is wrong; the policy in force stays in force.

    Args:
        where: the place in the file (`filters[2].name`).
        reason: what is wrong and what would be right.
    """

    def __init__(self, where: str, reason: str) -> None:
        super().__init__(f"policy: {where}: {reason}")
        self.where = where
        self.reason = reason


class NoValidHostError(BerthError):
    """No plan fits the request; the refusal says which rule, how many hosts, what would help."""

    def __init__(self, request_id: str, refusal: Refusal) -> None:
        super().__init__(f"request {request_id}: {refusal.message}")
        self.request_id = request_id
        self.refusal = refusal


class ContentionError(BerthError):
    """Other schedulers took the room first, more often than the attempts allow."""

    def __init__(self, request_id: str, attempts_max: int) -> None:
        super().__init__(
            f"request {request_id}: lost the room to other schedulers {attempts_max} times; "
            "try again, or raise host_subset_size so that schedulers pick different hosts"
        )
        self.request_id = request_id
        self.attempts_max = attempts_max


class FeedGapError(BerthError):
    """The change feed no longer holds what a follower missed; load a snapshot instead."""


class BuildError(BerthError):
    """The driver of a host could not start an instance.

    Args:
        reason: what went wrong, for operators.
        blames_host: it counts as a failed build of the host, which schedulers then avoid; False
            when the host is in order and only may not have the instance (a group's policy).
        cause: why it failed; None where the driver does not know: its own fault, or the
            request's with `blames_host` False. Some causes blame no host, whatever that says.
    """

    def __init__(
        self, reason: str, *, blames_host: bool = True, cause: FailureCause | None = None
    ) -> None:
        super().__init__(reason)
        self.cause = cause or (FailureCause.DRIVER if blames_host else FailureCause.GUEST)
        self.blames_host = blames_host and self.cause.blames_host


class DriverError(BerthError):
    """The driver of a host cannot do what it was asked, or tried and failed.

    The message names the guest or the driver and the verb, for operators.
    """


class MigrationError(DriverError):
    """A live migration did not take place; the guest goes on where it was."""


class UnavailableError(BerthError):
    """A part that is needed cannot be reached or is shutting down; try again later."""


class LedgerError(BerthError):
    """The ledger could not be opened, migrated, read or written."""
