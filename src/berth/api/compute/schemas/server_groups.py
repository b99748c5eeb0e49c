"""Request and response bodies for server groups."""

from typing import Annotated

from berth.api.codec import UNSET, Meta, Model, Name, UnsetType, View
from berth.api.values import Limit, Whole
from berth.domain.compute.server_group import GroupPolicy


class Rules(Model):
    """The rules of an anti-affinity group."""

    max_server_per_host: Whole | UnsetType = UNSET


class NewServerGroup(Model):
    """The server group to create; microversion 2.64 replaces `policies` with `policy`."""

    name: Name
    policies: Annotated[list[GroupPolicy], Meta(min_length=1, max_length=1)] | UnsetType = UNSET
    policy: GroupPolicy | UnsetType = UNSET
    rules: Rules | UnsetType = UNSET


class NewServerGroupBody(Model):
    """Body of POST /os-server-groups."""

    server_group: NewServerGroup


class ServerGroupsQuery(Model):
    """Scope and page of a server group list; any value of `all_projects` requests all projects."""

    all_projects: str | None = None
    limit: Limit | None = None
    offset: Limit | None = None


class ServerGroupView(View):
    """A server group with its members."""

    id: str
    name: str
    members: list[str]
    policies: list[str] | UnsetType = UNSET
    metadata: dict[str, str] | UnsetType = UNSET
    policy: str | UnsetType = UNSET
    rules: dict[str, int] | UnsetType = UNSET
    project_id: str | UnsetType = UNSET
    user_id: str | UnsetType = UNSET


class ServerGroupAnswer(View):
    """The response with one server group."""

    server_group: ServerGroupView


class ServerGroupsAnswer(View):
    """The response with a page of server groups."""

    server_groups: list[ServerGroupView]
