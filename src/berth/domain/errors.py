"""What can go wrong, each named after the rule that was broken.

Every message says what was wrong, where, and what to do. Adapters at the edge turn these into
HTTP statuses and exit codes; nothing here knows about either.
"""


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
