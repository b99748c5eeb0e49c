"""`berth candidates`: explain the result of an allocation candidates query."""

import click

from berth.cli.command import berth_group
from berth.cli.connection import ApiConnection, Json, connected, part, rows
from berth.cli.output import json_option, print_json, print_line, print_table


@berth_group("candidates")
def candidates() -> None:
    """Explain allocation candidates."""


@candidates.command("explain")
@click.argument("query")
@json_option
@connected
def explain(api: ApiConnection, *, query: str, as_json: bool) -> None:
    """Show how many providers and trees each constraint of a query leaves.

    QUERY is the query string of GET /placement/allocation_candidates, for example
    "resources=VCPU:1&required=HW_CPU_X86_VMX".
    """
    # The query is appended verbatim, since it may repeat parameters, and their order decides which
    # error is reported.
    answer = api.berth.candidates.explain.document(query)
    if as_json:
        print_json(answer)
        return
    fleet = part(answer, "fleet")
    print_line(f"{fleet['providers']:,} providers in {fleet['trees']:,} trees")
    steps = rows(answer, "steps")
    columns = ("Group", "Constraint", "Names", "Providers", "Trees")
    print_table(columns, map(_row, steps), right=("Providers", "Trees"), wrap=("Names",))
    ends_at: int | None = answer["ends_at"]
    if ends_at is None:
        trees = part(steps[-1], "after")["trees"]
        print_line(f"there are candidates in {trees:,} trees")
    else:
        group, constraint, names, *_ = _row(steps[ends_at])
        about = f" ({names})" if names else ""
        print_line(f"no candidates: no tree is left after {constraint}{about} of {group}")


def _row(step: Json) -> tuple[str, str, str, str, str]:
    group = {None: "all", "": "unsuffixed"}.get(step["group"], step["group"])
    before, after = part(step, "before"), part(step, "after")
    return (
        str(group),
        str(step["constraint"]),
        ", ".join(step["names"]),
        f"{before['providers']:,} to {after['providers']:,}",
        f"{before['trees']:,} to {after['trees']:,}",
    )
