"""The errors that Berth raises on purpose.

A message says what is wrong, where, and how to fix it. Adapters at the edge translate the errors
into HTTP statuses and exit codes. Errors travel between processes by class name, so renaming a
class breaks deployments in which processes run different versions.
"""


class BerthError(Exception):
    """The base class of all errors that Berth raises on purpose."""


class InvalidInputError(BerthError):
    """An input value violates a rule.

    Args:
        field: path of the offending value, as the sender wrote it (`server.min_count`).
        reason: what is wrong with the value and which values are valid.
    """

    def __init__(self, field: str, reason: str) -> None:
        super().__init__(f"{field}: {reason}")
        self.field = field
        self.reason = reason


class NotFoundError(BerthError):
    """No record of the given kind has the given key.

    Args:
        noun: the kind of the record (`flavor`).
        key: the key that was requested.
    """

    def __init__(self, noun: str, key: str) -> None:
        super().__init__(f"no {noun} {key!r}")
        self.noun = noun
        self.key = key


class AccessDeniedError(BerthError):
    """The caller has not proven its identity, or lacks permission for what it requested."""


class ConflictError(BerthError):
    """A record has changed, already exists, or is in use; read it again before another attempt."""


class InstanceStateError(ConflictError):
    """An instance is in a state that does not permit the requested action.

    Args:
        action: the requested action (`start`).
        instance_uuid: the instance.
        attribute: the blocking attribute, usually `vm_state` or `task_state`.
        state: the current value of that attribute.
    """

    def __init__(self, action: str, instance_uuid: str, attribute: str, state: str) -> None:
        # Nova's wording: its clients show this message to users.
        super().__init__(
            f"Cannot {action!r} instance {instance_uuid} while it is in {attribute} {state}"
        )
        self.action = action
        self.instance_uuid = instance_uuid
        self.attribute = attribute
        self.state = state


class InstanceLockedError(ConflictError):
    """An instance is locked and the caller is not an administrator.

    Args:
        instance_uuid: the locked instance.
    """

    def __init__(self, instance_uuid: str) -> None:
        super().__init__(f"Instance {instance_uuid} is locked")
        self.instance_uuid = instance_uuid


class PolicyError(BerthError):
    """A policy file is invalid; the current policy stays in force.

    Args:
        where: the place in the file (`filters[2].name`).
        reason: what is wrong and what would be right.
    """

    def __init__(self, where: str, reason: str) -> None:
        super().__init__(f"policy: {where}: {reason}")
        self.where = where
        self.reason = reason


class FeedGapError(BerthError):
    """The feed no longer has versions that a follower missed; the follower must load a snapshot."""


class DriverError(BerthError):
    """A driver does not support an operation, or tried it and failed.

    The message is for operators and names the driver or the guest, and the operation.
    """


class UnsupportedFeatureError(DriverError):
    """A driver does not support a feature for any guest."""


class MigrationError(DriverError):
    """A live migration failed; the guest keeps running on its source host."""


class UnavailableError(BerthError):
    """A required component cannot be reached or is shutting down; the caller may retry later."""


class UncertainFleetError(UnavailableError):
    """Too many hosts fell silent at once to tell which of them are down; try again later."""


class LedgerError(BerthError):
    """The ledger cannot be opened, migrated, read or written."""
