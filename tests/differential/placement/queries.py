"""Random queries for allocation candidates, in any microversion."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final
from urllib.parse import urlencode

from tests.differential.drawing import Draw
from tests.differential.placement.forests import AGGREGATES, CLASSES, SHARES, TRAITS, Node

OLDEST: Final = 10
NEWEST: Final = 39
UNKNOWN: Final = "99999999-9999-4999-8999-999999999999"

_NUMBERED = ("1", "2", "37", "4")
_NAMED = ("1", "_A", "-b_2", "Z")
_NAMED_ONLY = ("_NODE", "_TOP")
_LARGE = (2**31 - 1, 2**31)
_PAIR = 2


@dataclass(frozen=True, slots=True)
class Asked:
    """A query: its minor version, and its parameters in order."""

    minor: int
    items: tuple[tuple[str, str], ...]

    def path(self, *without: str) -> str:
        """Return the path of the query without some parameters."""
        kept = [(key, value) for key, value in self.items if key not in without]
        return f"/allocation_candidates?{urlencode(kept)}"

    def every(self, name: str) -> list[str]:
        """Return the values of a parameter."""
        return [value for key, value in self.items if key == name]


def draw_query(draw: Draw, forest: Sequence[Node]) -> Asked:
    """Draw a query.

    Most queries have only parameters that their microversion knows; others must be refused.
    """
    minor = draw.count(OLDEST, NEWEST) if draw.seldom(3) else NEWEST
    drawn = _Drawn(draw, forest, NEWEST if draw.seldom(12) else minor)
    items = drawn.items()
    if draw.seldom(25):
        items = [_unknown(*item) for item in items]
    if draw.seldom(12):
        items = [_spoiled(draw, *item) if draw.seldom(3) else item for item in items]
    return Asked(minor, tuple(items))


class _Drawn:
    """The parameters of one query.

    Args:
        draw: the random source.
        forest: the providers that it is about.
        minor: the minor version whose parameters it may use.
    """

    def __init__(self, draw: Draw, forest: Sequence[Node], minor: int) -> None:
        self._draw = draw
        self._forest = forest
        self._minor = minor

    def items(self) -> list[tuple[str, str]]:
        """Draw all parameters, with the groups in random order."""
        draw = self._draw
        suffixes = list(self._suffixes())
        groups = [self._group(suffix, draw.of((1, 1, 2))) for suffix in suffixes]
        if not suffixes or draw.seldom(2):
            groups.append(self._group("", draw.of((1, 1, 2, 3))))
        together: list[str] = []
        if suffixes and self._minor >= 36 and not draw.seldom(3):
            for name in _NAMED_ONLY[: draw.of((0, 0, 1, 1, 2, 2))]:
                groups.append(self._group(name, 0))
                together.append(",".join((name, *draw.some(suffixes, len(suffixes)))))
            if not together or draw.seldom(2):
                together.append(",".join(draw.some(suffixes, len(suffixes)) or suffixes))
        items = [item for group in draw.shuffled(groups) for item in group]
        items += [("same_subtree", value) for value in together]
        return items + self._of_whole(len(groups))

    def _suffixes(self) -> Sequence[str]:
        if self._minor < 25:
            return ()
        names = _NAMED if self._minor >= 33 else _NUMBERED
        return names[: self._draw.of((0, 0, 1, 1, 2, 2, 2, 3, 3, 4))]

    def _of_whole(self, groups: int) -> list[tuple[str, str]]:
        draw, minor = self._draw, self._minor
        items: list[tuple[str, str]] = []
        if minor >= 25 and (groups >= _PAIR or draw.seldom(4)) and not draw.seldom(30):
            items.append(("group_policy", draw.of(("none", "isolate"))))
        if minor >= 35 and draw.seldom(3):
            traits = draw.some((*TRAITS, f"!{TRAITS[0]}", f"!{SHARES}"), 2) or [TRAITS[1]]
            items.append(("root_required", ",".join(traits)))
        if minor >= 16 and draw.seldom(4):
            items.append(("limit", draw.of(("1", "2", "3", "1000"))))
        return items

    def _group(self, suffix: str, classes: int) -> list[tuple[str, str]]:
        draw = self._draw
        items: list[tuple[str, str]] = []
        if classes:
            names = draw.shuffled(CLASSES)[:classes]
            few = _LARGE if draw.seldom(40) else (1, 1, 1, 2, 3)
            amounts = [f"{name}:{draw.of(few)}" for name in names]
            items.append((f"resources{suffix}", ",".join(amounts)))
        items += self._filters(suffix, 4 if classes else 2)
        return items or [(f"required{suffix}", TRAITS[0])]

    def _filters(self, suffix: str, one_in: int) -> list[tuple[str, str]]:
        draw, minor = self._draw, self._minor
        items: list[tuple[str, str]] = []
        if minor >= 17 and draw.seldom(one_in):
            times = draw.of((1, 1, 2)) if minor >= 39 else 1
            items += [(f"required{suffix}", self._required()) for _ in range(times)]
        if minor >= 21 and draw.seldom(one_in + 1):
            times = draw.of((1, 2, 2)) if minor >= 24 else 1
            items += [(f"member_of{suffix}", self._member_of()) for _ in range(times)]
        if minor >= 31 and draw.seldom(8):
            uuid = UNKNOWN if draw.seldom(20) else draw.of(self._forest).uuid
            items.append((f"in_tree{suffix}", uuid))
        return items

    def _required(self) -> str:
        draw, minor = self._draw, self._minor
        if minor >= 39 and draw.seldom(3):
            return "in:" + ",".join(draw.some(TRAITS, 3) or TRAITS[:1])
        traits: list[str] = draw.some(TRAITS, 2)
        if minor >= 22 and (not traits or draw.seldom(3)):
            left = [one for one in (*TRAITS, SHARES) if one not in traits]
            traits.append(f"!{draw.of(left)}")
        return ",".join(traits or TRAITS[:1])

    def _member_of(self) -> str:
        draw = self._draw
        uuids = draw.some((*AGGREGATES, UNKNOWN), 3) or [AGGREGATES[0]]
        value = uuids[0] if len(uuids) == 1 and draw.seldom(2) else "in:" + ",".join(uuids)
        return f"!{value}" if self._minor >= 32 and draw.seldom(3) else value


def _unknown(key: str, value: str) -> tuple[str, str]:
    """Return the parameter with an unknown name added."""
    if key.startswith("resources"):
        return key, f"{value},CUSTOM_UNKNOWN:1"
    return key, f"{value},CUSTOM_UNKNOWN" if "required" in key else value


def _spoiled(draw: Draw, key: str, value: str) -> tuple[str, str]:
    """Return the parameter with another meaning, or with none."""
    return draw.of(
        (
            (key, ""),
            (key, f"{value},"),
            (key, f" {value}"),
            (key, value.replace(":", "=")),
            (key, value.lower()),
            (key, f"in:{value}"),
            (key, f"!{value}"),
            (key, f"!!{value}"),
            (key, value.replace("1", "0")),
            (key, value.replace("1", "4294967296")),
            (key, value.replace("1", "-1")),
            (key, value.replace("-", "")),
            (f"{key}x", value),
            (f"{key}_", value),
            (f"{key}0", value),
            (f"{key}{'s' * 65}", value),
            (key.upper(), value),
        )
    )
