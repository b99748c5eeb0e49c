"""GranularGroupsFilter: the host's providers can supply every requested group of resources.

A group with a suffix comes from one provider of the host's tree; the unsuffixed group may be spread
over the tree (nova-behaviour.md 2.8, 6.4); see the package `granular`. A policy for hosts with
child providers must contain this filter, because the ledger rejects claims on the hosts that it
removes.
"""

from collections.abc import Sequence

from berth.domain.compute.decision import Relaxation
from berth.domain.compute.needs import Needs
from berth.scheduling.granular.explain import changes, why_not
from berth.scheduling.granular.group_fit import assign, fits_groups, repeats
from berth.scheduling.rules.rule import Filter, Query, Reads, count_hosts, example_names
from berth.tables.columnar.bitsets import Mask, Rows, Selection
from berth.tables.host.hosts import HostTable

NAME = "GranularGroupsFilter"


def build() -> Filter:
    """Build the filter; it has no options."""
    return Filter(
        name=NAME,
        keep=_keep,
        why=_why,
        relax=_relax,
        reads=Reads(
            request=(
                "needs.amounts",
                "needs.groups",
                "needs.isolate",
                "needs.traits_required",
                "needs.traits_forbidden",
                "needs.traits_any",
            ),
            columns=("used", "traits"),
        ),
        # The ledger also checks claims on forced hosts, and rejects those that do not fit.
        on_forced=True,
        assign=assign,
        repeats=repeats,
    )


def _keep(hosts: HostTable, query: Query, rows: Selection) -> Mask | None:
    return fits_groups(hosts, query.needs, rows) if _concerns(query.needs) else None


def _concerns(needs: Needs) -> bool:
    """Return whether the filter applies; if not, ResourcesFilter alone decides."""
    return bool(needs.groups or needs.traits_required or needs.traits_forbidden or needs.traits_any)


def _why(hosts: HostTable, query: Query, row: int) -> str:
    return why_not(hosts, query.needs, row)


def _relax(hosts: HostTable, query: Query, rows: Rows) -> Sequence[Relaxation]:
    return [
        Relaxation(
            filter=NAME,
            subject=change.subject,
            text=f"{change.text}: {count_hosts(change.rows.size)}",
            hosts=int(change.rows.size),
            change=change.by,
            examples=example_names(hosts, change.rows),
        )
        for change in changes(hosts, query.needs, rows)
        if change.rows.size
    ]
