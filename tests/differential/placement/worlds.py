"""A random forest on both sides, and their answers to random queries."""

import json
from collections import Counter
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, replace
from typing import cast

from berth.api.placement.candidate_query import candidate_query
from berth.api.placement.errors import PlacementError
from berth.domain.inventory.provider import Provider
from berth.scheduling.candidates.query import CandidateQuery
from tests.differential.drawing import Draw
from tests.differential.placement.answers import Answer, Listed, read_answer
from tests.differential.placement.forests import Json, Node, draw_forest, steps_of
from tests.differential.placement.queries import Asked, draw_query
from tests.differential.placement.real import Real, Said
from tests.property.reference_candidates import candidates
from tests.unit.api.placement.world import World

QUERIES = 20
"""The number of queries per forest; creating a forest takes longer than a query."""
_MAPPED_SINCE = 34
_OK = 200


@dataclass(frozen=True)
class Pair:
    """The answers of Berth and Placement to one query.

    Attributes:
        asked: the query.
        berth: Berth's answer.
        real: Placement's answer.
        whole: Placement's answer to the query without its limit; `real` if it has none.
        providers: all providers of the forest, from Berth's table.
    """

    asked: Asked
    berth: Answer
    real: Answer
    whole: Answer
    providers: Sequence[Provider]

    def query(self) -> CandidateQuery | None:
        """Return the query as Berth parses it, None if Berth refuses it."""
        try:
            return candidate_query(self.asked.items, self.asked.minor)
        except (PlacementError, ValueError):
            return None

    def law(self) -> Counter[Listed]:
        """Return all candidates, found by trying every arrangement; none for a refused query."""
        query = self.query()
        if query is None:
            return Counter()
        return Counter(
            Listed(
                one.amounts,
                frozenset(zip((group.suffix for group in query.groups), one.mappings, strict=True))
                if self.asked.minor >= _MAPPED_SINCE
                else None,
            )
            for one in candidates(self.providers, query)
        )


@dataclass(frozen=True)
class Forest:
    """A forest that both sides have.

    Attributes:
        name: the seed and the number that it is drawn from.
        world: Berth with the forest.
        queries: the queries to be sent.
        apart: the steps of creating it that the two sides answered differently.
    """

    name: str
    world: World
    queries: Sequence[Asked]
    apart: Sequence[str]

    def providers(self) -> list[Provider]:
        """Return all providers with their usage."""
        table = self.world.parts.replica.table
        return [table.record(row) for row in table.alive_rows().tolist()]


async def make_forest(real: Real, seed: int, number: int) -> Forest:
    """Draw a forest, create it on both sides, and draw its queries."""
    draw = Draw(seed, number)
    nodes = draw_forest(draw)
    world = World()
    real.empty()
    apart = [text async for text in _made(world, real, nodes)]
    await world.get("/resource_providers")  # a read brings the table up to the writes
    return Forest(
        f"{seed}/{number}", world, [draw_query(draw, nodes) for _ in range(QUERIES)], apart
    )


async def _made(world: World, real: Real, nodes: list[Node]) -> AsyncIterator[str]:
    for step in steps_of(nodes):
        body = step.body
        if step.of is not None:
            path = f"/resource_providers/{step.of}"
            theirs = cast("Json", real.ask("GET", path).json)["generation"]
            mine = (await world.get(path))["generation"]
            if mine != theirs:
                yield f"generation of {step.of} before {step}: Berth {mine}, Placement {theirs}"
            body = {**cast("Json", body), "resource_provider_generation": theirs}
        mine_said = await ask_berth(world, step.method, step.path, body, step.version)
        real_said = real.ask(step.method, step.path, body, version=step.version)
        if mine_said.status // 100 != real_said.status // 100:
            yield f"{step}: Berth {mine_said}, Placement {real_said}"


async def ask_berth(
    world: World, method: str, path: str, body: object = None, version: str = "1.39"
) -> Said:
    """Return Berth's answer to a request of an administrator."""
    got = await world.ask(method, path, body, version=version)
    return Said(got.status_code, json.loads(got.content) if got.content else None)


async def ask_both(real: Real, forest: Forest, asked: Asked) -> Pair:
    """Return both sides' answers to a query, and Placement's without a limit."""
    version = f"1.{asked.minor}"
    answer = whole = read_answer(real.ask("GET", asked.path(), version=version))
    if answer.status == _OK and asked.every("limit"):
        whole = read_answer(real.ask("GET", asked.path("limit"), version=version))
    pair = Pair(asked, answer, answer, whole, forest.providers())
    return await ask_again(forest, pair)


async def ask_again(forest: Forest, pair: Pair) -> Pair:
    """Return the pair with a new answer of Berth."""
    asked = pair.asked
    said = await ask_berth(forest.world, "GET", asked.path(), version=f"1.{asked.minor}")
    return replace(pair, berth=read_answer(said))
