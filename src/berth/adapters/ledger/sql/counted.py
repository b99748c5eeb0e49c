"""Statements that find what the instances of projects count for.

What is counted stands in columns of its own. Where these are not of the row's revision, as it was
written by a Berth that does not know them, the body tells.
"""

from functools import cache
from typing import Final

from berth.adapters.ledger.sql.queries import DialectName, Statement

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
    """Write what yields one text: `[project, uuid, vcpus, memory_mb]` of each instance.

    Of those that are not deleted, in the projects that are bound.
    """
    columns = f"project_id, uuid, {_sizes(dialect)}"
    found = _GATHER[dialect].format(columns=columns)
    return f"SELECT {found} FROM instances WHERE {_where(_AMONG[dialect])}"  # noqa: S608 - own names


@cache
def footprint_statement(dialect: DialectName) -> Statement:
    """Write what yields `[vcpus, memory_mb]` of each instance of the project :key."""
    item = _ITEM[dialect].format(columns=_sizes(dialect))
    where = _where(f"= {_KEY[dialect]}")
    return Statement(f"SELECT {item} AS item FROM instances WHERE {where}", ("key",), {})  # noqa: S608 - own names


def _sizes(dialect: DialectName) -> str:
    told = [_FROM_BODY[dialect].format(name=name, at=at) for at, name in enumerate(_NAMES)]
    return ", ".join(
        f"CASE WHEN counted_revision = revision THEN {name} ELSE {from_body} END"
        for name, from_body in zip(_NAMES, told, strict=True)
    )


def _where(is_asked: str) -> str:
    return f"project_id {is_asked} AND status <> 'DELETED'"
