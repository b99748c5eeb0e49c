"""Steps of a sequence: requests whose generations are filled in when they are sent."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from tests.differential.placement.real import headers_of
from tests.differential.placement_writes.state import State


class Seen(NamedTuple):
    """A placeholder for a provider's generation (0 without the provider), plus `ahead`."""

    provider: str
    ahead: int = 0


class Held(NamedTuple):
    """A placeholder for a consumer's generation (None without the consumer), plus `ahead`."""

    consumer: str
    ahead: int = 0


@dataclass(frozen=True, slots=True)
class Sent:
    """A request as it is sent to both sides.

    Attributes:
        method: of HTTP.
        path: quoted, with the query.
        headers: all headers.
        content: the body, if there is one.
    """

    method: str
    path: str
    headers: Mapping[str, str]
    content: str | None

    @property
    def minor(self) -> int | None:
        """The microversion without its `1.`, if the request has one of the usual form."""
        _, _, minor = self.headers.get("openstack-api-version", "").rpartition("placement 1.")
        return int(minor) if minor.isdecimal() else None


@dataclass(frozen=True, slots=True)
class Step:
    """One request.

    Attributes:
        method: of HTTP.
        path: of the Placement API, quoted, with the query.
        minor: the minor version.
        body: its JSON, with placeholders for generations, if there is a body.
        headers: headers that differ from the usual ones; None removes a header.
        spoilt: texts of the body and their replacements, which make it invalid JSON.
    """

    method: str
    path: str
    minor: int
    body: object = None
    headers: Mapping[str, str | None] = field(default_factory=dict[str, str | None])
    spoilt: tuple[tuple[str, str], ...] = ()

    def sent(self, state: State) -> Sent:
        """Return the request with the generations of the state."""
        content = None if self.body is None else json.dumps(filled(self.body, state))
        for old, new in self.spoilt:
            content = (content or "").replace(old, new, 1)
        usual = headers_of(f"1.{self.minor}", has_body=content is not None)
        told = {**usual, **self.headers}
        headers = {name: value for name, value in told.items() if value is not None}
        return Sent(self.method, self.path, headers, content)


def filled(value: object, state: State) -> object:
    """Return JSON with the generations of the state in place of placeholders."""
    match value:
        case Seen(uuid, ahead):
            provider = state.providers.get(uuid)
            return (provider.generation if provider else 0) + ahead
        case Held(uuid, ahead):
            holding = state.holdings.get(uuid)
            if holding is None:
                return ahead or None
            return holding.consumer.generation + ahead
        case dict():
            return {str(key): filled(item, state) for key, item in value.items()}
        case list():
            return [filled(item, state) for item in value]
        case _:
            return value
