"""Capacity: how many more servers fit, and what is left after each constraint of a query."""

from collections.abc import Mapping
from typing import Final

from berth.client.operations import Group, K, operation
from berth.client.requests import Route, Steps, Value, query_string


class HostCapacity(Value, frozen=True):
    """The number of servers that still fit on one host."""

    host: str
    node: str
    count: int


class ZoneCapacity(Value, frozen=True):
    """The number of servers that fit in a child zone; None if the child did not answer.

    With `is_partial`, the number is a lower bound.
    """

    zone: str
    count: int | None
    is_partial: bool


class Capacity(Value, frozen=True):
    """The number of servers that still fit; a lower bound if `is_partial`.

    The other fields are None unless the caller is an administrator. `hosts_total` is the number of
    hosts on which servers fit, `hosts` lists them in descending order of the number, and `zones`
    lists the child zones.
    """

    total: int
    is_partial: bool
    hosts_total: int | None = None
    hosts: tuple[HostCapacity, ...] | None = None
    zones: tuple[ZoneCapacity, ...] | None = None


class Remaining(Value, frozen=True):
    """The number of providers that remain, and of trees that can still supply a candidate."""

    providers: int
    trees: int


class ConstraintStep(Value, frozen=True):
    """A constraint of a request group (None for the query as a whole), with its effect."""

    group: str | None
    constraint: str
    names: tuple[str, ...]
    before: Remaining
    after: Remaining


class CandidatesExplanation(Value, frozen=True):
    """The providers and trees that remain after each constraint.

    `ends_at` is the index in `steps` of the first constraint that leaves no tree, or None if there
    are candidates.
    """

    fleet: Remaining
    steps: tuple[ConstraintStep, ...]
    ends_at: int | None


CAPACITY: Final = Route(
    "GET", "/berth/v1/capacity", Capacity, query=("flavor", "availability_zone", "image", "limit")
)
_EXPLAIN: Final = Route(
    "GET",
    "/berth/v1/candidates/explain",
    CandidatesExplanation,
    query=(
        "resources",
        "required",
        "member_of",
        "in_tree",
        "group_policy",
        "root_required",
        "same_subtree",
        "limit",
    ),
)


class Candidates(Group[K]):
    """Allocation candidates of the Placement API."""

    @operation
    def explain(self, query: str | Mapping[str, str]) -> Steps[CandidatesExplanation]:
        """Return how many providers and trees each constraint of a query leaves.

        Args:
            query: the query of `GET /placement/allocation_candidates`, as a string or as
                parameters; `resources`, `required`, `member_of` and `in_tree` may have the suffix
                of a request group.
        """
        # Parameters may be repeated and have suffixes, so they are not compared with the route's.
        return _EXPLAIN.ask(query=query_string(query).removeprefix("?"))
