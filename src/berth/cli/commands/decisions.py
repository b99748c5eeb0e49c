"""`berth explain`, and the dry run for `berth server create`."""

import click
import msgspec

from berth.cli.connection import ApiConnection, Json, connected, rows, segment
from berth.cli.decision_output import print_decision
from berth.cli.failures import CommandError, ExitCode, end_with
from berth.cli.output import json_option, print_json
from berth.cli.server_finding import PATH
from berth.domain.compute.decision import (
    Decision,
    TriedDecision,
    Verdict,
)
from berth.domain.uuids import is_uuid


@click.command("explain")
@click.argument("request")
@json_option
@connected
def explain(api: ApiConnection, *, request: str, as_json: bool) -> None:
    """Explain the decision on a request. REQUEST is its id or the uuid of one of its servers."""
    request_id = _request_id(api, request)
    answer = api.find(f"/berth/v1/decisions/{segment(request_id)}")
    if answer is None:
        reason = (
            f"no decision on request {request_id!r}: either the request waits for a scheduler, or "
            "it does not exist; check the id"
        )
        raise CommandError(reason, ExitCode.NOT_FOUND)
    _print_answer(answer, Decision, as_json=as_json)


def try_out(api: ApiConnection, body: Json, headers: dict[str, str], *, as_json: bool) -> None:
    """Send the body of a create as a dry run, and print the decision.

    Exits with 3 when the request is refused.
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
        # A newer service may send decisions in a form that this client does not know.
        raise CommandError(f"this client cannot read the response ({error}); use --json") from error


def _request_id(api: ApiConnection, request: str) -> str:
    """Return the id of the request that led to the newest decision on an instance.

    A string that is not the uuid of a known instance is returned unchanged. For an instance in a
    child zone, this zone knows only the decision on its creation.
    """
    if not is_uuid(request):
        return request
    # An instance has a `decision_id` of its own once a move has been decided; before that the
    # decision is that of the request which created it.
    instance = api.find(f"/berth/v1/instances/{segment(request)}")
    if instance is not None:
        return str(instance.get("decision_id") or instance["request_id"])
    history = api.find(f"{PATH}/{segment(request)}/os-instance-actions") or {}
    asked = (one for one in rows(history, "instanceActions") if one.get("action") == "create")
    return next((str(one["request_id"]) for one in asked), request)
