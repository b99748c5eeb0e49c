"""The fake attester: levels that somebody sets, for tests and demos."""

from collections.abc import Mapping, Sequence

from berth.domain.compute.host import Attestation
from berth.domain.errors import UnavailableError
from berth.ports.clock import Clock


class FakeAttester:
    """Says what it was told; see the port `Attester`.

    Attributes:
        levels: by node; nodes that are not there are not known.
        is_away: it cannot be reached.
        asked: the nodes of each call.
        valid_s: how long its attestations count.
    """

    def __init__(self, levels: Mapping[str, str], clock: Clock, *, valid_s: float = 60.0) -> None:
        self.levels = dict(levels)
        self.is_away = False
        self.asked: list[tuple[str, ...]] = []
        self._clock = clock
        self.valid_s = valid_s

    async def attest(self, nodes: Sequence[str]) -> Mapping[str, Attestation]:
        """Return the levels of nodes, valid from now."""
        if self.is_away:
            raise UnavailableError("the attestation service cannot be reached")
        self.asked.append(tuple(nodes))
        until_s = self._clock.now_s() + self.valid_s
        known = (node for node in nodes if node in self.levels)
        return {node: Attestation(self.levels[node], until_s) for node in known}
