"""`berth explain`, and how filters, scores and refusals are shown."""

from collections.abc import Sequence

import click
import msgspec

from berth.cli.connection import Connection, Json, connected, is_uuid, rows, segment
from berth.cli.failures import CommandError, ExitCode, end_with
from berth.cli.output import json_option, print_json, print_line, print_table
from berth.cli.server_finding import PATH
from berth.domain.compute.decision import (
    OVER_TREE,
    Counterfactual,
    Decision,
    FilterCount,
    Placement,
    Refusal,
    ScoredHost,
    TriedDecision,
    Verdict,
    counterfactuals,
)

_RUNNERS_UP_OF = 1
"""Instances of a request whose runners-up are shown; --json has them all."""


@click.command("explain")
@click.argument("request")
@json_option
@connected
def explain(api: Connection, *, request: str, as_json: bool) -> None:
    """Explain how the request REQUEST was decided: its id, or the uuid of one of its servers."""
    request_id = _request_id(api, request)
    answer = api.find(f"/berth/v1/decisions/{segment(request_id)}")
    if answer is None:
        reason = f"no decision about {request_id!r}; it waits for a scheduler, or never was"
        raise CommandError(reason, ExitCode.NOT_FOUND)
    _print_answer(answer, Decision, as_json=as_json)


def try_out(api: Connection, body: Json, headers: dict[str, str], *, as_json: bool) -> None:
    """Have the body of a create decided without doing it, and print the decision.

    Ends with 3 when it is refused.
    """
    answer = api.ask("POST", "/berth/v1/decide", body=body, headers=headers)
    _print_answer(answer, TriedDecision, as_json=as_json)
    if answer["verdict"] == Verdict.REFUSED:
        end_with(ExitCode.NO_VALID_HOST)


def _print_answer(answer: Json, kind: type[Decision], *, as_json: bool) -> None:
    if as_json:
        print_json(answer)
        return
    try:
        print_decision(msgspec.convert(answer, kind))
    except msgspec.ValidationError as error:
        raise CommandError(f"this client cannot read the answer ({error}); use --json") from error


def _request_id(api: Connection, request: str) -> str:
    """Return the id of the newest decision about an instance; anything else is an id already.

    Of an instance in a child zone only the one is here that sent it there: of its creation.
    """
    if not is_uuid(request):
        return request
    instance = api.find(f"/berth/v1/instances/{segment(request)}")
    if instance is not None:
        return str(instance.get("decision_id") or instance["request_id"])
    history = api.find(f"{PATH}/{segment(request)}/os-instance-actions") or {}
    asked = (one for one in rows(history, "instanceActions") if one.get("action") == "create")
    return next((str(one["request_id"]) for one in asked), request)


def print_decision(decision: Decision) -> None:
    """Print the record of a decision, or one that was only tried out."""
    print_line(f"Request {decision.request_id}: {decision.verdict}", style="bold")
    if decision.driver == OVER_TREE:
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
