"""Assignments: the resources of the host for an instance, from all filters that assign some."""

from collections.abc import Sequence

from berth.domain.errors import InvalidInputError
from berth.domain.hardware.assignment import Assignment
from berth.scheduling.rules.rule import Filter, Query
from berth.tables.host.hosts import HostTable

_GROUPS = "needs.groups"


class Assigner:
    """Computes the assignments of instances: the merged results of all filters that assign."""

    def __init__(self, filters: Sequence[Filter]) -> None:
        # Filters may share an assign function, whose result must be merged only once.
        self._asked = tuple(
            dict.fromkeys(rule.assign for rule in filters if rule.assign is not None)
        )
        self._knows_groups = any(_GROUPS in rule.reads.request for rule in filters)

    def __call__(self, hosts: HostTable, query: Query, row: int) -> Assignment | None:
        """See `assign`."""
        if query.needs.groups and not self._knows_groups:
            raise InvalidInputError(
                "flavor.extra_specs",
                "request groups of resources, but no filter of the policy finds providers for"
                " them; add GranularGroupsFilter to the policy",
            )
        given: list[Assignment] = []
        for one in self._asked:
            part = one(hosts, query, row)
            if part is not None:
                given.append(part)
        return Assignment.merged(given) if given else None


def assign(
    hosts: HostTable, query: Query, row: int, filters: Sequence[Filter]
) -> Assignment | None:
    """Return the assignment of an instance placed on a row, or None if no filter assigns anything.

    Args:
        hosts: the table, with the request's earlier instances on it.
        query: the query of the instance.
        row: the chosen host.
        filters: the filters that apply to the request; the row passes all of them.

    Raises:
        InvalidInputError: the flavor requests groups of resources that none of the filters handles,
            or a filter cannot assign resources to the instance.
    """
    return Assigner(filters)(hosts, query, row)
