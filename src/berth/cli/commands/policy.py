"""`berth policy`: show and reload the policy in force, and check policy files."""

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, cast

import click

from berth.cli.command import berth_group
from berth.cli.connection import ApiConnection, Json, connected, part
from berth.cli.failures import ExitCode
from berth.cli.output import json_option, print_fields, print_json, print_line

# The modules of these types import NumPy, which `berth policy show` must not load.
if TYPE_CHECKING:
    from berth.scheduling.evaluation.policy import Policy
    from berth.scheduling.lint.lint_warning import LintWarning


@berth_group("policy")
def policy() -> None:
    """Show, check and reload the policy."""


@policy.command("show")
@json_option
@connected
def show(api: ApiConnection, *, as_json: bool) -> None:
    """Show the policy in force."""
    _print_policy(api.berth.policy.get.document(), as_json=as_json)


@policy.command("reload")
@json_option
@connected
def reload(api: ApiConnection, *, as_json: bool) -> None:
    """Reload the policy file now; if it is invalid, exit with 1 and change nothing."""
    answer = api.berth.policy.reload.document()
    if as_json:
        print_json(answer)
        return
    changed = answer["changed"]
    print_line("the changed policy is in force" if changed else "the policy has not changed")
    _print_policy(part(answer, "policy"), as_json=False)


@policy.command("check")
@click.argument("file", type=click.Path(path_type=Path))
@click.option(
    "--state",
    type=click.Path(path_type=Path),
    help="Check the policy against the fleet of a state file.",
)
@click.option("--strict", is_flag=True, help="Exit with 1 when there are warnings.")
@json_option
def check(*, file: Path, state: Path | None, strict: bool, as_json: bool) -> None:
    """Check a policy file without a running Berth, and list probable mistakes in it.

    FILE may be the name of a policy that is shipped with Berth.
    """
    from berth.config.policy_file import load_policy  # noqa: PLC0415 - it imports NumPy

    checked = load_policy(file)
    warnings = _warnings(checked, state)
    document = _describe(checked)
    if as_json:
        print_json({**document, "findings": [asdict(one) for one in warnings]})
    else:
        print_line(f"{file} is a valid policy")
        _print_policy(document, as_json=False)
        for one in warnings:
            print_line(f"{one.where}: {one.text}", style="yellow")
        if not warnings:
            print_line("no warnings")
    if strict and warnings:
        raise click.exceptions.Exit(int(ExitCode.FAILED))


def _warnings(checked: "Policy", state: Path | None) -> "list[LintWarning]":
    from berth.cli.state_file import read_state  # noqa: PLC0415 - it imports NumPy
    from berth.scheduling.lint.policy_lint import lint_fleet, lint_policy  # noqa: PLC0415
    from berth.tables.host.feed import table_of  # noqa: PLC0415

    found = lint_policy(checked)
    if state is not None:
        fleet = read_state(state)
        found += lint_fleet(checked, table_of(fleet), fleet.flavors, now_s=fleet.now_s)
    return found


def _describe(checked: "Policy") -> Json:
    return {
        "name": checked.name,
        "hash": checked.hash,
        "driver": checked.driver.name,
        "host_subset_size": checked.host_subset_size,
        "contended_subset_size": checked.contended_subset_size,
        "shuffle_best_same_weighed_hosts": checked.shuffle_best_same_weighed_hosts,
        "runners_up": checked.runners_up,
        "alternates": checked.alternates,
        "normalisation": checked.normalisation,
        "filters": [rule.name for rule in checked.filters],
        "weighers": [
            {"name": rule.name, "multiplier": rule.configured_multiplier}
            for rule in checked.weighers
        ],
        "costs": [{"name": cost.name, "weight": cost.weight} for cost in checked.costs],
    }


def _print_policy(answer: Json, *, as_json: bool) -> None:
    if as_json:
        print_json(answer)
        return
    fields = {key.replace("_", " "): _cell(value) for key, value in answer.items() if value != []}
    print_fields(fields)


def _cell(value: object) -> object:
    """Return a list of rules as the text of one cell; other values unchanged."""
    if not isinstance(value, list):
        return value
    texts: list[str] = []
    for item in cast("list[object]", value):
        match item:
            case {"name": str(name), "multiplier": int() | float() as factor} | {
                "name": str(name),
                "weight": int() | float() as factor,
            }:
                texts.append(f"{name} × {factor:g}")
            case {"name": str(name)}:
                texts.append(name)
            case _:
                texts.append(str(item))
    return ", ".join(texts)
