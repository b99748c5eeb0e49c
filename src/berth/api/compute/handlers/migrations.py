"""Handlers for migrations: the list of all of them, and a server's live migration in progress."""

from berth.api.codec import UNSET
from berth.api.compute.handlers.periods import period_of
from berth.api.compute.handlers.servers.action_arguments import caller_of
from berth.api.compute.handlers.servers.servers import server_of
from berth.api.compute.schemas.lifecycle import (
    LiveMigrationAnswer,
    LiveMigrationsAnswer,
    LiveMigrationView,
    MigrationsAnswer,
    MigrationsQuery,
    MigrationView,
)
from berth.api.errors import HttpError
from berth.api.links import COMPUTE, Link, limit_of, linker_of, next_page
from berth.api.routing import Answer, Call
from berth.api.values import naive_time, number_of
from berth.domain.compute.instance import Instance
from berth.domain.compute.migration import Migration, MoveKind, Stage
from berth.domain.errors import InstanceStateError, InvalidInputError, NotFoundError
from berth.ports.ledger import MigrationQuery
from berth.services.servers.operations import CANCELLABLE

# Microversions: 2.23 adds type and links; 2.59 adds paging, `changes-since` and uuids; 2.65 allows
# clients to cancel a migration that is still being prepared; 2.66 adds `changes-before`; 2.80 adds
# user and project, as fields and as filters.
_TYPED = (2, 23)
_PAGED = (2, 59)
_ABORT_EARLY = (2, 65)
_BEFORE = (2, 66)
_OWNED = (2, 80)
# The largest id of a migration or flavor; Nova's ids are 32-bit integers.
_NUMBER_MAX = 2**31 - 1


async def list_migrations(call: Call) -> Answer:
    """List the migrations of all servers, newest first.

    Raises:
        InvalidInputError: a parameter of the query is invalid, or the marker is unknown.
    """
    parameters, version = call.query(MigrationsQuery), call.version
    is_paged = version >= _PAGED
    limit = limit_of(call, parameters.limit) if is_paged else call.parts.limits.list_max
    since_s, before_s = period_of(parameters, is_paged=is_paged, has_end=version >= _BEFORE)
    query = MigrationQuery(
        host=parameters.host,
        source_host=parameters.source_compute,
        instance_uuid=parameters.instance_uuid,
        kind=parameters.migration_type,
        status=parameters.status,
        user_id=parameters.user_id if version >= _OWNED else None,
        project_id=parameters.project_id if version >= _OWNED else None,
        changed_since_s=since_s,
        changed_before_s=before_s,
        limit=limit + 1,
        marker=parameters.marker if is_paged else None,
    )
    try:
        found = await call.parts.ledger.migrations(query)
    except NotFoundError as error:
        raise InvalidInputError(
            "marker", f"migration {parameters.marker} could not be found"
        ) from error
    page = found[:limit]
    has_more = is_paged and bool(page) and len(found) > limit
    links = next_page(call, page[-1].uuid, limit) if has_more else UNSET
    # Before 2.59 there are no pages, so the list contains at most `list_max` migrations.
    views = [_view(call, one) for one in page]
    return Answer(MigrationsAnswer(migrations=views, migrations_links=links))


async def list_server_migrations(call: Call) -> Answer:
    """List a server's live migration, if one is in progress.

    Raises:
        NotFoundError: the server does not exist, is deleted, or belongs to a project that the
            caller may not see.
    """
    instance = await server_of(call)
    migration = await _migration(call, instance)
    is_live = migration is not None and _goes_on(migration)
    found = [_live_view(call, migration)] if migration is not None and is_live else []
    return Answer(LiveMigrationsAnswer(migrations=found))


async def show_server_migration(call: Call) -> Answer:
    """Show a server's live migration by its id, if the migration is in progress.

    Raises:
        NotFoundError: the caller sees no such server.
        HttpError: 404 when the server has no such live migration in progress.
    """
    instance, number = await server_of(call), _number(call)
    migration = await _migration(call, instance)
    # Earlier migrations are looked up only for the message. As in Nova, it distinguishes an unknown
    # id, a migration that has ended, and one that is not live. The texts are Nova's.
    if migration is None or migration.number != number:
        migration = await _earlier(call, instance, number)
    if migration is None:
        of = f"{call.key('migration_id')[:80]} is not found for server {instance.uuid}"
        raise HttpError(404, f"In-progress live migration {of}.")
    what = f"{number} for server {instance.uuid} is not"
    if migration.kind is not MoveKind.LIVE:
        raise HttpError(404, f"Migration {what} live-migration.")
    if not _goes_on(migration):
        raise HttpError(404, f"Live migration {what} in progress.")
    return Answer(LiveMigrationAnswer(migration=_live_view(call, migration)))


async def cancel_server_migration(call: Call) -> Answer:
    """Cancel a live migration; the server stays on its source host.

    Raises:
        NotFoundError: the caller sees no such server.
        HttpError: the server has no such migration (404), or its stage does not allow this (400).
        InstanceLockedError: the server is locked, and the caller is not an administrator.
        InstanceStateError: the server is not being migrated.
    """
    instance, number = await server_of(call), _number(call)
    stages = CANCELLABLE if call.version >= _ABORT_EARLY else {Stage.MOVING}
    try:
        await call.parts.operations.cancel_live_migration(
            instance.uuid, number, caller_of(call), stages=stages
        )
    except NotFoundError as error:
        raise _unknown(call, instance) from error
    except InstanceStateError as error:
        # Nova responds with 400 to a migration in the wrong stage, and with 409 to a server in the
        # wrong state.
        if error.attribute != "migration":
            raise
        text = (
            f"Migration {number} state of instance {instance.uuid} is {error.state}. "
            "Cannot abort live migration while the migration is in this state."
        )
        raise HttpError(400, text) from error
    return Answer()


async def _migration(call: Call, instance: Instance) -> Migration | None:
    uuid = instance.migration_uuid
    return None if uuid is None else await call.parts.ledger.get(Migration, uuid)


async def _earlier(call: Call, instance: Instance, number: int) -> Migration | None:
    """Return the server's migration with the given id, or None if it does not exist."""
    over = await call.parts.ledger.migrations(MigrationQuery(instance_uuid=instance.uuid))
    return next((one for one in over if one.number == number), None)


def _goes_on(migration: Migration) -> bool:
    return migration.kind is MoveKind.LIVE and migration.stage in CANCELLABLE


def _unknown(call: Call, instance: Instance) -> HttpError:
    key = call.key("migration_id")
    return HttpError(404, f"Migration {key[:80]} not found for instance {instance.uuid}.")


def _number(call: Call) -> int:
    text = call.key("migration_id")
    # A string that is not an id becomes -1, which is the id of no migration. The response is then
    # 404, as in Nova.
    number = int(text) if text.isascii() and text.isdigit() and len(text) < len("9" * 11) else -1
    return number if number <= _NUMBER_MAX else -1


# In Nova, `updated_at` is null until the first change of the record.
def _updated(migration: Migration) -> str | None:
    at_s = migration.updated_at_s
    return None if at_s == migration.created_at_s else naive_time(at_s)


def _links(call: Call, migration: Migration) -> tuple[Link, ...]:
    """Return the links to a migration; empty unless it is a live migration in progress.

    No other migration can be shown alone.
    """
    if not _goes_on(migration):
        return ()
    root = linker_of(call).root
    path = f"/servers/{migration.instance_uuid}/migrations/{migration.number}"
    return (
        Link(rel="self", href=f"{root}{COMPUTE}{path}"),
        Link(rel="bookmark", href=f"{root}{path}"),
    )


def _view(call: Call, migration: Migration) -> MigrationView:
    version, source, destination = call.version, migration.source, migration.destination
    links = _links(call, migration) if version >= _TYPED else ()
    return MigrationView(
        id=migration.number,
        status=migration.status,
        instance_uuid=migration.instance_uuid,
        source_compute=source.host,
        source_node=source.node,
        dest_compute=destination.host,
        dest_node=destination.node,
        dest_host=_address(call, destination.host, destination.node),
        # Nova shows the integer keys of its flavor table. Berth derives integers from flavor ids.
        old_instance_type_id=number_of(source.flavor.flavor_id) % _NUMBER_MAX,
        new_instance_type_id=number_of(destination.flavor.flavor_id) % _NUMBER_MAX,
        created_at=naive_time(migration.created_at_s),
        updated_at=_updated(migration),
        uuid=migration.uuid if version >= _PAGED else UNSET,
        migration_type=migration.kind.value if version >= _TYPED else UNSET,
        links=links or UNSET,
        user_id=migration.user_id if version >= _OWNED else UNSET,
        project_id=migration.project_id if version >= _OWNED else UNSET,
    )


def _live_view(call: Call, migration: Migration) -> LiveMigrationView:
    version, source, destination = call.version, migration.source, migration.destination
    return LiveMigrationView(
        id=migration.number,
        status=migration.status,
        server_uuid=migration.instance_uuid,
        source_compute=source.host,
        source_node=source.node,
        dest_compute=destination.host,
        dest_node=destination.node,
        dest_host=_address(call, destination.host, destination.node),
        created_at=naive_time(migration.created_at_s),
        updated_at=naive_time(migration.updated_at_s),
        uuid=migration.uuid if version >= _PAGED else UNSET,
        user_id=migration.user_id if version >= _OWNED else UNSET,
        project_id=migration.project_id if version >= _OWNED else UNSET,
    )


def _address(call: Call, host: str, node: str) -> str:
    hosts = call.parts.replica.hosts
    uuid = hosts.find(host, node)
    row = None if uuid is None else hosts.row_of(uuid)
    return "" if row is None else hosts.host(row).host_ip
