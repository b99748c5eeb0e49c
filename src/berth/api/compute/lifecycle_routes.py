"""The compute API's operations on migrations, consoles and the action history of servers."""

from berth.api.compute.handlers import instance_actions, migrations
from berth.api.compute.handlers.servers import remote_consoles
from berth.api.compute.schemas.lifecycle import (
    ActionAnswer,
    ActionsAnswer,
    ActionsQuery,
    LiveMigrationAnswer,
    LiveMigrationsAnswer,
    MigrationsAnswer,
    MigrationsQuery,
)
from berth.api.compute.schemas.remote_consoles import (
    RemoteConsoleAnswer,
    RemoteConsoleBody,
    TokenAnswer,
)
from berth.api.routing import ApiOperation, Role

_SERVER = "/v2.1/servers/{server_id}"
_MIGRATIONS = f"{_SERVER}/migrations"
_MIGRATION = _MIGRATIONS + "/{migration_id}"
_ACTIONS = f"{_SERVER}/os-instance-actions"
_ADMIN = Role.ADMIN

OPERATIONS = (
    ApiOperation(
        "GET",
        "/v2.1/os-migrations",
        migrations.list_migrations,
        role=_ADMIN,
        query=MigrationsQuery,
        answers=MigrationsAnswer,
    ),
    ApiOperation(
        "GET",
        _MIGRATIONS,
        migrations.list_server_migrations,
        role=_ADMIN,
        answers=LiveMigrationsAnswer,
        since=(2, 23),
    ),
    ApiOperation(
        "GET",
        _MIGRATION,
        migrations.show_server_migration,
        role=_ADMIN,
        answers=LiveMigrationAnswer,
        since=(2, 23),
    ),
    ApiOperation(
        "DELETE",
        _MIGRATION,
        migrations.cancel_server_migration,
        202,
        role=_ADMIN,
        since=(2, 24),
    ),
    ApiOperation(
        "POST",
        f"{_SERVER}/remote-consoles",
        remote_consoles.create_remote_console,
        body=RemoteConsoleBody,
        answers=RemoteConsoleAnswer,
        since=(2, 6),
    ),
    ApiOperation(
        "GET",
        "/v2.1/os-console-auth-tokens/{console_token}",
        remote_consoles.show_console_token,
        role=_ADMIN,
        answers=TokenAnswer,
        strict_since=(2, 99),
    ),
    ApiOperation(
        "GET", _ACTIONS, instance_actions.list_actions, query=ActionsQuery, answers=ActionsAnswer
    ),
    ApiOperation(
        "GET", _ACTIONS + "/{request_id}", instance_actions.show_action, answers=ActionAnswer
    ),
)
