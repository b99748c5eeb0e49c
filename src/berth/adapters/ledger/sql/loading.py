"""The statement that loads what a batch requires, as one row of JSON texts.

The claim path of both databases starts with this statement. One row takes one step in SQLite (see
`sqlite_batch`) and one round trip to PostgreSQL.
"""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Final

from berth.adapters.ledger.engine.codec import decode_json
from berth.adapters.ledger.engine.working_set import (
    HeldAmounts,
    InventoryLimits,
    ProviderCapacity,
    RequiredKeys,
    WorkingSet,
)
from berth.adapters.ledger.sql import schema
from berth.adapters.ledger.sql.queries import DialectName
from berth.domain.inventory.allocation import Consumer
from berth.domain.ledger.record import Kind


@dataclass(frozen=True, slots=True)
class _DialectSyntax:
    """The parts of the loading statement in the SQL of one database.

    Attributes:
        ahead: the text before SELECT.
        head: the columns before the JSON texts.
        json: a column of JSON text as a JSON value.
        gather: the expression that gathers columns of all rows into one JSON text.
        among: the condition that a column is one of the keys in a parameter.
        among_providers: the condition that a column is a provider in parameter 3, or one from which
            a consumer in parameter 2 holds something.
    """

    ahead: str
    head: str
    json: str
    gather: str
    among: str
    among_providers: str


_SYNTAX: Final[dict[DialectName, _DialectSyntax]] = {
    "sqlite": _DialectSyntax(
        # Two parts of the statement read these providers, so they are computed once.
        ahead=(
            "WITH drawn AS MATERIALIZED (SELECT value FROM json_each(?3) UNION SELECT provider_uuid"
            " FROM allocations WHERE consumer_uuid IN (SELECT value FROM json_each(?2))) "
        ),
        head="(SELECT min(first) FROM daybook), version",
        json="json({column})",
        gather="json_group_array(json_array({columns}))",
        among="{column} IN (SELECT value FROM json_each(?{number}))",
        among_providers="{column} IN (SELECT value FROM drawn)",
    ),
    "postgresql": _DialectSyntax(
        ahead="",
        # The second column is the timeline of the newest version (docs/adr/0031-timelines.md).
        head=(
            "version, coalesce((SELECT kind FROM counters"  # noqa: S608 - own names
            f" WHERE starts_with(kind, '{schema.TIMELINE}')"
            " ORDER BY last DESC, kind DESC LIMIT 1), '')"
        ),
        json="{column}::json",
        gather="coalesce(json_agg(json_build_array({columns})), '[]')::text",
        among="{column} = ANY(${number}::text[])",
        among_providers=(
            "{column} = ANY($3::text[] || ARRAY(SELECT DISTINCT provider_uuid"
            " FROM allocations WHERE consumer_uuid = ANY($2::text[])))"
        ),
    ),
}
# The number of parameters that every batch has: claim keys, consumers and providers.
_FIXED: Final = 3


def keys_in_order(required: RequiredKeys) -> list[Collection[str]]:
    """Return the keys to bind: claim keys, consumers, providers, then those of each record kind."""
    return [required.claim_keys, required.consumers, required.providers, *required.records.values()]


@cache
def loading_statement(dialect: DialectName, kinds: tuple[Kind, ...]) -> str:
    """Return the statement that loads what a batch requires, including records of these kinds.

    Its row consists of the newest version and the JSON texts. For SQLite, the first version in
    Berth's own write-ahead log (the table `daybook`) precedes both; for PostgreSQL, the newest
    timeline stands between them.
    """
    syntax = _SYNTAX[dialect]

    def gathered(columns: str, table: str, where: str) -> str:
        rows = syntax.gather.format(columns=columns)
        return f"(SELECT {rows} FROM {table} WHERE {where})"  # noqa: S608 - own names

    # A `max_unit` of 0 stands for the total, as in `Inventory.unit_max`.
    limits = "capacity, CASE max_unit WHEN 0 THEN total ELSE max_unit END, min_unit, step_size"
    held = f"consumer_uuid, provider_uuid, {syntax.json.format(column='amounts')}"
    consumers = syntax.among.format(column="consumer_uuid", number=2)
    parts = [
        syntax.head,
        gathered("key, version", "claim_keys", syntax.among.format(column="key", number=1)),
        gathered(held, "allocations", consumers),
        gathered("uuid, generation", "providers", syntax.among_providers.format(column="uuid")),
        gathered(
            f"provider_uuid, resource_class, {limits}, used, generation",
            "inventories",
            syntax.among_providers.format(column="provider_uuid"),
        ),
    ]
    for number, kind in enumerate(kinds, start=_FIXED + 1):
        table = schema.RECORD_TABLES[kind]
        key = schema.key_column(table).name
        where = syntax.among.format(column=key, number=number)
        if kind is Kind.CONSUMER:
            columns = syntax.json.format(column="body")
        else:
            columns = f"{key}, {'revision' if kind is Kind.INSTANCE else '1'}"
        parts.append(gathered(columns, table.name, where))
    return f"{syntax.ahead}SELECT {', '.join(parts)} FROM head"  # noqa: S608 - own names


def working_set_of(kinds: Sequence[Kind], version: int, texts: Sequence[str]) -> WorkingSet:
    """Return the working set that the version and the JSON texts of a loaded row describe.

    `kinds` are those that were passed to `loading_statement`.
    """
    claims, held, providers, inventories, *records = texts
    texts_of = dict(zip(kinds, records, strict=True))
    consumers = decode_json(list[tuple[Consumer]], texts_of.pop(Kind.CONSUMER, "[]"))
    return WorkingSet(
        version=version,
        claimed=dict(decode_json(list[tuple[str, int]], claims)),
        revisions={
            (kind, key): revision
            for kind, text in texts_of.items()
            for key, revision in decode_json(list[tuple[str, int]], text)
        },
        capacities=_capacities_of(providers, inventories),
        held=_held(held),
        consumers={consumer.uuid: consumer for (consumer,) in consumers},
    )


def _capacities_of(providers: str, inventories: str) -> dict[str, ProviderCapacity]:
    limits: dict[str, dict[str, InventoryLimits]] = {}
    used: dict[str, dict[str, int]] = {}
    generations: dict[str, int] = {}
    rows = decode_json(list[tuple[str, str, int, int, int, int, int, int]], inventories)
    for uuid, name, capacity, unit_max, min_unit, step_size, amount, generation in rows:
        limits.setdefault(uuid, {})[name] = InventoryLimits(capacity, unit_max, min_unit, step_size)
        used.setdefault(uuid, {})[name] = amount
        # The provider's generation is the highest one in its rows: a claim increments it in the
        # inventories that it changes, not in `providers`.
        generations[uuid] = max(generations.get(uuid, 0), generation)
    return {
        uuid: ProviderCapacity(
            max(generation, generations.get(uuid, 0)), limits.get(uuid, {}), used.get(uuid, {})
        )
        for uuid, generation in decode_json(list[tuple[str, int]], providers)
    }


def _held(text: str) -> dict[str, HeldAmounts]:
    held: dict[str, dict[str, dict[str, int]]] = {}
    for consumer, provider, amounts in decode_json(list[tuple[str, str, dict[str, int]]], text):
        held.setdefault(consumer, {})[provider] = amounts
    return dict(held)
