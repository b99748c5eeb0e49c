"""`berth explain`, and the dry run for `berth server create`."""

from collections.abc import Callable
from datetime import UTC, datetime
from functools import partial

import click
import msgspec

from berth.cli.command import berth_command
from berth.cli.connection import ApiConnection, Json, connected, rows, segment, texts
from berth.cli.decision_output import print_decision
from berth.cli.failures import CommandError, ExitCode, end_with
from berth.cli.output import json_option, print_json, print_line, print_table
from berth.cli.server_finding import PATH
from berth.client import NotFoundError
from berth.domain.compute.decision import (
    Decision,
    TriedDecision,
    Verdict,
)
from berth.domain.uuids import is_uuid


@berth_command("explain")
@click.argument("request")
@click.option("--server", help="Uuid of the server that the request is about.")
@json_option
@connected
def explain(api: ApiConnection, *, request: str, server: str | None, as_json: bool) -> None:
    """Explain the decision on a request. REQUEST is its id or the uuid of one of its servers.

    For a server, the newest decision is explained, and the ids of the earlier ones are listed.
    """
    answer = _find(api, request, server)
    if answer is None:
        reason = (
            f"no decision on request {request!r}: either the request waits for a scheduler, or "
            "it does not exist; check the id, or name a server in a child zone with --server"
        )
        raise CommandError(reason, ExitCode.NOT_FOUND)
    _print_answer(answer, Decision, as_json=as_json)
    if is_uuid(request) and not as_json:
        found = _found(partial(api.berth.decisions.list.document, server=request))
        _print_earlier(rows(found or {}, "decisions"), str(answer["request_id"]))


def try_out(api: ApiConnection, body: Json, key: str | None, *, as_json: bool) -> None:
    """Send the body of a create as a dry run, and print the decision.

    Exits with 3 when the request is refused.
    """
    answer = api.berth.decisions.decide_create.document(body, idempotency_key=key)
    _print_answer(answer, TriedDecision, as_json=as_json)
    if answer.get("is_partial") and not as_json:
        which = _names(texts(answer, "zones_missing"))
        print_line(f"Not all zones gave a complete answer{which}.")
    if answer["verdict"] == Verdict.REFUSED:
        end_with(ExitCode.NO_VALID_HOST)


def _names(zones: list[str]) -> str:
    """Return the names of zones as the end of a sentence; empty for tenants, who get no names."""
    return f": {', '.join(zones)}" if zones else ""


def _print_answer(answer: Json, kind: type[Decision], *, as_json: bool) -> None:
    if as_json:
        print_json(answer)
        return
    try:
        print_decision(msgspec.convert(answer, kind))
    except msgspec.ValidationError as error:
        # A newer service may send decisions in a form that this client does not know.
        raise CommandError(f"this client cannot read the response ({error}); use --json") from error


def _find(api: ApiConnection, request: str, server: str | None) -> Json | None:
    """Return the decision to which an id or the uuid of a server refers, or None.

    A service of an earlier version does not accept uuids, so the history of the server is read.
    """
    explained = api.berth.decisions.explain.document
    answer = _found(partial(explained, request, server=server))
    if answer is not None or not is_uuid(request):
        return answer
    history = api.find(f"{PATH}/{segment(request)}/os-instance-actions") or {}
    asked = (one for one in rows(history, "instanceActions") if one.get("action") == "create")
    created = next((str(one["request_id"]) for one in asked), None)
    return None if created is None else _found(partial(explained, created))


def _found(read: Callable[[], Json]) -> Json | None:
    """Return what a request reads, or None if it does not exist."""
    try:
        return read()
    except NotFoundError:
        return None


def _print_earlier(found: list[Json], newest: str) -> None:
    """Print the ids of the decisions on a server other than the newest."""
    earlier = [
        (one["request_id"], one["verdict"], _time_of(one))
        for one in found
        if one["request_id"] != newest
    ]
    if earlier:
        print_table(("Request", "Verdict", "Decided"), earlier, title="Other decisions")


def _time_of(decision: Json) -> str:
    return datetime.fromtimestamp(decision["decided_at_s"], UTC).isoformat(timespec="seconds")
