"""Statements that read the footprints of projects' instances.

The row of an instance has columns for its footprint and for the revision at which the footprint was
computed. If that revision differs from the revision of the row, the row was last written by an
older version of Berth, which does not know the columns. The footprint is then read from the body.
"""

from functools import cache
from typing import Final

from berth.adapters.ledger.engine.quota_counts import REMOTE_KEY_PREFIX
from berth.adapters.ledger.sql.queries import DialectName, Statement
from berth.domain.compute.instance import Status, Task
from berth.domain.zones.zone import RemoteInstanceStage

_NAMES: Final = ("vcpus", "memory_mb")
_FROM_BODY: Final[dict[DialectName, str]] = {
    "sqlite": (
        "coalesce(json_extract(body, '$.counts_as[{at}]'), json_extract(body, '$.flavor.{name}'))"
    ),
    "postgresql": (
        "CAST(coalesce(CAST(body AS json) #>> '{{counts_as,{at}}}',"
        " CAST(body AS json) #>> '{{flavor,{name}}}') AS bigint)"
    ),
}
_BELOW: Final[dict[DialectName, str]] = {
    "sqlite": "json_extract(body, '$.counts_as[{at}]')",
    "postgresql": "CAST(CAST(body AS json) #>> '{{counts_as,{at}}}' AS bigint)",
}
_STAGE: Final[dict[DialectName, str]] = {
    "sqlite": "json_extract(body, '$.stage')",
    "postgresql": "CAST(body AS json) #>> '{stage}'",
}
_TASK: Final[dict[DialectName, str]] = {
    "sqlite": "json_extract(body, '$.task')",
    "postgresql": "CAST(body AS json) #>> '{task}'",
}
_GATHER: Final[dict[DialectName, str]] = {
    "sqlite": "json_group_array(json_array({columns}))",
    "postgresql": "coalesce(json_agg(json_build_array({columns})), '[]')::text",
}
_AMONG: Final[dict[DialectName, str]] = {
    "sqlite": "IN (SELECT value FROM json_each(?1))",
    "postgresql": "= ANY($1::text[])",
}
_ITEM: Final[dict[DialectName, str]] = {
    "sqlite": "json_array({columns})",
    "postgresql": "json_build_array({columns})::text",
}
_KEY: Final[dict[DialectName, str]] = {"sqlite": "?1", "postgresql": "$1"}


@cache
def counting_statement(dialect: DialectName) -> str:
    """Return the statement that selects one text, a JSON array of `CountedRow`.

    It has a row for each instance and remote instance that counts against the quota of one of the
    projects in the parameter.
    """
    found = _GATHER[dialect].format(columns="project_id, item_key, vcpus, memory_mb")
    rows = _counting(dialect, _AMONG[dialect])
    return f"SELECT {found} FROM ({rows}) AS counted"  # noqa: S608 - own names


@cache
def footprint_statement(dialect: DialectName) -> Statement:
    """Return the statement that selects the footprints of the instances of project :key.

    An item is `[vcpus, memory_mb]`. Only instances that count against the quota are selected.
    """
    item = _ITEM[dialect].format(columns="vcpus, memory_mb")
    # An instance with a record both here and in a child zone is counted by its record here.
    only = (
        " AND NOT EXISTS (SELECT 1 FROM instances WHERE uuid = errands.instance_uuid"
        " AND status <> 'DELETED')"
    )
    rows = _counting(dialect, f"= {_KEY[dialect]}", only)
    return Statement(f"SELECT {item} AS item FROM ({rows}) AS counted", ("key",), {})  # noqa: S608 - own names


def _counting(dialect: DialectName, is_asked: str, only: str = "") -> str:
    """Return the query for the instances and remote instances that count against quotas.

    Args:
        dialect: the SQL to use.
        is_asked: the condition that a project must meet, without its left side.
        only: a further condition for remote instances, with a leading AND.
    """
    here = f"SELECT project_id, uuid AS item_key, {_sizes(dialect)} FROM instances"  # noqa: S608
    vcpus, memory_mb = (_BELOW[dialect].format(at=at) for at in range(len(_NAMES)))
    # Remote instances that an older Berth has stored without a footprint do not count. Neither do
    # those that are being withdrawn, because the child zone is freeing them.
    below = (
        f"SELECT project_id, '{REMOTE_KEY_PREFIX}' || instance_uuid AS item_key, {vcpus} AS vcpus,"  # noqa: S608
        f" {memory_mb} AS memory_mb FROM errands"
        f" WHERE project_id {is_asked} AND {vcpus} IS NOT NULL"
        f" AND {_STAGE[dialect]} <> '{RemoteInstanceStage.WITHDRAWING}'{only}"
    )
    return f"{here} WHERE {_where(dialect, is_asked)} UNION ALL {below}"


def _sizes(dialect: DialectName) -> str:
    sizes = [_FROM_BODY[dialect].format(name=name, at=at) for at, name in enumerate(_NAMES)]
    return ", ".join(
        f"CASE WHEN counted_revision = revision THEN {name} ELSE {from_body} END AS {name}"
        for name, from_body in zip(_NAMES, sizes, strict=True)
    )


def _where(dialect: DialectName, is_asked: str) -> str:
    # A soft-deleted instance counts only while it is being restored, so that the unit that begins
    # the restore is checked against the quota.
    counts = f"(status <> '{Status.SOFT_DELETED}' OR {_TASK[dialect]} = '{Task.RESTORING}')"
    return f"project_id {is_asked} AND status <> 'DELETED' AND {counts}"
