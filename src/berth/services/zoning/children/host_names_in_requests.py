"""Recognises requests that select hosts by their name, address or uuid.

A zone refuses such requests from parents and does not pass them on to children. Otherwise a parent
could learn the names of a zone's hosts letter by letter from whether a comparison yields offers.
"""

from collections.abc import Mapping
from typing import Final, Protocol

from berth.domain.compute.flavor import Flavor
from berth.domain.errors import InvalidInputError
from berth.scheduling.rules.attributes import HOST_ATTRIBUTES
from berth.scheduling.rules.json_query import attributes_of, parse

_NEAR: Final = "build_near_host_ip"
_QUERY: Final = "query"
_SCOPE: Final = "capabilities"


class FlavorAndHints(Protocol):
    """The parts of a request, or of its message, that can name hosts."""

    @property
    def flavor(self) -> Flavor:
        """The flavor, with its extra specs."""
        ...

    @property
    def hints(self) -> Mapping[str, tuple[str, ...]]:
        """The scheduler hints by name."""
        ...


def host_naming_field(request: FlavorAndHints) -> str | None:
    """Return the path of the first field that names hosts, or None if no field does."""
    # An extra spec names an attribute directly, or after the scope `capabilities:`.
    for key in request.flavor.extra_specs:
        scope, _, rest = key.partition(":")
        attribute = rest.partition(":")[0] if scope == _SCOPE else key
        if attribute in HOST_ATTRIBUTES:
            return f"flavor.extra_specs.{key[:80]}"
    if _NEAR in request.hints:
        return f"hints.{_NEAR}"
    if any(map(_query_names, request.hints.get(_QUERY, ()))):
        return f"hints.{_QUERY}"
    return None


def _query_names(text: str) -> bool:
    try:
        query = parse(text) if text.strip() else None
    except InvalidInputError:
        return False  # JsonFilter cannot parse the query either, and fails the request
    attributes = () if query is None else attributes_of(query)
    return any(attribute.path[0] in HOST_ATTRIBUTES for attribute in attributes)
