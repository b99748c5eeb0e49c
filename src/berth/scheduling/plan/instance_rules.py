"""Rules that read instances, and the filter that leaves out hosts with unknown instances."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

import numpy as np

from berth.domain.compute.decision import Relaxation
from berth.domain.compute.request import Operation, Request
from berth.domain.errors import PolicyError
from berth.scheduling.evaluation.policy import Policy
from berth.scheduling.rules.rule import Filter, Query, Reads, Weigher
from berth.tables.columnar.bitsets import Mask, Rows, Selection
from berth.tables.host.hosts import HostTable

NAME: Final = "InstanceInformationFilter"
"""The name of the filter that leaves hosts out, as refusals show it; policies do not name it."""

_GROUP: Final = "instances"
_WITH: Final = frozenset({_GROUP, "aggregates"})
_HINT: Final = "hints."


def reads_only_instances(rule: Filter | Weigher) -> bool:
    """Return whether a rule reads the instances of hosts and nothing else except aggregates.

    Such a rule is meaningless while instance tracking is off. A rule that reads, for example, free
    NUMA cells reads the host, although instances influence them.
    """
    columns = frozenset(rule.reads.columns)
    return _GROUP in columns and columns <= _WITH


def check_instances_tracked(policy: Policy, source: str) -> None:
    """Reject a policy with rules about instances while instance tracking is off.

    Args:
        policy: the rules.
        source: the name of the policy in errors.

    Raises:
        PolicyError: the policy has such rules; the error names them and the setting.
    """
    effective = policy.effective(Operation.CREATE)
    rules: tuple[Filter | Weigher, ...] = (*effective.filters, *effective.weighers)
    names = dict.fromkeys(rule.name for rule in rules if reads_only_instances(rule))
    names |= dict.fromkeys(cost.name for cost in policy.costs if cost.reads_instances)
    if names:
        reads = "reads" if len(names) == 1 else "read"
        raise PolicyError(
            source,
            f"{', '.join(names)} {reads} the instances of hosts, but"
            " tracking.track_instance_changes is off; turn it on, or remove the rules",
        )


def reads_instances(policy: Policy, request: Request) -> bool:
    """Return whether any rule or cost in force may read the instances of hosts for a request."""
    if any(cost.reads_instances for cost in policy.costs):
        return True
    effective = policy.effective(request.operation)
    rules: tuple[Filter | Weigher, ...] = (*effective.filters, *effective.weighers)
    return any(_may_read_instances(rule, request) for rule in rules)


def _may_read_instances(rule: Filter | Weigher, request: Request) -> bool:
    reads = rule.reads
    if _GROUP not in reads.columns:
        return False
    # A rule about groups or hints does nothing for a request without them, and such requests need
    # not wait for unknown instances to be read.
    if "group" in reads.request and request.group_uuid is None:
        return False
    hints = [one.removeprefix(_HINT) for one in reads.request if one.startswith(_HINT)]
    return not hints or any(hint in request.hints for hint in hints)


def excluding_hosts(policy: Policy, names: frozenset[str]) -> Policy:
    """Return the policy with a filter that removes hosts, because their instances are unknown.

    Args:
        policy: the rules in force.
        names: the names of these hosts.
    """
    # The filter is the first, so the counts along the chain attribute these hosts to it.
    return replace(policy, filters=(_known(names), *policy.filters))


def _known(names: frozenset[str]) -> Filter:
    # Rows are looked up in each call, because a host's row can change while its name does not.
    def unknown(hosts: HostTable) -> set[int]:
        return {row for name in names for row in hosts.host_names.of_name(name)}

    def keep(hosts: HostTable, _: Query, rows: Selection) -> Mask | None:
        chosen_rows = np.arange(len(hosts), dtype=np.intp)[rows]
        kept: Mask = ~np.isin(chosen_rows, np.fromiter(unknown(hosts), dtype=np.intp))
        return kept

    # The policy of a server group is also checked on forced hosts, so their instances must be known
    # as well.
    return Filter(NAME, keep, _why, _relax, _READS, on_forced=True)


# The filter is not row-local, so the engine keeps no verdicts: they follow from `names`, which no
# column contains.
_READS: Final = Reads(request=(), columns=(_GROUP,), row_local=False)


def _why(_hosts: HostTable, _query: Query, _row: int) -> str:
    return (
        "its instances are in doubt, and the ledger could not be read to resolve the doubt; retry"
        " when the ledger is available"
    )


def _relax(_hosts: HostTable, _query: Query, _rows: Rows) -> Sequence[Relaxation]:
    return ()
