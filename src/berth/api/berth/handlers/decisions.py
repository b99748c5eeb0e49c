"""Decisions: those that were made, and one tried out."""

from dataclasses import replace

from berth.api.berth.schemas.decisions import DecisionsAnswer, DecisionsQuery
from berth.api.compute.handlers.servers.server_orders import named_as_sent, read_order
from berth.api.links import limit_of
from berth.api.routing import Answer, Call
from berth.domain.compute.decision import Decision, FilterCount, Placement, Refusal
from berth.domain.errors import InvalidInputError, NotFoundError


async def list_decisions(call: Call) -> Answer:
    """List the newest decisions; of the project's own unless the caller is an administrator."""
    query = call.query(DecisionsQuery)
    limit = limit_of(call, query.limit)
    is_all = call.identity.is_admin and query.verdict is None
    fetched = limit if is_all else call.parts.limits.list_max
    found = [
        decision
        for decision in await call.parts.ledger.all(Decision, limit=fetched)
        if _may_see(call, decision) and query.verdict in {None, decision.verdict}
    ]
    return Answer(DecisionsAnswer(decisions=[_shown(call, one) for one in found[:limit]]))


async def show_decision(call: Call) -> Answer:
    """Show the decision about a request; other projects' hosts are not named."""
    request_id = call.key("request_id")
    decision = await call.parts.ledger.get(Decision, request_id)
    if decision is None or not _may_see(call, decision):
        raise NotFoundError("decision", request_id)
    return Answer(_shown(call, decision))


async def try_decision(call: Call) -> Answer:
    """Decide without doing it: the body is that of POST /servers, nothing is claimed or kept.

    Administrators are told who would have won without each weigher, which names hosts.
    """
    asked = await read_order(call, None)
    await call.parts.follower.catch_up()
    try:
        request = await call.parts.instances.request_of(asked.order)
        decision_service = call.parts.decision_service
        decide = decision_service.try_out if call.identity.is_admin else decision_service.decide
        decision = decide(request)
    except InvalidInputError as error:
        raise named_as_sent(error) from error
    return Answer(_shown(call, decision))


def _may_see(call: Call, decision: Decision) -> bool:
    return call.project_id in {None, decision.project_id}


def _shown(call: Call, decision: Decision) -> Decision:
    return decision if call.identity.is_admin else without_hosts(decision)


def without_hosts(decision: Decision) -> Decision:
    """Return a decision for those who only use the cloud: all that names hosts or zones blanked."""
    return replace(
        decision,
        filters=_counts(decision.filters),
        placements=tuple(_placement(one) for one in decision.placements),
        refusal=None if decision.refusal is None else _refusal(decision.refusal),
        zones=(),
    )


def _counts(filters: tuple[FilterCount, ...]) -> tuple[FilterCount, ...]:
    return tuple(replace(count, removed_examples=()) for count in filters)


def _placement(placement: Placement) -> Placement:
    chosen = replace(placement.chosen, host="", node="")
    return replace(
        placement,
        host="",
        node="",
        provider_uuid="",
        chosen=chosen,
        runners_up=(),
        alternates=(),
        assignment=None,
    )


def _refusal(refusal: Refusal) -> Refusal:
    relaxations = tuple(replace(one, examples=(), parts=()) for one in refusal.relaxations)
    return replace(refusal, filters=_counts(refusal.filters), relaxations=relaxations)
