"""Handler for GET /allocation_candidates."""

from collections.abc import Iterable

from berth.api.placement.actions import PlacementCall, PlacementReply
from berth.api.placement.candidate_query import candidate_query
from berth.api.placement.errors import PlacementError
from berth.api.placement.finding import newest_of
from berth.scheduling.candidates.candidate_search import find_candidates
from berth.scheduling.candidates.query import CandidateQuery
from berth.tables.vocabulary import Vocabulary


async def list_candidates(ask: PlacementCall) -> PlacementReply:
    """List the allocations that would satisfy a request now, with summaries of the providers.

    Raises:
        PlacementError: 400 when a parameter is missing or malformed, names an unknown class or
            trait, or contradicts another.
        TooManyWaysError: the search was stopped, because the providers can be combined in too many
            ways.
    """
    query = candidate_query(ask.query, ask.minor)
    table, vocabulary = await newest_of(ask)
    check_names(query, vocabulary)
    found = find_candidates(table, query)
    return PlacementReply(
        200, ask.parts.candidates.written(table, vocabulary, query, found, ask.minor)
    )


def check_names(query: CandidateQuery, vocabulary: Vocabulary) -> None:
    """Check that every resource class and trait of a query is known.

    Raises:
        PlacementError: 400, a class or trait is unknown.
    """
    # Placement resolves the root's traits first, then group by group, and reports the first
    # unknown name.
    _check_traits((query.root_required, query.root_forbidden), vocabulary)
    for group in query.groups:
        for name in group.amounts:
            if not vocabulary.classes.is_known(name):
                problem = f"No such resource class {name}."
                raise PlacementError(
                    400, f"Invalid resource class in resources parameter: {problem}"
                )
        _check_traits((*group.required, group.forbidden), vocabulary)


def _check_traits(sets: Iterable[frozenset[str]], vocabulary: Vocabulary) -> None:
    for names in sets:
        # The names are sorted so that the reported one does not depend on the order of a set.
        for name in sorted(names):
            if not vocabulary.traits.is_known(name):
                raise PlacementError(400, f"No such trait(s): {name}.")
