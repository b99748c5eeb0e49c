"""Handler that explains the allocation candidates of a query, or their absence."""

from berth.api.berth.schemas.candidates import ExplanationAnswer, LeftView, StepView
from berth.api.errors import HttpError
from berth.api.placement.candidate_query import candidate_query
from berth.api.placement.handlers.allocation_candidates import check_names
from berth.api.placement.reading import check_query, query_of
from berth.api.placement.schemas.queries import LIST_CANDIDATES
from berth.api.placement.versions import MINOR_MAX
from berth.api.routing import Answer, Call
from berth.scheduling.candidates.explain import Explanation, Remaining, explain

_NEWEST = LIST_CANDIDATES[-1][1]


async def explain_candidates(call: Call) -> Answer:
    """Show how many providers and trees each constraint of a query leaves.

    Raises:
        HttpError: 404 when this process does not serve the Placement API.
        PlacementError: 400 when the query is malformed, or names an unknown trait or resource
            class.
    """
    replica = call.parts.providers
    # The providers are replicated only in processes that serve the Placement API as well.
    if replica is None:
        raise HttpError(404, "This process does not serve the Placement API. Use one that does.")
    items = query_of(call.scope)
    # The query is read in the newest microversion, since this operation has no versions.
    check_query(items, _NEWEST)
    query = candidate_query(items, MINOR_MAX)
    # Traits and resource classes may be new, so the replica catches up before names are checked.
    await call.parts.follower.catch_up()
    check_names(query, replica.vocabulary)
    return Answer(_answer(explain(replica.table, query)))


def _answer(explanation: Explanation) -> ExplanationAnswer:
    steps = [
        StepView(
            group=step.group,
            constraint=step.constraint,
            names=list(step.names),
            before=_left(step.before),
            after=_left(step.after),
        )
        for step in explanation.steps
    ]
    last = explanation.ends_at
    return ExplanationAnswer(
        fleet=_left(explanation.fleet),
        steps=steps,
        ends_at=None if last is None else explanation.steps.index(last),
    )


def _left(left: Remaining) -> LeftView:
    return LeftView(providers=left.providers, trees=left.trees)
