"""An attester with fixed levels, for tests."""

from collections.abc import Mapping, Sequence

from berth.domain.compute.host import Attestation
from berth.domain.errors import UnavailableError
from berth.ports.clock import Clock


class FakeAttester:
    """Returns the levels that a test sets; see the port `Attester`.

    Args:
        levels: the level of each node.
        clock: provides the time from which attestations are valid.
        valid_s: validity of an attestation in seconds.

    Attributes:
        levels: the level of each node; other nodes are unknown.
        is_away: whether calls fail as if the service were unreachable.
        asked: the nodes of each successful call.
        valid_s: validity of an attestation in seconds.
    """

    def __init__(self, levels: Mapping[str, str], clock: Clock, *, valid_s: float = 60.0) -> None:
        self.levels = dict(levels)
        self.is_away = False
        self.asked: list[tuple[str, ...]] = []
        self._clock = clock
        self.valid_s = valid_s

    async def attest(self, nodes: Sequence[str]) -> Mapping[str, Attestation]:
        """Return the attestations of the known nodes, valid for the next `valid_s` seconds.

        Raises:
            UnavailableError: `is_away` is set.
        """
        if self.is_away:
            raise UnavailableError("the attestation service cannot be reached")
        self.asked.append(tuple(nodes))
        until_s = self._clock.now_s() + self.valid_s
        known = (node for node in nodes if node in self.levels)
        return {node: Attestation(self.levels[node], until_s) for node in known}
