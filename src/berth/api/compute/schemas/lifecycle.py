"""Queries and response bodies for migrations and for the action history of servers."""

from berth.api.codec import UNSET, Model, UnsetType, View
from berth.api.links import Link
from berth.api.values import Limit


class MigrationsQuery(
    Model, rename={"changes_since": "changes-since", "changes_before": "changes-before"}
):
    """Filters and page of a migration list."""

    host: str | None = None
    source_compute: str | None = None
    instance_uuid: str | None = None
    migration_type: str | None = None
    status: str | None = None
    user_id: str | None = None
    project_id: str | None = None
    limit: Limit | None = None
    marker: str | None = None
    changes_since: str | None = None
    changes_before: str | None = None
    # Nova's filter is accepted and ignored, because Berth hides no migrations.
    hidden: str | None = None


class MigrationView(View):
    """A resize, cold or live migration, or evacuation of a server."""

    id: int
    status: str
    instance_uuid: str
    source_compute: str
    source_node: str
    dest_compute: str
    dest_node: str
    dest_host: str
    old_instance_type_id: int
    new_instance_type_id: int
    created_at: str
    updated_at: str | None
    uuid: str | UnsetType = UNSET
    migration_type: str | UnsetType = UNSET
    links: tuple[Link, ...] | UnsetType = UNSET
    user_id: str | UnsetType = UNSET
    project_id: str | UnsetType = UNSET


class MigrationsAnswer(View):
    """The response with a page of migrations."""

    migrations: list[MigrationView]
    migrations_links: tuple[Link, ...] | UnsetType = UNSET


class LiveMigrationView(View):
    """A live migration in progress."""

    id: int
    status: str
    server_uuid: str
    source_compute: str
    source_node: str
    dest_compute: str
    dest_node: str
    dest_host: str
    created_at: str
    updated_at: str
    # Berth does not record the progress of transfers. Clients read these fields, and null means
    # unknown.
    memory_total_bytes: int | None = None
    memory_processed_bytes: int | None = None
    memory_remaining_bytes: int | None = None
    disk_total_bytes: int | None = None
    disk_processed_bytes: int | None = None
    disk_remaining_bytes: int | None = None
    uuid: str | UnsetType = UNSET
    user_id: str | UnsetType = UNSET
    project_id: str | UnsetType = UNSET


class LiveMigrationsAnswer(View):
    """The response with the live migrations in progress of a server; there is at most one."""

    migrations: list[LiveMigrationView]


class LiveMigrationAnswer(View):
    """The response with one live migration."""

    migration: LiveMigrationView


class ActionsQuery(
    Model, rename={"changes_since": "changes-since", "changes_before": "changes-before"}
):
    """Time limits and page of a list of a server's actions."""

    limit: Limit | None = None
    marker: str | None = None
    changes_since: str | None = None
    changes_before: str | None = None


class EventView(View, rename={"host_id": "hostId"}):
    """One step of an action, which the API calls an event."""

    event: str
    start_time: str
    finish_time: str | None
    result: str | None
    traceback: str | UnsetType | None = UNSET
    host: str | UnsetType = UNSET
    host_id: str | UnsetType = UNSET
    details: str | UnsetType | None = UNSET


class ActionView(View):
    """An action on a server; only the response with a single action contains its events."""

    action: str
    instance_uuid: str
    request_id: str
    user_id: str
    project_id: str
    start_time: str
    message: str | None
    updated_at: str | UnsetType | None = UNSET
    events: list[EventView] | UnsetType = UNSET


class ActionsAnswer(View, rename={"actions": "instanceActions"}):
    """The response with a page of a server's actions, newest first."""

    actions: list[ActionView]
    links: tuple[Link, ...] | UnsetType = UNSET


class ActionAnswer(View, rename={"action": "instanceAction"}):
    """The response with one action and, if the caller may see them, its events."""

    action: ActionView
