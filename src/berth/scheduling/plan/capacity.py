"""Capacity: the number of further instances that would fit, host by host."""

from dataclasses import dataclass

import numpy as np

from berth.domain.compute.needs import Needs
from berth.domain.compute.request import Request
from berth.scheduling.evaluation.filter_chain import FilterChain
from berth.scheduling.evaluation.policy import Policy
from berth.scheduling.granular.group_fit import counts_of
from berth.scheduling.granular.tree_request import tree_request_of
from berth.scheduling.rules.reduction import reduce_hosts
from berth.scheduling.rules.rule import Query
from berth.tables.columnar.bitsets import Rows
from berth.tables.columnar.class_columns import Ints
from berth.tables.host.hosts import HostTable


@dataclass(frozen=True, slots=True)
class Capacity:
    """The hosts that pass the filters, and the number of further instances that fit on each.

    `rows` and `counts` are (K,).
    """

    rows: Rows
    counts: Ints

    @property
    def total(self) -> int:
        """The number of further instances that fit on all hosts together."""
        return int(self.counts.sum())


def capacity_for(hosts: HostTable, request: Request, policy: Policy, *, now_s: float) -> Capacity:
    """Return how many instances like those of the request fit on each host.

    A host is included if it passes every filter for one instance; its scarcest class then limits
    the number. An instance that requests no resources fits once on each host. Rules that depend on
    earlier instances of the request (groups) are evaluated for the first instance only.

    Args:
        hosts: the table.
        request: describes one instance; its number of instances is ignored.
        policy: the rules in force.
        now_s: Unix seconds, for heartbeats.

    Raises:
        InvalidInputError: the flavor, the image or a hint is invalid.
    """
    group = None if request.group_uuid is None else hosts.server_groups.get(request.group_uuid)
    query = Query(request, request.needs, now_s, group, request.instance_uuids[0])
    # The effective filters are used, since drivers such as `simple` add a limit of their own.
    filters = policy.effective(request.operation).filters
    chain = FilterChain(hosts, filters, reduce_hosts(hosts, request))
    rows = np.flatnonzero(chain.run(query).mask)
    counts = np.full(rows.size, np.iinfo(np.int64).max, dtype=np.int64)
    for name, amount in query.needs.amounts.items():
        columns = hosts.resource(name)
        # Free amounts are negative on hosts that are overcommitted beyond their ratio.
        free = 0 if columns is None else columns.free[rows]
        np.minimum(counts, np.maximum(free, 0) // amount, out=counts)
    # Without amounts, no class limits the number, and the filters are known to pass one instance.
    if not query.needs.amounts:
        counts[:] = 1
    if query.needs.groups or len(hosts.trees):
        _count_on_trees(hosts, query.needs, rows, counts)
    return Capacity(rows, counts)


def _count_on_trees(hosts: HostTable, needs: Needs, rows: Rows, counts: Ints) -> None:
    """Replace the counts of hosts with children, or of all hosts if the request has groups."""
    everywhere = bool(needs.groups)
    indices = [i for i, row in enumerate(rows.tolist()) if everywhere or hosts.trees.on_row(row)]
    # Division is exact on a single provider only: on a tree, instances compete for providers.
    if needs.groups or needs.amounts:
        counts[indices] = counts_of(hosts, tree_request_of(needs), rows[indices].tolist())
