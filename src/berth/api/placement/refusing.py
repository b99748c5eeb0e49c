"""Refused changes as clients are told them, where every route says the same."""

from collections.abc import Mapping

from berth.api.placement.errors import Code, PlacementError
from berth.services.providers.provider_writes import ProviderRefusedError, RefusalRule

Told = Mapping[RefusalRule, PlacementError]
"""What a route says of some refusals."""

AGAIN = "Another thread concurrently updated the resource provider data. Please retry your update"


def no_provider(uuid: str, where: str = "found") -> PlacementError:
    """Tell that there is no such provider; `where` ends the sentence."""
    return PlacementError(404, f"No resource provider with uuid {uuid} {where}")


def no_provider_found(uuid: str, colon: str = ": ") -> PlacementError:
    """Tell it as the routes do that say it twice."""
    sentence = f"No resource provider with uuid {uuid} found"
    return PlacementError(404, f"{sentence}{colon}{sentence}")


def concurrent(message: str = AGAIN) -> PlacementError:
    """Tell that somebody else was faster."""
    return PlacementError(409, message, Code.CONCURRENT_UPDATE)


def told(error: ProviderRefusedError, special: Told) -> PlacementError:
    """Return what to answer for a refusal.

    Args:
        error: the refusal.
        special: what the route has to say about it.
    """
    refusal = special.get(error.why)
    if refusal is not None:
        return refusal
    match error.why:
        case RefusalRule.NO_PROVIDER:
            return no_provider(error.subject)
        case RefusalRule.GENERATION | RefusalRule.CONTENDED:
            return concurrent()
        case _:
            return PlacementError(409, str(error))
