"""Instance actions: the history of the operations that callers requested on an instance."""

from dataclasses import dataclass
from typing import Final

DELETE: Final = "delete"
"""Nova's name of the action that deletes an instance, also by force."""


@dataclass(frozen=True, slots=True)
class ActionEvent:
    """One step of an action, and the host that executed it.

    `host` and `error` are shown to administrators only. Times are Unix seconds.
    """

    name: str
    host: str
    started_at_s: float
    ended_at_s: float
    error: str = ""
    """The error message; empty if the step succeeded."""


@dataclass(frozen=True, slots=True)
class Action:
    """One request to act on an instance; `name` is Nova's name of the action (`resize`).

    Times are Unix seconds; `ended_at_s` is None while the action is in progress. `message` is safe
    to show to the owner; it is empty if the action succeeded or is in progress.
    """

    instance_uuid: str
    request_id: str
    name: str
    project_id: str
    user_id: str
    started_at_s: float
    ended_at_s: float | None = None
    message: str = ""
    events: tuple[ActionEvent, ...] = ()

    @property
    def is_deletion(self) -> bool:
        """Whether the action deletes the instance."""
        return self.name == DELETE

    @property
    def key(self) -> str:
        """The key of the record, unique because a request starts one action per instance."""
        return f"{self.instance_uuid} {self.request_id}"


@dataclass(frozen=True, slots=True)
class Caller:
    """The caller of an operation, with the id of the HTTP request, which is unique."""

    request_id: str
    project_id: str
    user_id: str
    is_admin: bool = False
