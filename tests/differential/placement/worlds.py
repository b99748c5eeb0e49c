"""One random forest on both sides, and what both say of random queries."""

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
"""Queries that a forest is asked, as making it takes longer than asking one."""
_MAPPED_SINCE = 34
_OK = 200


@dataclass(frozen=True)
class Pair:
    """What Berth and Placement say of one query.

    Attributes:
        asked: the query.
        berth: what Berth says.
        real: what the real one says.
        whole: what it says of the query without its limit; the same when it has none.
        providers: all of the forest, as Berth's table has them.
    """

    asked: Asked
    berth: Answer
    real: Answer
    whole: Answer
    providers: Sequence[Provider]

    def query(self) -> CandidateQuery | None:
        """Return the query as Berth reads it; None when it does not."""
        try:
            return candidate_query(self.asked.items, self.asked.minor)
        except (PlacementError, ValueError):
            return None

    def law(self) -> Counter[Listed]:
        """Return all candidates that there are, found by trying every arrangement."""
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
        name: of the seed and the number that it is drawn by.
        world: Berth with it.
        queries: what is to be asked of it.
        apart: steps of making it that only one side took, or that were answered differently.
    """

    name: str
    world: World
    queries: Sequence[Asked]
    apart: Sequence[str]

    def providers(self) -> list[Provider]:
        """Return all providers with what is used of them."""
        table = self.world.parts.replica.table
        return [table.record(row) for row in table.alive_rows().tolist()]


async def make_forest(real: Real, seed: int, number: int) -> Forest:
    """Draw a forest, make it on both sides, and draw what to ask of it."""
    draw = Draw(seed, number)
    nodes = draw_forest(draw)
    world = World()
    real.empty()
    apart = [text async for text in _made(world, real, nodes)]
    await world.get("/resource_providers")  # whose table lags behind writes until somebody reads
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
    """Ask both sides, which have the forest, and Placement again without a limit."""
    version = f"1.{asked.minor}"
    answer = whole = read_answer(real.ask("GET", asked.path(), version=version))
    if answer.status == _OK and asked.every("limit"):
        whole = read_answer(real.ask("GET", asked.path("limit"), version=version))
    pair = Pair(asked, answer, answer, whole, forest.providers())
    return await ask_again(forest, pair)


async def ask_again(forest: Forest, pair: Pair) -> Pair:
    """Ask Berth alone once more."""
    asked = pair.asked
    said = await ask_berth(forest.world, "GET", asked.path(), version=f"1.{asked.minor}")
    return replace(pair, berth=read_answer(said))
