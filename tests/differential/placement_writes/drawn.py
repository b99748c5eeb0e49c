"""Random values that requests of all kinds need, drawn from the current state."""

from collections.abc import Sequence

from tests.differential.drawing import Draw
from tests.differential.placement_writes.state import State
from tests.differential.placement_writes.steps import Held, Seen
from tests.differential.placement_writes.universe import (
    BAD_NAMES,
    CONSUMERS,
    CUSTOM_TRAITS,
    NEWEST,
    PROVIDERS,
    STANDARD_TRAITS,
    UNKNOWN,
)


class Drawn:
    """The random source of one step, and the state at that time.

    Args:
        draw: the random source.
        state: the state before the step.
        minor: the minor version of the request.
        form: the minor version whose form bodies and queries have, which rarely differs.
    """

    def __init__(self, draw: Draw, state: State, minor: int, form: int) -> None:
        self.draw = draw
        self.state = state
        self.minor = minor
        self.form = form

    def provider(self) -> str:
        """Draw the uuid of a provider, mostly of an existing one."""
        there = [uuid for uuid in PROVIDERS if uuid in self.state.providers]
        return self.draw.of(there if there and not self.draw.seldom(15) else PROVIDERS)

    def in_path(self, uuid: str) -> str:
        """Return a uuid for a path, rarely in another form or another value."""
        if not self.draw.seldom(80):
            return uuid
        return self.draw.of((UNKNOWN, uuid.upper(), uuid.replace("-", ""), "nobody", f"{uuid}0"))

    def consumer(self) -> str:
        """Draw the uuid of a consumer, in half of the cases of one with allocations."""
        if self.state.holdings and self.draw.seldom(2):
            return self.draw.of(sorted(self.state.holdings))
        return self.draw.of(CONSUMERS)

    def traits(self) -> Sequence[str]:
        """Return the existing traits."""
        made = [name for name in CUSTOM_TRAITS if name in self.state.names]
        return [*STANDARD_TRAITS, *made]

    def name_in_path(self, names: Sequence[str], one_in: int = 30) -> str:
        """Draw the name of a class or trait, rarely an invalid one."""
        return self.draw.of(BAD_NAMES if self.draw.seldom(one_in) else names)

    def seen(self, uuid: str) -> Seen:
        """Return a placeholder for a provider's generation, rarely for a wrong one."""
        return Seen(uuid, self.draw.of((-1, 1)) if self.draw.seldom(15) else 0)

    def held(self, uuid: str) -> Held:
        """Return a placeholder for a consumer's generation, rarely for a wrong one."""
        return Held(uuid, self.draw.of((-1, 1)) if self.draw.seldom(15) else 0)


def minor_of(draw: Draw, since: int, until: int = NEWEST) -> int:
    """Draw a minor version, rarely one outside the range."""
    if draw.seldom(40):
        return draw.count(0, NEWEST)
    return until if draw.seldom(3) else draw.count(since, until)
