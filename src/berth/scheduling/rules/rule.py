"""The plugin interface of rules: filters remove hosts, weighers score the remaining ones.

A rule is a value that holds pure functions over the host table and a query, without state. The
function at its entry point builds it once from its options.
"""

import math
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from berth.domain.compute.decision import Relaxation
from berth.domain.compute.needs import Needs
from berth.domain.compute.request import Request
from berth.domain.compute.server_group import ServerGroup
from berth.domain.hardware.assignment import Assignment
from berth.tables.columnar.bitsets import Mask, Rows, Selection
from berth.tables.columnar.class_columns import Ints
from berth.tables.host.hosts import HostTable
from berth.tables.host.occupants import Resident
from berth.tables.host.resident_columns import Attributes

Scores = NDArray[np.float64]


class Normalisation(StrEnum):
    """The methods that make the values of different weighers comparable."""

    NOVA = "nova"
    """Values are scaled between the extremes of the hosts that passed the filters;
    scores of different requests are not comparable."""
    SHARE = "share"
    """Values are shares of each host's own capacity; scores compare across requests and zones."""


class Query(NamedTuple):
    """A request prepared for the rules: needs resolved, server group looked up, time fixed.

    `instance_uuid` names the instance of the request that is being placed.
    """

    request: Request
    needs: Needs
    now_s: float
    group: ServerGroup | None
    instance_uuid: str

    @property
    def resident(self) -> Resident:
        """The instance as rules see it on its host once it is placed, without an assignment."""
        return self.resident_with(None)

    def resident_with(self, assignment: Assignment | None) -> Resident:
        """Return the instance as rules see it on its host, with its assignment."""
        return resident_of(self.request, self.instance_uuid, assignment)

    @property
    def attributes(self) -> Attributes:
        """The attributes that rules may read of the placed instance, in addition to `resident`."""
        return attributes_of(self.request)


def resident_of(
    request: Request, instance_uuid: str, assignment: Assignment | None = None
) -> Resident:
    """Return the `Resident` that stands for an instance before it is built."""
    return Resident(
        uuid=instance_uuid,
        group_uuid=request.group_uuid,
        building=True,
        flavor_id=request.flavor.flavor_id,
        image_properties=request.image.properties if request.image else {},
        assignment=assignment,
    )


def attributes_of(request: Request) -> Attributes:
    """Return the attributes of a request's instance that rules may read besides its `Resident`.

    The name is that of the request. If there are several instances, each instance's own name has a
    number at its end, which this name lacks.
    """
    return Attributes(
        request.project_id,
        request.user_id,
        request.image.image_id if request.image else "",
        request.name,
        request.metadata,
    )


@dataclass(frozen=True, slots=True)
class Reads:
    """The inputs of a rule, from which the engine knows when the rule's verdict can change.

    Args:
        request: the parts of the query that the rule reads: paths of attributes of Request
            (`flavor.extra_specs`, `image.properties`, `hints.NAME`, `metadata.KEY`), `needs.` with
            a field of Needs, or `now_s`, `group`, `instance_uuid` (the row that the instance is
            on), `instance_attributes` (that row, and the attributes of the instance there),
            `group_rows` (the rows with members of an affinity group), `project_aggregates`,
            `zone_aggregates` (the aggregates that the project or the availability zone is
            restricted to). A path covers all longer paths that begin with it.
        columns: the groups of table columns that the rule reads (`journal.GROUPS`).
        row_local: True if the verdict on a row depends only on that row and the query.
    """

    request: tuple[str, ...]
    columns: tuple[str, ...]
    row_local: bool = True


Keep = Callable[[HostTable, Query, Selection], Mask | None]
"""(hosts, query, rows) -> (K,) bool, True for a host that passes.

The result is None if the rule does not apply to the query, regardless of the hosts. The verdict on
a row must not depend on the other rows in `rows`: the engine evaluates single rows and keeps their
verdicts.
"""

Why = Callable[[HostTable, Query, int], str]
"""(hosts, query, row) -> the reason why the rule removes the row, as text for an operator."""

Relax = Callable[[HostTable, Query, Rows], Sequence[Relaxation]]
"""(hosts, query, rows) -> single changes to the request that would let some of `rows` pass.

`rows` are hosts that pass every other rule and that this rule removes.
"""

Raw = Callable[[HostTable, Query, Selection], Scores | None]
"""(hosts, query, rows) -> (K,) float64, one value per row.

The result is None if the weigher does not apply to the query, regardless of the hosts. The value of
a row must not depend on the other rows in `rows`.
"""

ReadOne = Callable[[int], float]
"""(row) -> the value of one row, as a plain number."""

OfOne = Callable[[HostTable, Query], ReadOne]
"""(hosts, query) -> a function that reads one row of the table, for requests like the query.

The function returns what `raw` or `share` returns for the row, by the same operations. It is valid
as long as the table's `structure` and its list of hosts do not change.
"""


def always(value: float) -> ReadOne:
    """Return a reader that returns the same value for every row."""
    return lambda _: value


def by_array(measure: Raw, hosts: HostTable, query: Query) -> ReadOne:
    """Return a reader of one row that calls `measure` on an array of one element.

    The reader returns NaN if the weigher does not apply.
    """

    def read(row: int) -> float:
        values = measure(hosts, query, np.array((row,), dtype=np.intp))
        return math.nan if values is None else values.item(0)

    return read


Limit: TypeAlias = tuple[NDArray[np.int64], int]
"""(column, amount): the limit removes hosts whose value in the column is below the amount."""

Limits = Callable[[HostTable, Query], list[Limit] | None]
"""(hosts, query) -> limits that remove exactly the hosts that `keep` removes.

The result is None if limits cannot express the verdict on this table.
"""

Bound = Callable[[HostTable, Query], Scores | None]
"""(hosts, query) -> (N,) maximum number of further instances like the query's on each host.

A bound spares trial placements, so it may be too high but never too low for a host that passes; on
any other host it means nothing. The result is None if the rule limits no host.

`Bound` and `Repeats` answer the same question at different costs. The choice of a host for several
members of a group asks for all hosts before each decision, so a bound takes only array operations.
Capacity reports the number, so `Repeats` must be exact, and may search or simulate for each of the
rows that pass. A rule whose exact count takes only array operations derives its bound with
`bound_by`.
"""

Assign = Callable[[HostTable, Query, int], Assignment | None]
"""(hosts, query, row) -> the assignment of an instance that is placed on the row.

The driver calls it after a row is chosen. Filters that share one such function share its result.
"""

UNLIMITED: Final = int(np.iinfo(np.int64).max)
"""The count of `Repeats` on a row where placements never change the verdict."""

UNCOUNTED: Final = -1
"""The count of `Repeats` on a row where only trial placements show the number of instances."""

Repeats = Callable[[HostTable, Query, Rows], Ints]
"""(hosts, query, rows) -> (K,) int64, the number of instances that pass on each row in turn.

Each instance is placed before the next is evaluated. Where the first instance passes, counts are at
least 1, or `UNLIMITED` or `UNCOUNTED`; elsewhere they mean nothing. See `Bound` for why both exist.
"""


def unlimited(_hosts: HostTable, _query: Query, rows: Rows) -> Ints:
    """Return `UNLIMITED` for each row: the `Repeats` of a verdict that placements never change."""
    return np.full(rows.size, UNLIMITED, dtype=np.int64)


def bound_by(repeats: Repeats) -> Bound:
    """Return the bound that a rule's exact counts are, if they take only array operations."""

    def bound(hosts: HostTable, query: Query) -> Scores:
        counts = repeats(hosts, query, np.arange(len(hosts), dtype=np.intp))
        is_known = (counts != UNCOUNTED) & (counts != UNLIMITED)
        return np.where(is_known, counts, np.inf)

    return bound


StateOf = Callable[[HostTable, Query, int], Hashable]
"""(hosts, query, row) -> all that the verdicts on further instances like the query depend on.

The result is the same for rows on which equally many instances pass in turn.
"""

HoldsUntil = Callable[[HostTable, Query, Selection], float]
"""(hosts, query, rows) -> the time, in Unix seconds, until which the verdicts on `rows` hold.

Before that time, only changes of the table or the request change a verdict.
"""


@dataclass(frozen=True, slots=True)
class Filter:
    """A hard rule. See `Keep`, `Why` and `Relax` for its parts.

    `once_per_request` makes the filter run once for all instances of a request; set it if placing
    one instance cannot change the verdict for the next. `on_forced` also makes it run on forced
    hosts; set it if the ledger or the host would reject the instance. `run_on_rebuild` makes it run
    on rebuilds, which skip all other filters.
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
    """For a rule that reads `now_s`; without it, the engine cannot keep the rule's verdicts."""
    limits: Limits | None = None
    """For a rule that, for some requests, only compares columns with amounts."""
    bound: Bound | None = None
    """For a rule that admits a limited number of instances to a host; see `Bound`."""
    assign: Assign | None = None
    """For a rule that assigns resources of the host to an instance."""
    options: Mapping[str, object] = field(default_factory=dict[str, object])
    """The options, by name, that other code such as the linter reads."""
    repeats: Repeats | None = None
    """For a rule that can compute how many instances pass; without it, and unless placements cannot
    change the verdict, capacity is counted with trial placements."""
    state_of: StateOf | None = None
    """For a rule without `repeats`, so that rows with equal states share one count."""


@dataclass(frozen=True, slots=True)
class Weigher:
    """A soft rule: a quantity, normalised to [0, 1] and multiplied.

    `floor` and `ceiling` fix the ends of the scale; None takes the end from the hosts that pass.
    `multiplier_key` is the key of aggregate metadata that overrides the multiplier for the hosts
    of the aggregate (the lowest of several); empty for none. `is_penalty` negates the value of that
    key, for weighers whose own multiplier is negated. `share` expresses the quantity as a share of
    the host's own capacity, in [0, 1], for policies that normalise by share; None if the weigher
    has no such form. A `Rule` as `raw` or `share` also provides the form for one row.
    """

    name: str
    raw: Raw
    reads: Reads
    multiplier: float = 1.0
    floor: float | None = None
    ceiling: float | None = None
    multiplier_key: str = ""
    is_penalty: bool = False
    """The policy gives the multiplier as a penalty, so aggregate metadata is also negated."""
    share: Raw | None = None
    raw_of_one: OfOne | None = None
    """Reads one row faster than arrays do; the engine reads a row or two after each placement."""
    share_of_one: OfOne | None = None

    @property
    def configured_multiplier(self) -> float:
        """The multiplier as policy files contain it: that of a penalty is not negated."""
        # Unlike a negation, a subtraction cannot give a negative zero, which would be shown as -0.
        return 0.0 - self.multiplier if self.is_penalty else self.multiplier


EXAMPLES_MAX = 3
"""The maximum number of hosts that a refusal names as examples."""


def example_names(hosts: HostTable, rows: Rows) -> tuple[str, ...]:
    """Return the names of up to `EXAMPLES_MAX` of the rows, those that are first by name."""
    return hosts.names(first_rows(hosts, rows))


def first_rows(hosts: HostTable, rows: Rows) -> Rows:
    """Return up to `EXAMPLES_MAX` of the rows, those that are first by host name."""
    rank = hosts.rank[rows]
    # A partition finds the first few without sorting all rows.
    if rows.size > EXAMPLES_MAX:
        few = np.argpartition(rank, EXAMPLES_MAX)[:EXAMPLES_MAX]
        rows, rank = rows[few], rank[few]
    return rows[rank.argsort()]


def without(
    filter_name: str, subject: str, what: str, hosts: HostTable, rows: Rows
) -> list[Relaxation]:
    """Return a list of one relaxation, "without X: k hosts", or of none if there are no rows.

    Args:
        filter_name: the filter that proposes the change.
        subject: the part of the request, or the option of a rule, that is dropped.
        what: the same as text, to follow "without".
        hosts: the table.
        rows: the hosts that would then pass.
    """
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
    """Return a number of hosts as text, such as "1 host" or "1,024 hosts"."""
    return "1 host" if count == 1 else f"{count:,} hosts"
