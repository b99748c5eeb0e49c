"""Actions: what was asked of an instance, by whom, and what came of it."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class ActionEvent:
    """One step of an action. `host` is where it was done; operators alone are told."""

    name: str
    host: str
    started_at_s: float
    ended_at_s: float
    error: str = ""
    """What went wrong, for operators; empty when nothing did."""


@dataclass(frozen=True, slots=True)
class Action:
    """One request to do something with an instance, named as Nova names it (`resize`, say).

    Times are Unix seconds. `message` is safe to show to the owner of the instance; it is empty
    when the action went well, or goes on.
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
    def key(self) -> str:
        """What tells it from all others; one request does one thing to an instance."""
        return f"{self.instance_uuid} {self.request_id}"


@dataclass(frozen=True, slots=True)
class Caller:
    """Who asks, and the id of the request, which no other one has."""

    request_id: str
    project_id: str
    user_id: str
    is_admin: bool = False
