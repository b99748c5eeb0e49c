"""The wanted differences from Placement, as data: their conditions and reasons."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

from tests.differential.placement.comparing import Difference, bare, differences
from tests.differential.placement.forests import SHARES
from tests.differential.placement.worlds import Pair

_OK = 200
_REFUSED = 400
_FAILED = 500

P = TypeVar("P")


@dataclass(frozen=True, slots=True)
class Excuse(Generic[P]):
    """One wanted difference between the answers of the two sides.

    Attributes:
        name: a short name.
        reason: what Placement does differently.
        whats: the kinds of differences that it explains.
        holds: tells whether it explains a difference.
    """

    name: str
    reason: str
    whats: frozenset[str]
    holds: Callable[[P, Difference], bool]


def excused_by(pair: Pair, one: Difference) -> str | None:
    """Return the name of the excuse for a difference, None without an excuse."""
    return next(
        (each.name for each in EXCUSES if one.what in each.whats and each.holds(pair, one)), None
    )


def unexcused(pair: Pair) -> list[Difference]:
    """Return the differences without an excuse."""
    return [one for one in differences(pair) if excused_by(pair, one) is None]


def _is_law(pair: Pair) -> bool:
    """Tell whether Berth lists what trying every arrangement finds, or a part up to the limit."""
    law, listed = pair.law(), pair.berth.found
    limits = pair.asked.every("limit")
    if not limits:
        return listed == law
    return not listed - law and listed.total() == min(int(limits[0]), law.total())


def _mixes_amounts(pair: Pair, _: Difference) -> bool:
    query = pair.query()
    if query is None or "none" in pair.asked.every("group_policy"):
        return False
    plain = {name for group in query.groups if not group.suffix for name in group.amounts}
    others = {name for group in query.groups if group.suffix for name in group.amounts}
    return bool(plain & others) and _is_law(pair)


def _loses_anchors(pair: Pair, _: Difference) -> bool:
    query = pair.query()
    if query is None or all(group.suffix for group in query.groups):
        return False
    plain = {name for group in query.groups if not group.suffix for name in group.amounts}
    sharing = {one.uuid for one in pair.providers if SHARES in one.traits}
    missing = pair.berth.found - pair.whole.found
    could_share = all(
        {name for uuid, name, _ in one.amounts if uuid in sharing} >= plain for one in missing
    )
    return not (pair.whole.found - pair.law()) and could_share and _is_law(pair)


def _fails(pair: Pair, _: Difference) -> bool:
    shares = any(SHARES in one.traits and one.parent_uuid for one in pair.providers)
    return pair.real.status == _FAILED and pair.berth.status == _OK and shares and _is_law(pair)


def _hides_names(pair: Pair, _: Difference) -> bool:
    said = pair.berth.text
    is_name = "No such trait" in said or "No such resource class" in said
    is_empty = pair.real.status == _OK and not pair.real.found
    return pair.berth.status == _REFUSED and is_name and is_empty


def _names_another(pair: Pair, _: Difference) -> bool:
    query = pair.query()
    if query is None:
        return False
    sets = [query.root_required, query.root_forbidden]
    for group in query.groups:
        sets += [*group.required, group.forbidden]
    said = "No such trait(s): {}."
    told = {bare(pair.berth.text), bare(pair.real.text)}
    return any(told <= {bare(said.format(name)) for name in names} for names in sets)


_CANDIDATES = frozenset({"found", "shown", "limit", "told", "listed"})

EXCUSES: Sequence[Excuse[Pair]] = (
    Excuse(
        "amounts mixed up",
        "Placement adds amounts of the unsuffixed group to those of a group with a suffix in place "
        "unless group_policy is none, so later products see the sums of earlier ones.",
        _CANDIDATES,
        _mixes_amounts,
    ),
    Excuse(
        "lost anchors",
        "If sharing providers alone satisfy the unsuffixed group, Placement lists only one tree.",
        _CANDIDATES,
        _loses_anchors,
    ),
    Excuse(
        "fails on a sharing child",
        "Placement raises KeyError if it finds a sharing provider that is not a root and nothing "
        "else of its tree.",
        frozenset({"status"}),
        _fails,
    ),
    Excuse(
        "hidden names",
        "Placement looks at groups one after the other, and one that nobody fits ends that; Berth "
        "looks at all names first.",
        frozenset({"status"}),
        _hides_names,
    ),
    Excuse(
        "one of several names",
        "Of several unknown traits of one parameter Placement tells the one that its walk through "
        "a set comes to first, which differs from process to process; Berth tells the first by "
        "the alphabet.",
        frozenset({"text"}),
        _names_another,
    ),
)
