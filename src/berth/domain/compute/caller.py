"""Callers: who asks for something to be done, as far as the history tells."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Caller:
    """Who asks, and the id of the request, which no other one has."""

    request_id: str
    project_id: str
    user_id: str
    is_admin: bool = False
