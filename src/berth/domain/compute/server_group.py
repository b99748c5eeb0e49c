"""Server groups: instances that should share a host or avoid one another."""

from dataclasses import dataclass
from enum import StrEnum


class GroupPolicy(StrEnum):
    """The placement policy of a server group; the soft policies never exclude a host."""

    AFFINITY = "affinity"
    ANTI_AFFINITY = "anti-affinity"
    SOFT_AFFINITY = "soft-affinity"
    SOFT_ANTI_AFFINITY = "soft-anti-affinity"


@dataclass(frozen=True, slots=True)
class ServerGroup:
    """A server group and its policy; the members are the instances that refer to it.

    `max_server_per_host` applies to anti-affinity only (nova-behaviour.md 6.1). `zone_id` is the
    zone to which all members of a group with hard affinity go once its first member has been sent
    there; 0 is this zone itself, and None means that no zone has been chosen.
    """

    uuid: str
    name: str
    policy: GroupPolicy
    project_id: str = ""
    user_id: str = ""
    max_server_per_host: int = 1
    zone_id: int | None = None
