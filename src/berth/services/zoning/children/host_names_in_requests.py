"""Naming hosts: requests that ask which host of a zone has a name, an address or a uuid.

A zone does not answer them for its parents, and asks none of its children: from whether there are
offers one could learn the names of its hosts, one letter after the other.
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
    """What a request asks for, or its message."""

    @property
    def flavor(self) -> Flavor:
        """The flavor, with extra specs."""
        ...

    @property
    def hints(self) -> Mapping[str, tuple[str, ...]]:
        """The hints of the scheduler."""
        ...


def host_naming_field(request: FlavorAndHints) -> str | None:
    """Return the field of a request that asks for hosts by what names them; None for none."""
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
        return False  # no rule can read it either
    attributes = () if query is None else attributes_of(query)
    return any(attribute.path[0] in HOST_ATTRIBUTES for attribute in attributes)
