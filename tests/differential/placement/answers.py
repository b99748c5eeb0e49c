"""Answers to queries for candidates, in a form that ignores microversion and order."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple, cast

from tests.differential.placement.real import Said

Json = dict[str, Any]

_OK = 200


class Listed(NamedTuple):
    """One candidate.

    Attributes:
        amounts: (provider, class, amount) triples.
        mappings: (suffix, providers) pairs; None before 1.34.
    """

    amounts: frozenset[tuple[str, str, int]]
    mappings: frozenset[tuple[str, frozenset[str]]] | None


@dataclass(frozen=True)
class Answer:
    """An answer.

    Attributes:
        status: the HTTP status.
        code: the code of the error, from 1.23.
        text: the message of the error.
        found: the candidates, with the number of times that each is listed.
        summaries: the provider summaries by uuid, with traits in alphabetical order.
    """

    status: int
    code: str | None = None
    text: str = ""
    found: Counter[Listed] = field(default_factory=Counter[Listed])
    summaries: Mapping[str, Json] = field(default_factory=dict[str, Json])


def read_answer(said: Said) -> Answer:
    """Return an answer in comparable form.

    Raises:
        TypeError, KeyError: the answer does not have the form of this API.
    """
    if said.status != _OK:
        if not isinstance(said.json, dict):
            return Answer(said.status, text=str(said.json))
        (error,) = cast("Json", said.json)["errors"]
        return Answer(said.status, error.get("code"), error["detail"].split("\n")[-1].strip())
    body = cast("Json", said.json)
    return Answer(
        said.status,
        found=Counter(map(_listed, body["allocation_requests"])),
        summaries={uuid: _summary(one) for uuid, one in body["provider_summaries"].items()},
    )


def _listed(request: Json) -> Listed:
    given: Any = request["allocations"]
    if isinstance(given, list):  # below 1.12
        given = {one["resource_provider"]["uuid"]: one for one in given}
    amounts = frozenset(
        (uuid, name, amount)
        for uuid, one in given.items()
        for name, amount in one["resources"].items()
    )
    mappings: Json | None = request.get("mappings")
    if mappings is None:
        return Listed(amounts, None)
    return Listed(amounts, frozenset((key, frozenset(one)) for key, one in mappings.items()))


def _summary(told: Json) -> Json:
    return {**told, "traits": sorted(told["traits"])} if "traits" in told else told
