"""Server groups: instances that want to be together or apart."""

from dataclasses import dataclass
from enum import StrEnum


class GroupPolicy(StrEnum):
    """What a server group asks for; the soft ones only weigh."""

    AFFINITY = "affinity"
    ANTI_AFFINITY = "anti-affinity"
    SOFT_AFFINITY = "soft-affinity"
    SOFT_ANTI_AFFINITY = "soft-anti-affinity"


@dataclass(frozen=True, slots=True)
class ServerGroup:
    """A group and its one policy; members are the instances that name it.

    `max_server_per_host` counts only under anti-affinity (nova-behaviour.md 6.1). `zone_id` is
    the child zone
    that all members of a group with hard affinity go to, once the first ones were sent somewhere;
    0 is this zone itself.
    """

    uuid: str
    name: str
    policy: GroupPolicy
    project_id: str = ""
    user_id: str = ""
    max_server_per_host: int = 1
    zone_id: int | None = None
