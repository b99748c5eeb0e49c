"""Prints decisions: filters, placements, scores and refusals."""

from collections.abc import Sequence

from berth.cli.output import print_line, print_table
from berth.domain.compute.decision import (
    ZONE_AWARE_DRIVER,
    Counterfactual,
    Decision,
    FilterCount,
    Placement,
    Refusal,
    ScoredHost,
    TriedDecision,
    counterfactuals,
)

# Number of instances whose runners-up are shown. The instances of a request are all alike, so their
# runners-up differ little; --json shows all of them.
_RUNNERS_UP_OF = 1


def print_decision(decision: Decision) -> None:
    """Print the record of a decision, or the result of a dry run."""
    print_line(f"Request {decision.request_id}: {decision.verdict}", style="bold")
    if decision.driver == ZONE_AWARE_DRIVER:
        _print_over_tree(decision)
        return
    print_line(
        f"policy {decision.policy_name} ({decision.policy_hash}), driver {decision.driver}, "
        f"seed {decision.seed}, state {decision.table_version}, attempt {decision.attempts}, "
        f"{decision.duration_us / 1000:,.1f} ms"
    )
    if decision.refusal is None:
        print_filters(decision.filters)
        print_placements(decision.placements)
        for placement in decision.placements[:_RUNNERS_UP_OF]:
            recorded = (placement.chosen, *placement.runners_up)
            print_scores(recorded, title="The best hosts")
            # A dry run compares all candidates. A record keeps only the runners-up, so its
            # comparison may miss a host, and the title states how many were compared.
            if isinstance(decision, TriedDecision) and decision.counterfactuals:
                title = f"Best host without each weigher, of all {placement.candidates:,}"
                print_counterfactuals(decision.counterfactuals, placement.chosen, title=title)
            elif placement.runners_up:
                title = f"Best host without each weigher, of these {len(recorded)}"
                print_counterfactuals(counterfactuals(recorded), placement.chosen, title=title)
    else:
        print_refusal(decision.refusal)


def _print_over_tree(decision: Decision) -> None:
    """Print a decision over a tree of zones; the filters and scores are in each zone's records."""
    print_line(f"driver {decision.driver}: decided over the tree of zones, by each zone's offers")
    if decision.refusal is not None:
        print_line(f"\nRefused ({decision.refusal.code}): {decision.refusal.message}")
    rows = [(one.zone, one.instances) for one in decision.zones]
    if rows:
        title = "Instances per zone, including its child zones"
        print_table(("Zone", "Instances"), rows, title=title, right=("Instances",))


def print_filters(filters: Sequence[FilterCount]) -> None:
    """Print how many hosts each filter removed, with examples."""
    # Tenants do not get these counts.
    if not filters:
        return
    # Only refusals record examples of removed hosts; without any the column is omitted.
    with_examples = any(count.removed_examples for count in filters)
    columns = ["#", "Filter", "Before", "After", "Removed"]
    columns += ["For example"] if with_examples else []
    rows: list[list[object]] = []
    for index, count in enumerate(filters, start=1):
        removed = count.before - count.after
        row: list[object] = [index, count.name, count.before, count.after, removed]
        rows.append([*row, "; ".join(count.removed_examples)] if with_examples else row)
    print_table(columns, rows, right=columns[:1] + columns[2:5], wrap=("For example",))


def print_placements(placements: Sequence[Placement]) -> None:
    """Print the host of each instance."""
    rows = [(one.instance_uuid, one.host, one.chosen.score, one.candidates) for one in placements]
    columns = ("Instance", "Host", "Score", "Candidates")
    print_table(columns, rows, title="Placements", right=("Score", "Candidates"))
    _print_groups(placements)


def _print_groups(placements: Sequence[Placement]) -> None:
    """Print the providers that satisfy each requested group of resources."""
    rows = [
        (placement.instance_uuid, suffix or "(without suffix)", ", ".join(uuids))
        for placement in placements
        if placement.assignment is not None
        for suffix, uuids in placement.assignment.mappings.items()
    ]
    if rows:
        columns = ("Instance", "Group", "Providers")
        print_table(columns, rows, title="Resource groups", wrap=("Providers",))


def print_scores(hosts: Sequence[ScoredHost], *, title: str, places: Sequence[object] = ()) -> None:
    """Print hosts with their scores, and each weigher's normalised and raw values.

    Args:
        hosts: the hosts, best first.
        title: heading of the table.
        places: rank of each host; by default 1, 2, and so on.
    """
    # Hosts may differ in their weighers; a dict keeps the order of first occurrence.
    names = list(dict.fromkeys(part.weigher for host in hosts for part in host.parts))
    rows: list[list[object]] = []
    for index, host in enumerate(hosts):
        place = places[index] if places else index + 1
        parts = {part.weigher: part for part in host.parts}
        cells = [
            f"{parts[name].normalised:.3f} × {parts[name].multiplier:g} ({parts[name].raw:,.10g})"
            if name in parts
            else None
            for name in names
        ]
        rows.append([place, full_name(host.host, host.node), f"{host.score:.6g}", *cells])
    columns = ("#", "Host", "Score", *(_short(name) for name in names))
    print_table(columns, rows, title=title, right=(columns[0], *columns[2:]))
    if names:
        print_line("Each weigher: normalised × multiplier (raw value).", style="dim")


def print_counterfactuals(
    found: Sequence[Counterfactual], chosen: ScoredHost, *, title: str
) -> None:
    """Print the host that would have won without each weigher."""
    rows = [
        (
            f"without {one.weigher}",
            "the same"
            if (one.host, one.node) == (chosen.host, chosen.node)
            else full_name(one.host, one.node),
            f"{one.score:.6g}",
        )
        for one in found
    ]
    if rows:
        print_table(("Weigher", "Host", "Score"), rows, title=title, right=("Score",))


def print_refusal(refusal: Refusal) -> None:
    """Print why a request was refused and which changes would have made it fit."""
    print_filters(refusal.filters)
    print_line(f"\nRefused ({refusal.code}): {refusal.message}")
    if refusal.relaxations:
        rows = [
            (one.text, one.filter, ", ".join(one.examples) or None) for one in refusal.relaxations
        ]
        title = "The request would fit with one of"
        columns = ("Change", "Filter", "For example")
        print_table(columns, rows, title=title, wrap=("Change", "For example"))


def full_name(host: str, node: str) -> str:
    """Return a host's name, followed by its node's name if that differs."""
    return host if host == node else f"{host} ({node})"


def _short(weigher: str) -> str:
    return weigher.removeprefix("ServerGroup").removesuffix("Weigher")
