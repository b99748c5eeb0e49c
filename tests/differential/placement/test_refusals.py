"""Berth's refusals against the real Placement's: statuses, codes and messages."""

from typing import Final

import httpx

from tests.differential.placement.answers import read_answer
from tests.differential.placement.real import Real
from tests.differential.placement.worlds import ask_berth
from tests.integration.placement_nouns import furnish
from tests.integration.placement_refusals import REFUSED
from tests.unit.api.placement.world import World

ON_PURPOSE: Final = {
    "more than there are numbers",
    "a class with a line feed",
    "an inventory of such a class",
    "a consumer with one",
    "a type with one",
}
"""Requests that Berth refuses differently, as the list of differences says."""


class Both(World):
    """A world of Berth whose requests are also sent to the real Placement."""

    def __init__(self, real: Real) -> None:
        super().__init__()
        self._real = real
        real.empty()

    async def ask(
        self, method: str, path: str, data: object = None, *, version: str = "1.39"
    ) -> httpx.Response:
        """Send a request to both, compare the classes of status, and return Berth's answer."""
        mine = await super().ask(method, path, data, version=version)
        theirs = self._real.ask(method, path, data, version=version)
        assert mine.status_code // 100 == theirs.status // 100, theirs
        return mine


async def test_both_sides_refuse_alike(real: Real) -> None:
    """Both sides refuse each request with equal answers, except for those in `ON_PURPOSE`."""
    world = Both(real)
    await furnish(world)
    apart: dict[str, object] = {}
    for name, (method, path, body, status) in REFUSED.items():
        theirs = read_answer(real.ask(method, path, body))
        mine = read_answer(await ask_berth(World(world.parts), method, path, body))
        assert mine.status == status
        if mine != theirs:
            apart[name] = (mine, theirs)
    assert apart.keys() == ON_PURPOSE, apart
