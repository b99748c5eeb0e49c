"""`berth decide`: decide on a request file and a state file, and explain every step."""

from collections.abc import Sequence
from pathlib import Path

import click

from berth.cli.command import berth_command
from berth.cli.decision_output import (
    full_name,
    print_counterfactuals,
    print_filters,
    print_placements,
    print_refusal,
    print_scores,
)
from berth.cli.failures import ExitCode, end_with
from berth.cli.output import json_option, print_json, print_line, print_table
from berth.cli.request_file import read_request
from berth.cli.state_file import read_state
from berth.config.policy_file import load_policy
from berth.domain.compute.decision import Decision, Placement, Verdict, counterfactuals
from berth.domain.compute.request import Request
from berth.scheduling.plan.inspection import (
    HostInspection,
    Inspection,
    InstanceInspection,
    inspect,
)
from berth.scheduling.plan.planning import seed_of
from berth.tables.host.feed import table_of

# Number of hosts shown by default; the full tables of a fleet have thousands of lines.
_HOSTS_SHOWN = 20
_FILE = click.Path(dir_okay=False, path_type=Path)


@berth_command("decide")
@click.option("--state", "state_path", type=_FILE, required=True, help="State file.")
@click.option("--request", "request_path", type=_FILE, required=True, help="Request file.")
@click.option(
    "--policy",
    "policy_path",
    type=_FILE,
    help="Policy file or name of a ready policy; by default `default`.",
)
@click.option(
    "--seed", type=click.IntRange(0), help="Random seed; by default derived from the request id."
)
@click.option(
    "--hosts",
    "hosts_max",
    type=click.IntRange(0),
    help="Maximum number of candidates and of removed hosts to show; by default "
    f"{_HOSTS_SHOWN}, or all with --json.",
)
@json_option
def decide(
    *,
    state_path: Path,
    request_path: Path,
    policy_path: Path | None,
    seed: int | None,
    hosts_max: int | None,
    as_json: bool,
) -> None:
    """Decide on a request without a running Berth, and explain every step.

    The decision is the one that the service would make; equal files and seeds give equal choices.
    Exits with 0 when all instances are placed, 3 when the request is refused, and 2 when a file is
    invalid.
    """
    policy = load_policy(policy_path)
    state = read_state(state_path)
    request = read_request(request_path, state)
    if hosts_max is None and not as_json:
        hosts_max = _HOSTS_SHOWN
    inspection = inspect(
        table_of(state),
        request,
        policy,
        # The time is the state's, not this machine's: rules that depend on it, such as the one on
        # whether a service is up, must decide as they would have then.
        now_s=state.now_s,
        seed=seed_of(request.request_id) if seed is None else seed,
        hosts_max=hosts_max,
    )
    decision = _decision(inspection, request)
    if as_json:
        print_json({"decision": decision, "instances": inspection.instances})
    else:
        _print_inspection(inspection)
    if decision.verdict is Verdict.REFUSED:
        end_with(ExitCode.NO_VALID_HOST)


def _decision(inspection: Inspection, request: Request) -> Decision:
    """Return the record that the service would store.

    Its duration is 0, so that equal files give equal output.
    """
    placed = inspection.refusal is None
    return Decision(
        request_id=inspection.request_id,
        verdict=Verdict.PLACED if placed else Verdict.REFUSED,
        policy_name=inspection.policy_name,
        policy_hash=inspection.policy_hash,
        driver=inspection.driver,
        seed=inspection.seed,
        table_version=inspection.table_version,
        decided_at_s=inspection.now_s,
        duration_us=0,
        project_id=request.project_id,
        amounts=request.needs.amounts,
        filters=inspection.instances[-1].filters if inspection.instances else (),
        # A request is all or nothing, so a refusal drops the instances that had found a host.
        placements=tuple(
            one.placement for one in inspection.instances if placed and one.placement is not None
        ),
        refusal=inspection.refusal,
    )


def _print_inspection(inspection: Inspection) -> None:
    print_line(f"Request {inspection.request_id}", style="bold")
    print_line(
        f"policy {inspection.policy_name} ({inspection.policy_hash}), driver {inspection.driver}, "
        f"seed {inspection.seed}, state {inspection.table_version}"
    )
    # The first instance is shown, and the one that found no host; those in between differ little.
    shown = inspection.instances[:1]
    if inspection.refusal is not None and len(inspection.instances) > 1:
        shown += inspection.instances[-1:]
    for instance in shown:
        _print_instance(instance)
    placements = [one.placement for one in inspection.instances if one.placement is not None]
    if inspection.refusal is None:
        print_placements(placements)
        hosts = ", ".join(dict.fromkeys(placement.host for placement in placements))
        print_line(f"\nPlaced on {hosts}", style="bold green")
    else:
        print_line("")
        print_refusal(inspection.refusal)


def _print_instance(instance: InstanceInspection) -> None:
    print_line(f"\nInstance {instance.instance_uuid}", style="bold")
    if instance.placement is not None:
        # For an instance without a host, the refusal prints the same filters with examples.
        print_filters(instance.filters)
    if instance.removed:
        _print_removed(instance.removed, instance.removed_total)
    if instance.candidates:
        scored = [one.scored for one in instance.candidates if one.scored is not None]
        title = f"Candidates, best first{_cut(len(scored), instance.candidates_total)}"
        print_scores(scored, title=title, places=[one.place for one in instance.candidates])
    if not instance.by_weight:
        # Some drivers (a solver, for example) choose by costs; the weights are shown for
        # comparison only.
        print_line("The driver does not choose by these weights.")
    if instance.placement is None:
        return
    if instance.by_weight:
        chosen = instance.placement.chosen
        print_counterfactuals(
            instance.counterfactuals, chosen, title="Best host without each weigher"
        )
    else:
        _print_own_scores(instance.placement)
    print_line(f"Chosen: {full_name(instance.placement.host, instance.placement.node)}")


def _print_own_scores(placement: Placement) -> None:
    """Print the scores (such as costs) that a driver without weighers recorded in its plan."""
    recorded = (placement.chosen, *placement.runners_up)
    if len(recorded) > 1 or placement.chosen.parts:
        print_scores(recorded, title="Scores used by the driver, best hosts first")
    title = f"Best host without each score, of these {len(recorded)}"
    print_counterfactuals(counterfactuals(recorded), placement.chosen, title=title)


def _print_removed(removed: Sequence[HostInspection], total: int) -> None:
    """Print a matrix of hosts and filters, with the first reason against each host."""
    # Columns are numbered, since the names of a dozen filters do not fit side by side.
    columns = [str(index) for index, _ in enumerate(removed[0].verdicts, start=1)]
    rows = [
        [
            host.host,
            *("." if verdict.passed else "X" for verdict in host.verdicts),
            "" if host.removed_by is None else f"{host.removed_by.filter}: {host.removed_by.why}",
        ]
        for host in removed
    ]
    title = f"Removed hosts by filter{_cut(len(removed), total)}"
    print_table(("Host", *columns, "First reason"), rows, title=title, wrap=("First reason",))
    names = [verdict.filter for verdict in removed[0].verdicts]
    legend = ", ".join(f"{index} {name}" for index, name in enumerate(names, start=1))
    print_line(f"X removes the host: {legend}.", style="dim")


def _cut(shown: int, total: int) -> str:
    return f" ({shown:,} of {total:,})" if shown < total else ""
