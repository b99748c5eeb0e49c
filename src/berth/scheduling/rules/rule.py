"""Rules: filters say which hosts may, weighers how good each is.

A rule is a value that holds pure functions over the host table and a query. It is made once from
its options, by the `build` function of its module, and has no state of its own.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from berth.domain.compute.decision import Relaxation
from berth.domain.compute.needs import Needs
from berth.domain.compute.request import Request
from berth.domain.compute.server_group import ServerGroup
from berth.domain.hardware.assignment import Assignment
from berth.tables.columnar.bitsets import Mask, Rows, Selection
from berth.tables.host.hosts import HostTable
from berth.tables.host.occupants import Resident

Scores = NDArray[np.float64]


class Normalisation(StrEnum):
    """How the values of different weighers become comparable."""

    NOVA = "nova"
    """Between the least and the greatest value of the hosts at hand; scores of different
    requests are not comparable."""
    SHARE = "share"
    """As shares of the host's own capacity; scores are comparable between requests and zones."""


class Query(NamedTuple):
    """A request made ready for the rules: needs resolved, group looked up, time fixed.

    `instance_uuid` is the one of the request's instances that is being placed.
    """

    request: Request
    needs: Needs
    now_s: float
    group: ServerGroup | None
    instance_uuid: str

    @property
    def resident(self) -> Resident:
        """What the instance will be on the host that it is placed on."""
        return self.resident_with(None)

    def resident_with(self, assignment: Assignment | None) -> Resident:
        """What the instance will be there, once its assignment is known."""
        return resident_of(self.request, self.instance_uuid, assignment)


def resident_of(
    request: Request, instance_uuid: str, assignment: Assignment | None = None
) -> Resident:
    """Return what rules will read of an instance that is about to be built."""
    return Resident(
        uuid=instance_uuid,
        group_uuid=request.group_uuid,
        building=True,
        flavor_id=request.flavor.flavor_id,
        image_properties=request.image.properties if request.image else {},
        assignment=assignment,
    )


@dataclass(frozen=True, slots=True)
class Reads:
    """What a rule may look at, so that engines know when its verdict can change.

    Args:
        request: what it reads of the query: paths of attributes of Request (`flavor.extra_specs`,
            `image.properties`, `hints.NAME`), `needs.` with a field of Needs, or `now_s`, `group`,
            `instance_uuid`, `group_rows` (which rows have members of an affinity group),
            `project_aggregates`, `zone_aggregates` (those that the project or the zone is kept
            in). A shorter path covers a longer one.
        columns: groups of table columns as the journal names them (`journal.GROUPS`).
        row_local: the verdict on a row depends on that row and the query alone.
    """

    request: tuple[str, ...]
    columns: tuple[str, ...]
    row_local: bool = True


Keep = Callable[[HostTable, Query, Selection], Mask | None]
"""(hosts, query, rows) -> (K,) bool, True where the host may.

None when the rule has nothing to say of the query, whatever the hosts are. The verdict on a row
must not depend on which other rows are looked at.
"""

Why = Callable[[HostTable, Query, int], str]
"""(hosts, query, row) -> why the rule removes that row, in words for an operator."""

Relax = Callable[[HostTable, Query, Rows], Sequence[Relaxation]]
"""(hosts, query, rows) -> single changes to the request that would let some of `rows` pass.

`rows` are hosts that every other rule lets pass and this one removes.
"""

Raw = Callable[[HostTable, Query, Selection], Scores | None]
"""(hosts, query, rows) -> (K,) float64, one value a row.

None when the weigher has nothing to say of the query, whatever the hosts are. The value of a row
must not depend on which other rows are looked at.
"""

ReadOne = Callable[[int], float]
"""(row) -> the value of one row, as a plain number."""

OfOne = Callable[[HostTable, Query], ReadOne]
"""(hosts, query) -> how to read one row of the table, for requests of that kind.

What is read is what `raw` or `share` says of the row alone, from the same operations. It holds for
the table as long as its `structure` does.
"""


def always(value: float) -> ReadOne:
    """Return how to read what is the same for every row."""
    return lambda _: value


def by_array(measure: Raw, hosts: HostTable, query: Query) -> ReadOne:
    """Return how to read one row by way of arrays; not a number where there is nothing to say."""

    def read(row: int) -> float:
        values = measure(hosts, query, np.array((row,), dtype=np.intp))
        return math.nan if values is None else values.item(0)

    return read


Limit: TypeAlias = tuple[NDArray[np.int64], int]
"""(column, amount): hosts with less in the column are removed."""

Limits = Callable[[HostTable, Query], list[Limit] | None]
"""(hosts, query) -> limits that remove exactly the hosts that `keep` removes; None when there is
more to it on this table."""

Assign = Callable[[HostTable, Query, int], Assignment | None]
"""(hosts, query, row) -> what an instance that is placed on that row gets there.

It is asked once the row is chosen. Filters that share one such function share its answer.
"""

HoldsUntil = Callable[[HostTable, Query, Selection], float]
"""(hosts, query, rows) -> Unix seconds until which no verdict on `rows` changes by time alone."""


@dataclass(frozen=True, slots=True)
class Filter:
    """A hard rule. See `Keep`, `Why` and `Relax` for its parts.

    `once_per_request` says that virtual consumption cannot change its verdict, so that a request
    for n instances asks it once. `on_forced` says that it holds for forced hosts too, because
    the ledger or the host would refuse what it refuses.
    """

    name: str
    keep: Keep
    why: Why
    relax: Relax
    reads: Reads
    once_per_request: bool = False
    on_forced: bool = False
    run_on_rebuild: bool = False
    holds_until: HoldsUntil | None = None
    """For a rule that reads `now_s`; without it no engine can keep its verdicts."""
    limits: Limits | None = None
    """For a rule that may come to comparing columns with amounts."""
    assign: Assign | None = None
    """For a rule that works out what of the host an instance gets."""
    options: Mapping[str, object] = field(default_factory=dict[str, object])
    """Options that others have to know too, by name."""


@dataclass(frozen=True, slots=True)
class Weigher:
    """A soft rule: a quantity, normalised to [0, 1] and multiplied.

    `floor` and `ceiling` fix the ends of the scale; None takes the end from the hosts at hand.
    `multiplier_key` is the key of aggregate metadata that overrides the multiplier for the hosts
    of the aggregate (the least of several); empty when there is none. `share` measures the same
    in [0, 1] of the host's own capacity, for policies that normalise by share; None when the
    weigher cannot say it so.
    """

    name: str
    raw: Raw
    reads: Reads
    multiplier: float = 1.0
    floor: float | None = None
    ceiling: float | None = None
    multiplier_key: str = ""
    is_penalty: bool = False
    """The policy gives the multiplier as a penalty, so aggregate metadata is negated too."""
    share: Raw | None = None
    raw_of_one: OfOne | None = None
    """For weighers that are asked about a row or two after every placement: arrays cost more."""
    share_of_one: OfOne | None = None


EXAMPLES_MAX = 3
"""Hosts named as examples in a refusal."""


def example_names(hosts: HostTable, rows: Rows) -> tuple[str, ...]:
    """Return the names of some of the rows: the first by name, whatever the order of rows."""
    return hosts.names(first_rows(hosts, rows))


def first_rows(hosts: HostTable, rows: Rows) -> Rows:
    """Return the few rows that come first by host name."""
    rank = hosts.rank[rows]
    if rows.size > EXAMPLES_MAX:
        few = np.argpartition(rank, EXAMPLES_MAX)[:EXAMPLES_MAX]
        rows, rank = rows[few], rank[few]
    return rows[rank.argsort()]


def without(
    filter_name: str, subject: str, what: str, hosts: HostTable, rows: Rows
) -> list[Relaxation]:
    """Return the relaxation "without X: k hosts", or nothing when there are no rows."""
    if not rows.size:
        return []
    return [
        Relaxation(
            filter=filter_name,
            subject=subject,
            text=f"without {what}: {count_hosts(rows.size)}",
            hosts=int(rows.size),
            examples=example_names(hosts, rows),
        )
    ]


def count_hosts(count: int) -> str:
    """Say a number of hosts in words."""
    return "1 host" if count == 1 else f"{count:,} hosts"
