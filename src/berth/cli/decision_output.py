"""Decisions as commands print them: filters, hosts, scores and refusals."""

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

_RUNNERS_UP_OF = 1
"""Instances of a request whose runners-up are shown; --json has them all."""


def print_decision(decision: Decision) -> None:
    """Print the record of a decision, or one that was only tried out."""
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
            if isinstance(decision, TriedDecision) and decision.counterfactuals:
                title = f"Who would have won, of all {placement.candidates:,}"
                print_counterfactuals(decision.counterfactuals, placement.chosen, title=title)
            elif placement.runners_up:
                title = f"Who would have won, of these {len(recorded)}"
                print_counterfactuals(counterfactuals(recorded), placement.chosen, title=title)
    else:
        print_refusal(decision.refusal)


def _print_over_tree(decision: Decision) -> None:
    """Print a decision that was made over a tree of zones, each of which keeps records itself."""
    print_line(f"driver {decision.driver}: over the tree of zones, by the offers of each")
    if decision.refusal is not None:
        print_line(f"\nRefused ({decision.refusal.code}): {decision.refusal.message}")
    rows = [(one.zone, one.instances) for one in decision.zones]
    if rows:
        title = "Which zone has got how many, with those below it"
        print_table(("Zone", "Instances"), rows, title=title, right=("Instances",))


def print_filters(filters: Sequence[FilterCount]) -> None:
    """Print how many hosts each filter removed, with some examples."""
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
    """Print which instance goes where."""
    rows = [(one.instance_uuid, one.host, one.chosen.score, one.candidates) for one in placements]
    columns = ("Instance", "Host", "Score", "Candidates")
    print_table(columns, rows, title="Placements", right=("Score", "Candidates"))
    _print_groups(placements)


def _print_groups(placements: Sequence[Placement]) -> None:
    """Print which providers give the groups of resources that were asked for."""
    rows = [
        (placement.instance_uuid, suffix or "(without suffix)", ", ".join(uuids))
        for placement in placements
        if placement.assignment is not None
        for suffix, uuids in placement.assignment.mappings.items()
    ]
    if rows:
        columns = ("Instance", "Group", "Given by")
        print_table(columns, rows, title="Groups of resources", wrap=("Given by",))


def print_scores(hosts: Sequence[ScoredHost], *, title: str, places: Sequence[object] = ()) -> None:
    """Print hosts with their scores: for each weigher the normalised value and the raw one."""
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
    """Print which host would have won without each of the weighers."""
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
    """Print why nothing was placed and what would have helped."""
    print_filters(refusal.filters)
    print_line(f"\nRefused ({refusal.code}): {refusal.message}")
    if refusal.relaxations:
        rows = [
            (one.text, one.filter, ", ".join(one.examples) or None) for one in refusal.relaxations
        ]
        title = "It would fit with one of"
        columns = ("Change", "Filter", "For example")
        print_table(columns, rows, title=title, wrap=("Change", "For example"))


def full_name(host: str, node: str) -> str:
    """Name a host, and its node when that is called otherwise."""
    return host if host == node else f"{host} ({node})"


def _short(weigher: str) -> str:
    return weigher.removeprefix("ServerGroup").removesuffix("Weigher")
