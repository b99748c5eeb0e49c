"""What requests of all kinds have in common: the chance, the state, and the things they name."""

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
    """The chance of one step, and what there is when it is drawn.

    Args:
        draw: the chance.
        state: before the step.
        minor: microversion that is asked in.
        form: microversion whose form bodies and queries have; seldom another one.
    """

    def __init__(self, draw: Draw, state: State, minor: int, form: int) -> None:
        self.draw = draw
        self.state = state
        self.minor = minor
        self.form = form

    def provider(self) -> str:
        """Draw the uuid of a provider, mostly of one that there is."""
        there = [uuid for uuid in PROVIDERS if uuid in self.state.providers]
        return self.draw.of(there if there and not self.draw.seldom(15) else PROVIDERS)

    def in_path(self, uuid: str) -> str:
        """Write a uuid as it stands in a path, seldom in another way."""
        if not self.draw.seldom(80):
            return uuid
        return self.draw.of((UNKNOWN, uuid.upper(), uuid.replace("-", ""), "nobody", f"{uuid}0"))

    def consumer(self) -> str:
        """Draw the uuid of a consumer, as often of one that holds something as of any."""
        if self.state.holdings and self.draw.seldom(2):
            return self.draw.of(sorted(self.state.holdings))
        return self.draw.of(CONSUMERS)

    def traits(self) -> Sequence[str]:
        """Return the traits that there are."""
        made = [name for name in CUSTOM_TRAITS if name in self.state.names]
        return [*STANDARD_TRAITS, *made]

    def name_in_path(self, names: Sequence[str], one_in: int = 30) -> str:
        """Draw the name of a class or trait, seldom one that cannot be."""
        return self.draw.of(BAD_NAMES if self.draw.seldom(one_in) else names)

    def seen(self, uuid: str) -> Seen:
        """Tell the generation of a provider, seldom a wrong one."""
        return Seen(uuid, self.draw.of((-1, 1)) if self.draw.seldom(15) else 0)

    def held(self, uuid: str) -> Held:
        """Tell the generation of a consumer, seldom a wrong one."""
        return Held(uuid, self.draw.of((-1, 1)) if self.draw.seldom(15) else 0)


def minor_of(draw: Draw, since: int, until: int = NEWEST) -> int:
    """Draw a microversion, seldom one that has not what was there since a version."""
    if draw.seldom(40):
        return draw.count(0, NEWEST)
    return until if draw.seldom(3) else draw.count(since, until)
